"""Which of the nodes given a pod may go to, and how good they are beside each other."""

from __future__ import annotations

from dataclasses import replace
from time import thread_time
from typing import Literal

import pytest

from linkwise.broker.effects import Bind
from linkwise.engine.index.node_index import Query
from linkwise.engine.queue.offers import OpenOffer
from linkwise.model.settings import PlacingSettings
from linkwise.model.views import ContainerView, PodView
from linkwise.testing.cluster import (
    ASCEND,
    KOORDINATOR,
    MEMORY,
    NVIDIA,
    FakeNode,
    binds,
    broker_of,
    device_pod,
    place,
)
from linkwise.testing.nodes import ask
from support.state import state_of

NOW = 100.0


def boxes(count: int, devices: int = 2) -> list[FakeNode]:
    return [FakeNode(f"n{number}", count=devices) for number in range(count)]


def names(*found: FakeNode) -> list[str]:
    return [box.name for box in found]


@pytest.mark.rule("000.skip")
def test_a_pod_that_asks_for_no_device_may_go_anywhere_and_is_not_kept_in_mind() -> None:
    broker = broker_of(FakeNode("n"))
    plain = PodView("default", "web", "u", (ContainerView("main", limits={"cpu": "1"}),))
    given = ["n", "never-seen", "n"]
    answer = broker.filter(plain, given, NOW)
    assert (answer.nodes, answer.failed, answer.effects) == (given, {}, ())
    assert state_of(broker).asked == {}
    assert broker.prioritize(plain, ["n"], NOW) == [("n", 0)]
    assert broker.bind("u", "n", NOW).error == "pod u has not been observed yet; retry once it is"
    broker.observe([plain], NOW)
    assert broker.bind("u", "never-seen", NOW).effects == (Bind("default", "web", "u", "never-seen", None, 0),)


def test_a_pod_that_says_something_else_under_a_version_that_is_known_gets_its_own_answer() -> None:
    broker = broker_of(FakeNode("n", count=4))
    assert broker.filter(device_pod("a", 8), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("a", 2), ["n"], NOW).nodes == ["n"]


def test_only_nodes_of_the_best_class_are_returned() -> None:
    near, far = FakeNode("near", count=2), FakeNode("far", inventory=False)
    broker = broker_of(near, far)
    assert broker.filter(device_pod("a", 2), ["far", "near"], NOW).nodes == ["near"]
    assert broker.filter(device_pod("b", 2), ["far"], NOW).nodes == ["far"]


@pytest.mark.parametrize(("offer", "returned"), [("best", ["used"]), ("class", ["used", "free"])])
def test_nodes_that_others_outrank_are_returned_only_where_that_is_set(
    offer: Literal["best", "class"], returned: list[str]
) -> None:
    broker = broker_of(FakeNode("free"), FakeNode("used"), settings=PlacingSettings(offer=offer))
    place(broker, device_pod("a"), "used")
    assert broker.filter(device_pod("b"), ["free", "used"], NOW).nodes == returned


def test_no_more_nodes_are_returned_than_the_breadth() -> None:
    broker = broker_of(*boxes(8), settings=PlacingSettings(breadth=3))
    answer = broker.filter(device_pod("a"), names(*boxes(8)), NOW)
    assert len(answer.nodes) == 3
    wide = broker_of(*boxes(8), settings=PlacingSettings(breadth=0))
    assert len(wide.filter(device_pod("a"), names(*boxes(8)), NOW).nodes) == 8


def test_a_node_given_twice_is_returned_once() -> None:
    broker = broker_of(FakeNode("n"))
    for _ in range(5):  # the last rounds return all that fit
        assert broker.filter(device_pod("a"), ["n", "n", "n"], NOW).nodes == ["n"]
    assert broker.filter(device_pod("b", 3), ["n", "n"], NOW).nodes == []


def test_every_node_is_named_with_a_reason_where_none_fits() -> None:
    broker = broker_of(
        FakeNode("full"), FakeNode("small", count=1), FakeNode("other", "amd"), FakeNode("down", ready=False)
    )
    place(broker, device_pod("a", 2), "full")
    answer = broker.filter(device_pod("b", 2), ["full", "small", "other", "down", "never-seen"], NOW)
    assert answer.nodes == []
    assert answer.failed == {
        "full": "node(s) had too few free devices",
        "never-seen": "node(s) were not observed yet",
    }
    assert answer.unresolvable == {
        "small": "node(s) had too few free devices",
        "other": "node(s) had no devices of the requested kind",
        "down": "node(s) were not ready",
    }


def test_no_node_is_given_and_none_is_returned() -> None:
    answer = broker_of(FakeNode("n")).filter(device_pod("a"), [], NOW)
    assert (answer.nodes, answer.failed, answer.unresolvable) == ([], {}, {})


def test_a_node_that_is_not_ready_is_not_returned() -> None:
    broker = broker_of(FakeNode("n0"), FakeNode("n1", ready=False))
    assert broker.filter(device_pod("a"), ["n0", "n1"], NOW).nodes == ["n0"]
    broker.observe(FakeNode("n1").events(), NOW)
    assert broker.filter(device_pod("b"), ["n0", "n1"], NOW).nodes == ["n1"], "the other was offered a moment ago"


@pytest.mark.parametrize(
    ("resource", "amount"), [(NVIDIA, "-1"), (NVIDIA, "1.5"), (MEMORY, "x"), (KOORDINATOR, "150"), (ASCEND, "3")]
)
def test_an_ask_that_makes_no_sense_is_refused_everywhere_for_good(resource: str, amount: str) -> None:
    broker = broker_of(FakeNode("n"), FakeNode("m", "ring", 8))
    answer = broker.filter(device_pod("a", amount, resource), ["n", "m"], NOW)
    assert (answer.nodes, answer.failed) == ([], {})
    assert answer.unresolvable.keys() == {"n", "m"}
    assert len(set(answer.unresolvable.values())) == 1
    assert state_of(broker).unschedulable.pods() == []


def test_devices_asked_for_in_two_systems_words_are_refused_and_not_let_pass() -> None:
    broker = broker_of(FakeNode("n"))
    mixed = ContainerView("main", limits={NVIDIA: "1", MEMORY: "4"})
    pod = replace(device_pod("a"), containers=(mixed,))
    assert "use one of them" in broker.filter(pod, ["n"], NOW).unresolvable["n"]
    broker.observe([pod], NOW)
    answer = broker.bind(pod.uid, "n", NOW)
    assert "use one of them" in answer.error
    assert binds(answer.effects) == []


def test_broken_words_of_a_group_do_not_stop_a_pod() -> None:
    broker = broker_of(FakeNode("n"))
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "many"}
    pod = replace(device_pod("a", 0), annotations=gang)
    assert broker.filter(pod, ["n"], NOW).nodes == ["n"]
    admitted = broker.admit(pod)
    assert admitted.refusal == ""
    assert admitted.warnings


@pytest.mark.rule("002.pack")
def test_the_fuller_node_comes_first() -> None:
    broker = broker_of(*boxes(3, 4))
    place(broker, device_pod("a"), "n1")
    assert broker.filter(device_pod("b"), ["n0", "n1", "n2"], NOW).nodes[0] == "n1"


@pytest.mark.rule("000.normalise")
def test_ranks_are_dense_and_from_nothing_up() -> None:
    broker = broker_of(*boxes(4, 4))
    place(broker, device_pod("a", 3), "n1")
    place(broker, device_pod("b"), "n2")
    ranks = broker.prioritize(device_pod("c"), ["n0", "n1", "n2", "n3", "never-seen"], NOW)
    assert ranks == [("n0", 0), ("n1", 2), ("n2", 1), ("n3", 0), ("never-seen", 0)]


def test_the_next_pod_is_offered_other_nodes_first() -> None:
    broker = broker_of(*boxes(4), settings=PlacingSettings(breadth=2))
    first = broker.filter(device_pod("a"), names(*boxes(4)), NOW).nodes
    second = broker.filter(device_pod("b"), names(*boxes(4)), NOW).nodes
    assert set(first) | set(second) == {"n0", "n1", "n2", "n3"}


def test_pods_spread_over_equal_nodes_when_all_of_them_were_offered_before() -> None:
    broker = broker_of(*boxes(4, 8), settings=PlacingSettings(breadth=1))
    offered = [broker.filter(device_pod(f"p{number}"), names(*boxes(4)), NOW).nodes[0] for number in range(12)]
    assert {name: offered.count(name) for name in offered} == dict.fromkeys(names(*boxes(4)), 3)


def test_a_pod_is_refused_where_another_pending_one_could_go_nowhere_else() -> None:
    broker = broker_of(FakeNode("n", count=1))
    assert broker.filter(device_pod("a"), ["n"], NOW).nodes == ["n"]
    answer = broker.filter(device_pod("b"), ["n"], NOW)
    assert answer.failed == {"n": "node(s) had free devices that were just offered to other pods"}
    assert broker.filter(device_pod("a"), ["n"], NOW).nodes == ["n"]  # nobody stands in its own way
    assert broker.filter(device_pod("b"), ["n"], NOW + 2.0).nodes == ["n"]


def test_a_pod_is_offered_a_node_beside_pending_ones_that_have_a_place_elsewhere() -> None:
    broker = broker_of(FakeNode("n0", count=1), FakeNode("n1", count=1))
    broker.filter(device_pod("a"), ["n0", "n1"], NOW)
    assert set(broker.filter(device_pod("b"), ["n0", "n1"], NOW).nodes) == {"n0", "n1"}
    assert broker.filter(device_pod("c"), ["n0", "n1"], NOW).nodes == []


def test_nodes_offered_in_vain_come_last_and_in_the_end_all_are_offered() -> None:
    broker = broker_of(*boxes(4), settings=PlacingSettings(breadth=1, rounds=3))
    pod, given = device_pod("a"), names(*boxes(4))
    offered = [broker.filter(pod, given, NOW + 10 * turn).nodes for turn in range(4)]
    assert len({nodes[0] for nodes in offered[:3]}) == 3
    assert set(offered[3]) == set(given)


def test_a_call_that_leads_to_no_bind_leaves_nothing_behind() -> None:
    broker = broker_of(FakeNode("n", count=1))
    before = broker.snapshot(NOW)
    assert broker.filter(device_pod("a"), ["n"], NOW, keep=False).nodes == ["n"]
    assert broker.filter(device_pod("b", 2), ["n"], NOW, keep=False).nodes == []
    assert broker.snapshot(NOW) == before


def test_a_pod_under_way_may_go_where_it_was_promised_and_nowhere_else() -> None:
    broker = broker_of(FakeNode("n0"), FakeNode("n1"))
    pod = device_pod("a")
    broker.filter(pod, ["n0", "n1"], NOW)
    broker.bind(pod.uid, "n1", NOW)
    assert broker.filter(pod, ["n0", "n1"], NOW).nodes == ["n1"]
    assert broker.filter(pod, ["n0"], NOW).unresolvable == {"n0": "node(s): the pod is being bound to another node"}


def test_nothing_is_kept_of_a_pod_without_a_uid() -> None:
    broker = broker_of(FakeNode("n", count=1))
    before = broker.snapshot(NOW)
    nameless = replace(device_pod("a"), uid="")
    assert broker.filter(nameless, ["n"], NOW).nodes == ["n"]
    assert broker.snapshot(NOW) == before
    assert broker.bind("", "n", NOW).error


@pytest.mark.parametrize("devices", [1, 8])
def test_ten_thousand_pending_pods_do_not_hold_up_the_next(devices: int) -> None:
    nodes = boxes(200, devices)
    broker, given = broker_of(*nodes), names(*nodes)
    wanted = Query(ask(1), NVIDIA, state_of(broker).policies["link-affinity"])
    for number in range(10_000):
        offered = tuple(given[(number + place) % 200] for place in range(16))
        state_of(broker).offers.put(OpenOffer(f"p{number}", wanted, offered, NOW + 1))
    begin = thread_time()
    answer = broker.filter(device_pod("last"), given, NOW)
    assert thread_time() - begin < 2.0
    assert answer.nodes or set(answer.failed) == set(given)
    assert broker.filter(device_pod("next"), given, NOW + 1).nodes
    assert {entry.pod for entry in state_of(broker).offers.entries()} == {"uid-next", "uid-last"}

"""Which of the nodes given a pod may go to, and how good they are beside each other."""

from __future__ import annotations

from dataclasses import replace
from time import thread_time

import pytest

from linkwise.broker.effects import Bind
from linkwise.model.settings import PlacingSettings
from linkwise.model.views import ContainerView, NodeView, PodView
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
from support.state import state_of

NOW = 100.0


def boxes(count: int, devices: int = 2) -> list[FakeNode]:
    return [FakeNode(f"n{number}", count=devices) for number in range(count)]


def preferring(name: str) -> PodView:
    return replace(device_pod(name), has_preferences=True)


def names(*found: FakeNode) -> list[str]:
    return [box.name for box in found]


@pytest.mark.rule("000.skip")
def test_a_pod_that_asks_for_no_device_may_go_anywhere_and_is_not_kept_in_mind() -> None:
    broker = broker_of(FakeNode("n"))
    plain = PodView("default", "web", "u", (ContainerView("main", limits={"cpu": "1"}),))
    given = ["n", "never-seen", "n"]
    answer = broker.filter(plain, given, NOW)
    assert (answer.nodes, answer.failed, answer.effects) == (given, {}, ())
    assert len(state_of(broker).queue) == 0
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


def test_one_node_is_returned_however_many_are_equal() -> None:
    broker = broker_of(*boxes(8))
    assert broker.filter(device_pod("a"), names(*boxes(8)), NOW).nodes == ["n0"]


def test_a_pod_with_preferences_is_offered_nodes_that_no_other_outranks_up_to_the_breadth() -> None:
    broker = broker_of(*boxes(8), settings=PlacingSettings(breadth=3))
    place(broker, device_pod("full", 2), "n0")
    assert broker.filter(preferring("a"), names(*boxes(8)), NOW).nodes == ["n1", "n2", "n3"]
    assert broker.filter(preferring("b"), names(*boxes(8)), NOW).nodes == ["n1"], "it is fuller by the offer to a"


def test_all_nodes_that_fit_are_returned_where_that_is_set() -> None:
    broker = broker_of(*boxes(8), settings=PlacingSettings(rounds=0))
    assert set(broker.filter(device_pod("a"), names(*boxes(8)), NOW).nodes) == set(names(*boxes(8)))


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
        "small": "node(s) had fewer devices than requested",
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
    assert broker.filter(device_pod("b"), ["n1"], NOW).nodes == ["n1"]


@pytest.mark.parametrize(
    ("resource", "amount"), [(NVIDIA, "-1"), (NVIDIA, "1.5"), (MEMORY, "x"), (KOORDINATOR, "150"), (ASCEND, "3")]
)
def test_an_ask_that_makes_no_sense_is_refused_everywhere_for_good(resource: str, amount: str) -> None:
    broker = broker_of(FakeNode("n"), FakeNode("m", "ring", 8))
    answer = broker.filter(device_pod("a", amount, resource), ["n", "m"], NOW)
    assert (answer.nodes, answer.failed) == ([], {})
    assert answer.unresolvable.keys() == {"n", "m"}
    assert len(set(answer.unresolvable.values())) == 1
    assert state_of(broker).queue.unschedulable() == []


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


def test_the_next_pod_sees_the_devices_of_an_offer_as_used() -> None:
    broker = broker_of(*boxes(2, 4))
    assert broker.filter(device_pod("a"), ["n1"], NOW).nodes == ["n1"]
    assert broker.filter(device_pod("b"), ["n0", "n1"], NOW).nodes == ["n1"], "the fuller one"
    assert broker.filter(device_pod("c", 4), ["n0", "n1"], NOW).nodes == ["n0"], "the free one"
    assert len(broker.usage["n1"].used) == 2


def test_a_pod_is_refused_where_another_is_expected_and_offered_the_node_when_that_is_over() -> None:
    broker = broker_of(FakeNode("n", count=1))
    assert broker.filter(device_pod("a"), ["n"], NOW).nodes == ["n"]
    answer = broker.filter(device_pod("b"), ["n"], NOW)
    assert answer.failed == {"n": "node(s) had too few free devices"}
    assert broker.filter(device_pod("a"), ["n"], NOW).nodes == ["n"]  # a pod is never in its own way
    assert broker.filter(device_pod("b"), ["n"], NOW + 2.0).nodes == ["n"]


def test_nodes_offered_in_vain_come_last_and_in_the_end_all_are_offered() -> None:
    broker = broker_of(*boxes(4), settings=PlacingSettings(rounds=3))
    pod, given = device_pod("a"), names(*boxes(4))
    offered = [broker.filter(pod, given, NOW + 10 * turn).nodes for turn in range(4)]
    assert offered[:3] == [["n0"], ["n1"], ["n2"]]
    assert offered[3] == given
    assert [entry.node for entry in broker.entries()] == ["n3"], "the best that has not failed"
    assert broker.prioritize(pod, given, NOW + 30) == [("n0", 0), ("n1", 0), ("n2", 0), ("n3", 1)]


def test_all_nodes_are_offered_again_when_each_was_offered_in_vain() -> None:
    broker, pod = broker_of(*boxes(2)), device_pod("a")
    offered = [broker.filter(pod, ["n0", "n1"], NOW).nodes for _ in range(3)]
    assert offered == [["n0"], ["n1"], ["n0", "n1"]]


def test_a_worse_node_is_offered_after_the_only_one_of_the_best_class_has_failed() -> None:
    broker, pod = broker_of(FakeNode("near", count=2), FakeNode("far", inventory=False)), device_pod("a", 2)
    assert [broker.filter(pod, ["far", "near"], NOW).nodes for _ in range(2)] == [["near"], ["far"]]


def test_asking_about_the_nominated_node_alone_is_not_a_failure() -> None:
    broker, pod = broker_of(*boxes(2)), device_pod("a")
    for _ in range(5):
        assert broker.filter(pod, ["n0"], NOW).nodes == ["n0"]
    assert broker.prioritize(pod, ["n0", "n1"], NOW) == [("n0", 0), ("n1", 0)]


def test_a_pod_with_an_open_offer_ranks_nodes_as_if_it_had_none() -> None:
    broker, pod = broker_of(*boxes(3)), preferring("a")
    nodes = broker.filter(pod, names(*boxes(3)), NOW).nodes
    assert broker.prioritize(pod, nodes, NOW) == [("n0", 0), ("n1", 0), ("n2", 0)]
    assert broker.prioritize(device_pod("b"), nodes, NOW) == [("n0", 1), ("n1", 0), ("n2", 0)]


def test_a_pod_with_an_open_offer_fits_where_it_is_expected() -> None:
    broker, pod = broker_of(FakeNode("n", count=1)), device_pod("a")
    broker.filter(pod, ["n"], NOW)
    before = broker.snapshot(NOW)
    assert broker.filter(pod, ["n"], NOW, keep=False).nodes == ["n"]
    assert [name for name, _ in broker.dry_run(pod, NOW).ranking] == ["n"]
    assert broker.snapshot(NOW) == before


def test_a_call_that_leads_to_no_bind_leaves_nothing_behind() -> None:
    broker = broker_of(FakeNode("n", count=1))
    before = broker.snapshot(NOW)
    assert broker.filter(device_pod("a"), ["n"], NOW, keep=False).nodes == ["n"]
    assert broker.filter(device_pod("b", 2), ["n"], NOW, keep=False).nodes == []
    assert broker.snapshot(NOW) == before


def test_a_node_that_counts_more_devices_than_a_machine_has_is_placed_by_number() -> None:
    """NVIDIA's plugin counts every GPU several times if it slices their time."""
    broker, amounts = broker_of(), {NVIDIA: "80"}
    broker.observe([NodeView("n", capacity=amounts, allocatable=amounts)], NOW)
    assert broker.filter(device_pod("all", 80), ["n"], NOW).nodes == ["n"]
    assert broker.filter(device_pod("more", 81), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("one"), ["n"], NOW).nodes == []  # the first has them


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


def test_ten_thousand_open_offers_do_not_hold_up_the_next() -> None:
    nodes = boxes(1300, 8)
    broker, given = broker_of(*nodes), names(*nodes)
    for number in range(10_000):
        broker.filter(device_pod(f"p{number}"), given[number % 1300 :][:1], NOW)
    begin = thread_time()
    assert broker.filter(device_pod("last"), given, NOW).nodes
    assert thread_time() - begin < 0.2
    assert broker.filter(device_pod("next"), given, NOW + 2.0).nodes
    assert broker.counts().offered == 1

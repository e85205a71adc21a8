"""Promising devices to a pod, and what becomes of the promise."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Bind, Event
from linkwise.broker.volcano.bookings import Task
from linkwise.broker.watch_events import NodeGone, PodDeleted
from linkwise.dialects.linkwise.dialect import GRANT
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
    seen_bound,
    woken,
)

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView
    from linkwise.testing.cluster import Family

NOW = 100.0


def bound(broker: Broker, pod: PodView, node: str, now: float = NOW) -> Bind:
    broker.observe([pod], now)
    answer = broker.bind(pod.uid, node, now)
    assert answer.error == ""
    (effect,) = binds(answer.effects)
    return effect


def free(broker: Broker, node: str) -> list[str]:
    return [device.id for device in broker.usage[node].free()]


def ledger_state(broker: Broker, pod: PodView) -> str:
    entry = broker.entry(pod.uid)
    return entry.state if entry else "nothing"


@pytest.mark.rule("004.record")
@pytest.mark.parametrize(
    ("family", "resource", "amount", "keys"),
    [
        ("linked", NVIDIA, 2, set()),
        ("ring", ASCEND, 4, {"huawei.com/Ascend910", "predicate-time"}),
        (
            "percent",
            KOORDINATOR,
            50,
            {"topology.scheduling.koordinator.sh/gpu", "scheduling.koordinator.sh/device-allocated"},
        ),
        (
            "share",
            MEMORY,
            8,
            {f"ALIYUN_COM_GPU_MEM_{word}" for word in ("IDX", "DEV", "POD", "ASSIGNED", "ASSUME_TIME")},
        ),
    ],
)
def test_node_and_all_keys_are_written_in_one_request(
    family: Family, resource: str, amount: int, keys: set[str]
) -> None:
    broker = broker_of(FakeNode("n", family, 8))
    effect = bound(broker, device_pod("a", amount, resource), "n")
    assert effect.annotations.keys() == {GRANT, *keys}
    record = json.loads(effect.annotations[GRANT])
    assert (record["node"], record["pod"]) == (effect.node, effect.uid) == ("n", "uid-a")
    assert free(broker, "n").count(record["containers"]["main"]["devices"][0]) == 0


def test_devices_are_assumed_before_the_bind_is_written() -> None:
    broker = broker_of(FakeNode("n", count=1))
    bound(broker, device_pod("a"), "n")
    assert free(broker, "n") == []
    broker.observe([device_pod("b")], NOW)
    assert broker.bind("uid-b", "n", NOW).error == "node n: 1 device requested, but none of 1 is free"


@pytest.mark.rule("004.no-fit")
def test_a_pod_that_does_not_fit_is_refused_at_once_and_nothing_leaks() -> None:
    broker = broker_of(FakeNode("n", "share", 2))
    broker.observe([device_pod("a", 17, MEMORY)], NOW)
    before = broker.snapshot(NOW)
    answer = broker.bind("uid-a", "n", NOW)
    assert answer.error == "node n: 17 GiB requested on one device, but the largest has 16 GiB"
    assert binds(answer.effects) == []
    after = broker.snapshot(NOW)
    assert after.state is not None
    assert replace(after.state, queue=()) == before.state
    (queued,) = after.state.queue
    assert queued.failed == frozenset("n")  # so that other nodes are offered next


@pytest.mark.parametrize("node", ["", "never-seen", "down"])
def test_a_node_that_is_not_there_or_not_ready_is_refused(node: str) -> None:
    broker = broker_of(FakeNode("n"), FakeNode("down", ready=False))
    broker.observe([device_pod("a")], NOW)
    answer = broker.bind("uid-a", node, NOW)
    assert answer.error in {f"node {node} is unknown", f"node {node} is not ready"}
    assert ledger_state(broker, device_pod("a")) == "nothing"


def test_an_unobserved_pod_is_not_bound() -> None:
    broker = broker_of(FakeNode("n"))
    assert broker.bind("uid-a", "n", NOW).error == "pod uid-a has not been observed yet; retry once it is"
    assert broker.bind("", "n", NOW).error


def test_a_pod_known_only_from_its_filter_call_is_bound() -> None:
    broker = broker_of(FakeNode("n"))
    broker.filter(device_pod("a"), ["n"], NOW)
    assert binds(broker.bind("uid-a", "n", NOW).effects)


def test_a_pod_that_is_gone_is_not_bound_though_it_asked() -> None:
    broker = broker_of(FakeNode("n"))
    broker.filter(device_pod("a"), ["n"], NOW)
    broker.observe([PodDeleted("uid-a")], NOW)
    assert broker.filter(device_pod("a"), ["n"], NOW).nodes == ["n"]  # a scheduler that does not know it yet
    assert broker.bind("uid-a", "n", NOW).error == "pod uid-a was deleted"
    assert broker.uids() == set()


def test_asked_again_the_promise_is_the_same() -> None:
    broker = broker_of(FakeNode("n", count=4))
    first = bound(broker, device_pod("a", 2), "n")
    second = bound(broker, device_pod("a", 2), "n", NOW + 1)
    assert first.grant is not None
    assert second.grant is not None
    assert second.grant.offer.parts == first.grant.offer.parts
    assert second.serial != first.serial
    assert len(free(broker, "n")) == 2


def test_a_pod_under_way_is_not_bound_to_another_node() -> None:
    broker = broker_of(FakeNode("n"), FakeNode("m"))
    bound(broker, device_pod("a"), "n")
    assert broker.bind("uid-a", "m", NOW).error == "pod default/a is already being bound to node n"
    seen = place(broker, device_pod("b"), "n")
    assert broker.bind(seen.uid, "m", NOW).error == "pod default/b is already bound to node n"
    assert broker.bind(seen.uid, "n", NOW).effects == ()


def test_a_bind_that_was_written_is_not_written_again() -> None:
    broker = broker_of(FakeNode("n"))
    effect = bound(broker, device_pod("a"), "n")
    broker.outcome(effect, "written", NOW)
    answer = broker.bind("uid-a", "n", NOW)
    assert (answer.error, answer.effects) == ("", ())


def test_a_refused_bind_gives_the_devices_back_and_that_node_comes_last() -> None:
    broker = broker_of(FakeNode("n", count=1), FakeNode("m", count=1))
    effect = bound(broker, device_pod("a"), "n")
    broker.outcome(effect, "refused", NOW)
    assert free(broker, "n") == ["n-d0"]
    assert broker.filter(device_pod("a"), ["n", "m"], NOW).nodes == ["m"]
    assert dict(broker.prioritize(device_pod("a"), ["n", "m"], NOW)) == {"m": 1, "n": 0}


def test_a_bind_of_unknown_end_keeps_the_devices_until_that_is_known() -> None:
    broker = broker_of(FakeNode("n", count=1))
    effect = bound(broker, device_pod("a"), "n")
    broker.outcome(effect, "unknown", NOW)
    broker.step(NOW + 1e6)
    assert (free(broker, "n"), ledger_state(broker, device_pod("a"))) == ([], "ASSUMED")
    broker.outcome(effect, "refused", NOW)
    assert free(broker, "n") == ["n-d0"]


def test_a_bind_of_unknown_end_that_landed_is_seen() -> None:
    broker = broker_of(FakeNode("n", count=1))
    effect = bound(broker, device_pod("a"), "n")
    broker.outcome(effect, "unknown", NOW)
    broker.observe([seen_bound(device_pod("a"), effect)], NOW)
    assert ledger_state(broker, device_pod("a")) == "ASSIGNED"
    broker.outcome(effect, "refused", NOW)  # a second try met a conflict
    assert (free(broker, "n"), ledger_state(broker, device_pod("a"))) == ([], "ASSIGNED")


def test_a_conflict_of_a_second_try_does_not_free_what_the_first_may_have_written() -> None:
    broker = broker_of(FakeNode("n", count=1))
    first = bound(broker, device_pod("a"), "n")
    broker.outcome(first, "unknown", NOW)
    second = bound(broker, device_pod("a"), "n")
    broker.outcome(second, "refused", NOW)
    assert free(broker, "n") == []
    broker.outcome(first, "refused", NOW)
    assert free(broker, "n") == ["n-d0"]


def test_late_news_of_a_bind_of_a_pod_that_is_gone_change_nothing() -> None:
    broker = broker_of(FakeNode("n", count=1))
    effect = bound(broker, device_pod("a"), "n")
    broker.observe([PodDeleted("uid-a")], NOW)
    assert free(broker, "n") == ["n-d0"]
    assert broker.outcome(effect, "written", NOW) == ()
    assert free(broker, "n") == ["n-d0"]


def test_a_pod_with_devices_gets_one_event() -> None:
    broker = broker_of(FakeNode("n", count=4))
    effect = bound(broker, device_pod("a", 2), "n")
    events = [event for event in broker.outcome(effect, "written", NOW) if isinstance(event, Event)]
    assert [event.sentence for event in events] == ["devices 0, 1 on node n, chosen by link-affinity"]
    assert broker.outcome(effect, "written", NOW) == ()


def test_a_pod_gets_its_event_although_the_watch_was_faster_than_the_answer() -> None:
    broker = broker_of(FakeNode("n", count=4))
    effect = bound(broker, device_pod("a", 2), "n")
    broker.observe([seen_bound(device_pod("a", 2), effect)], NOW)
    (event,) = broker.outcome(effect, "written", NOW)
    assert isinstance(event, Event)
    assert event.reason == "DevicesChosen"


def test_a_pick_that_nothing_of_ours_enforces_is_said_to_be_expected() -> None:
    broker = broker_of(FakeNode("n", inventory=False))
    (event,) = broker.outcome(bound(broker, device_pod("a"), "n"), "written", NOW)
    assert isinstance(event, Event)
    assert (
        event.sentence
        == "device 0 on node n, chosen by link-affinity (expected; the node's device plugin makes the final choice)"
    )


def test_the_ask_of_the_moment_is_bound_and_not_that_of_the_filter() -> None:
    broker = broker_of(FakeNode("n", count=4))
    broker.filter(device_pod("a", 1), ["n"], NOW)
    effect = bound(broker, replace(device_pod("a", 2), version=2), "n")
    assert effect.grant is not None
    assert len(effect.grant.offer.devices) == 2


def test_devices_renamed_between_filter_and_bind_are_bound_under_their_new_names() -> None:
    broker = broker_of(FakeNode("n", count=2))
    broker.filter(device_pod("a", 2), ["n"], NOW)
    broker.observe(FakeNode("n", count=2, ids=("x0", "x1")).events(), NOW)
    effect = bound(broker, device_pod("a", 2), "n")
    assert effect.grant is not None
    assert effect.grant.offer.devices == ("x0", "x1")


@pytest.mark.parametrize("family", ["share", "ring", "percent", "linked"])
def test_a_promise_whose_devices_were_renamed_is_not_written_again(family: Family) -> None:
    amount, resource = {"share": (8, MEMORY), "ring": (2, ASCEND), "percent": (50, KOORDINATOR), "linked": (2, NVIDIA)}[
        family
    ]
    broker = broker_of(FakeNode("n", family, 8))
    effect = bound(broker, device_pod("a", amount, resource), "n")
    broker.observe(FakeNode("n", family, 8, ids=tuple(f"x{index}" for index in range(8))).events(), NOW)
    answer = broker.bind("uid-a", "n", NOW)
    assert answer.error == "the devices assumed for pod default/a are no longer available on node n"
    assert broker.filter(device_pod("a", amount, resource), ["n"], NOW).nodes == []
    broker.outcome(effect, "refused", NOW)
    assert bound(broker, device_pod("a", amount, resource), "n").grant is not None


def test_a_promise_on_a_node_that_is_gone_is_kept_and_not_written_again() -> None:
    broker = broker_of(FakeNode("n", count=1))
    bound(broker, device_pod("a"), "n")
    broker.observe([NodeGone("n")], NOW)
    assert "no longer available" in broker.bind("uid-a", "n", NOW).error
    assert broker.filter(device_pod("a"), ["n"], NOW).nodes == []
    broker.observe(FakeNode("n", count=1).events(), NOW)
    assert free(broker, "n") == []
    assert broker.filter(device_pod("a"), ["n"], NOW).nodes == ["n"]


def test_a_bind_whose_devices_another_scheduler_allocated_is_not_written_again() -> None:
    broker, other = broker_of(FakeNode("n", count=2)), broker_of(FakeNode("n", count=2))
    bound(broker, device_pod("a", 2), "n")
    broker.observe([seen_bound(device_pod("b", 2), bound(other, device_pod("b", 2), "n"))], NOW)
    assert (
        broker.bind("uid-a", "n", NOW).error
        == "the devices assumed for pod default/a are no longer available on node n"
    )
    assert broker.filter(device_pod("a", 2), ["n"], NOW).nodes == []
    broker.observe([PodDeleted("uid-b")], NOW)
    assert broker.bind("uid-a", "n", NOW).error == ""


def test_a_promise_that_the_pod_no_longer_asks_for_is_not_written_again() -> None:
    broker = broker_of(FakeNode("n", count=2))
    bound(broker, device_pod("a", 2), "n")
    broker.observe([replace(device_pod("a", 2), containers=(), version=2)], NOW)
    assert broker.bind("uid-a", "n", NOW).error == "pod default/a no longer requests the devices assumed for it"


@pytest.mark.parametrize("now", [-1e9, 0.0, 1e300, float("inf"), float("-inf"), float("nan")])
def test_whatever_the_clock_says_times_of_a_node_are_numbers_that_increase(now: float) -> None:
    broker = broker_of(FakeNode("n", "share", 2))
    times = [
        int(bound(broker, device_pod(f"p{number}", 1, MEMORY), "n", when).annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"])
        for number, when in enumerate([now, 50.0, now, 49.0])
    ]
    assert times == sorted(set(times))
    assert 0 < times[0] <= times[-1] < 2**63


def test_what_was_booked_twice_is_given_back_at_once() -> None:
    broker = broker_of(FakeNode("n"))
    pod = device_pod("a", 2)
    broker.observe([pod], NOW)
    assert [broker.book(Task(pod.uid, "n"), NOW).error for _ in range(2)] == ["", ""]
    broker.unbook(pod.uid, NOW)
    broker.unbook(pod.uid, NOW)
    assert free(broker, "n") == ["n-d0", "n-d1"]


def test_who_is_next_in_line_for_a_node_that_a_woken_pod_does_not_take_is_woken_at_once() -> None:
    broker = broker_of(FakeNode("a", count=1), FakeNode("b", count=1))
    for name in ("a", "b"):
        bound(broker, device_pod(f"first-{name}", 1), name)
    pods = [device_pod(name, 1, created=float(number)) for number, name in enumerate(("p", "q", "r"))]
    broker.observe(pods, NOW)
    for pod in pods:
        assert not broker.filter(pod, ["a", "b"], NOW).nodes
    assert woken(broker.observe([PodDeleted("uid-first-a")], NOW)) == ["p"]
    assert woken(broker.observe([PodDeleted("uid-first-b")], NOW)) == ["q"]
    assert binds(broker.bind("uid-p", "b", NOW).effects)
    assert broker.next_deadline() == 0.0
    assert woken(broker.step(NOW)) == ["r"]


OTHERS = {
    "scheduler.framework.gpushare.allocation": '{"0":{"3":4}}',
    "ALIYUN_COM_GPU_MEM_IDX": "3",
    "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
    "huawei.com/AscendReal": "Ascend910-7",
    "huawei.com/Ascend910": "Ascend910-7",
    "scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":3}],"rdma":[{"minor":1}]}',
    "topology.scheduling.koordinator.sh/gpu": '{"allocatedGPUs":{"0":["3"]},"visibleGPUs":["3"]}',
    "linkwise.dev/group-plan": '{"version":1}',
    "linkwise.dev/grant": "{}",
    "example.com/note": "keep",
}


@pytest.mark.parametrize(
    ("family", "resource", "own"),
    [
        ("linked", NVIDIA, set()),
        ("share", MEMORY, {"ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_ASSIGNED"}),
        ("ring", ASCEND, {"huawei.com/Ascend910"}),
        (
            "percent",
            KOORDINATOR,
            {"scheduling.koordinator.sh/device-allocated", "topology.scheduling.koordinator.sh/gpu"},
        ),
    ],
)
def test_records_of_other_systems_do_not_survive_a_bind(family: Family, resource: str, own: set[str]) -> None:
    pod = replace(device_pod("p", 1, resource), annotations=OTHERS)
    written = bound(broker_of(FakeNode("n", family, 8)), pod, "n").annotations
    assert "example.com/note" not in written
    neutral = {
        "scheduling.koordinator.sh/device-allocated": '{"rdma":[{"minor":1}]}',
        "topology.scheduling.koordinator.sh/gpu": '{"allocatedGPUs":{},"visibleGPUs":[]}',
    }
    for key in OTHERS.keys() - own - {GRANT, "example.com/note"}:
        assert written[key] == neutral.get(key, ""), key
    for key in own | {GRANT}:
        assert written[key] not in {"", OTHERS[key]}

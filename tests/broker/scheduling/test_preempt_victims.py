"""Where the scheduler's victims free the wrong devices, others are named: those that do the least harm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.kubernetes.objects import BUDGET
from linkwise.testing.cluster import ASCEND, MEMORY, FakeNode, broker_of, device_pod, in_gang, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NOW = 100.0
RING = FakeNode("n", "ring", 8)


def chips(*priorities: int, free: tuple[int, ...] = (0,), **labels: str) -> Broker:
    """A node of two rings of four; a pod of one chip on each but the free ones, with the priorities in that order."""
    places = [chip for chip in range(8) if chip not in free]
    broker = broker_of(replace(RING, allocations={f"uid-p{chip}": RING.devices(chip) for chip in places}))
    pods = [
        replace(device_pod(f"p{chip}", 1, ASCEND, priority=priority), node="n", labels=labels, phase="Running")
        for chip, priority in zip(places, (*priorities, *(0 for _ in places)), strict=False)
    ]
    broker.observe(pods, NOW)
    return broker


def high(devices: int = 2, resource: str = ASCEND, **more: Any) -> PodView:  # noqa: ANN401 - as the builder
    return device_pod("high", devices, resource, priority=100, **more)


def budget(allowed: int, name: str = "b", **labels: str) -> ClusterObject:
    spec = {"selector": {"matchLabels": labels}}
    return ClusterObject(BUDGET, f"default/{name}", {"spec": spec, "status": {"disruptionsAllowed": allowed}})


@pytest.mark.rule("003.ring")
def test_a_victim_in_the_wrong_ring_is_replaced_by_one_in_the_right_ring() -> None:
    assert chips().preempt(high(), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p1"]}


def test_a_victim_on_the_wrong_card_is_replaced_by_one_on_the_right_card() -> None:
    broker = broker_of(FakeNode("n", "share", 2, 12))
    for name, size in (("a", 6), ("b", 6), ("c", 6)):
        place(broker, device_pod(name, size, MEMORY), "n")
    assert broker.preempt(high(12, MEMORY), {"n": ["uid-a"]}, NOW) == {"n": ["uid-c"]}


def test_victims_that_free_the_right_devices_are_confirmed() -> None:
    assert chips(9, 9, 9).preempt(high(), {"n": ["uid-p2"]}, NOW) == {"n": ["uid-p2"]}


def test_no_pod_of_equal_or_higher_priority_is_named() -> None:
    assert chips(100, 100, 101).preempt(high(), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p4", "uid-p5"]}
    assert chips(100, 100, 101, 100, 100, 100).preempt(high(), {"n": ["uid-p7"]}, NOW) == {}


def test_two_pods_of_low_priority_give_way_before_one_of_a_higher_priority() -> None:
    broker = chips(5, 5, 5)
    assert broker.preempt(high(), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p4", "uid-p5"]}


def test_of_equal_pods_the_newest_gives_way() -> None:
    broker = chips()
    broker.observe([replace(broker.pods["uid-p2"], created=50.0, version=2)], NOW)
    assert broker.preempt(high(), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p2"]}


def test_pods_that_a_disruption_budget_protects_come_last() -> None:
    broker = chips()
    labels = {"app": "db"}
    broker.observe([replace(broker.pods[f"uid-p{n}"], labels=labels, version=2) for n in (2, 3)], NOW)
    broker.observe([budget(0, app="db")], NOW)
    assert broker.preempt(high(), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p1"]}
    assert [broker.budget_violations([uid]) for uid in ("uid-p1", "uid-p2")] == [0, 1]


def test_a_budget_that_allows_one_disruption_does_not_allow_two() -> None:
    broker = chips(app="db")
    broker.observe([budget(1, app="db")], NOW)
    assert broker.budget_violations(["uid-p1"]) == 0
    assert broker.budget_violations(["uid-p1", "uid-p2", "uid-p3"]) == 2
    broker.observe([ClusterObject(BUDGET, "default/b", None)], NOW)
    assert broker.budget_violations(["uid-p1", "uid-p2", "uid-p3"]) == 0


@pytest.mark.parametrize(
    "document",
    [{}, {"spec": None}, {"spec": {"selector": "db"}}, {"spec": {"selector": {"matchLabels": ["x"]}}, "status": 7}],
)
def test_a_budget_that_can_not_be_read_protects_no_pod(document: dict[str, Any]) -> None:
    broker = chips()
    broker.observe([ClusterObject(BUDGET, "default/b", document)], NOW)
    assert broker.preempt(high(), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p1"]}


def test_the_member_of_a_gang_costs_its_whole_gang() -> None:
    broker = chips()
    gang = in_gang(*(broker.pods[f"uid-p{n}"] for n in (2, 3)), least=2)
    broker.observe([replace(pod, version=2) for pod in gang], NOW)
    assert broker.preempt(high(), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p1"]}


def test_terminating_pods_are_waited_for_instead_of_evicting_others() -> None:
    broker = chips()
    broker.observe([replace(broker.pods["uid-p1"], deleting=True, version=2)], NOW)
    assert broker.preempt(high(), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p1"]}


def test_other_victims_must_free_enough_cpu_as_well() -> None:
    broker = broker_of(replace(RING, cpu="8", allocations={f"uid-p{chip}": RING.devices(chip) for chip in range(1, 8)}))
    pods = [device_pod(f"p{chip}", 1, ASCEND, cpu="2" if chip == 2 else "1") for chip in range(1, 8)]
    broker.observe([replace(pod, node="n") for pod in pods], NOW)
    assert broker.preempt(high(cpu="2"), {"n": ["uid-p7"]}, NOW) == {"n": ["uid-p2"]}


def test_of_many_small_pods_no_more_are_named_than_must_go() -> None:
    node = FakeNode("n", "ring", 16)
    broker = broker_of(replace(node, allocations={f"uid-p{chip}": node.devices(chip) for chip in range(1, 16)}))
    broker.observe([replace(device_pod(f"p{chip}", 1, ASCEND), node="n") for chip in range(1, 16)], NOW)
    (named,) = broker.preempt(high(), {"n": ["uid-p15"]}, NOW).values()
    assert len(named) <= 2


def test_looking_for_other_victims_changes_nothing() -> None:
    broker = chips()
    before = broker.snapshot(NOW)
    assert broker.preempt(high(), {"n": ["uid-p7"], "gone": ["uid-x"]}, NOW)
    assert broker.snapshot(NOW) == before

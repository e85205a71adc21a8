"""Groups that do not fit: planned again in the background when that may help, and woken only if it does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import PodDeleted
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, place, woken, woken_set
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.model.views import PodView


def full(*gangs: list[PodView]) -> Broker:
    """Two nodes of four devices, each used by four pods of one; the gangs were tried and did not fit."""
    broker = broker_of(FakeNode("n0", count=4), FakeNode("n1", count=4))
    for number in range(8):
        place(broker, device_pod(f"s{number}"), f"n{number % 2}")
    broker.observe([pod for gang in gangs for pod in gang], 0.0)
    for pod in (pod for gang in gangs for pod in gang):
        assert not broker.filter(pod, ["n0", "n1"], 0.0).nodes
    return broker


def gang(name: str, count: int, devices: int, priority: int = 0) -> list[PodView]:
    pods = (device_pod(f"{name}{number}", devices, priority=priority) for number in range(count))
    return in_gang(*pods, least=count, name=name)


def end(broker: Broker, *numbers: int, now: float = 1.0) -> None:
    broker.observe([PodDeleted(f"uid-s{number}") for number in numbers], now)


def test_a_gang_that_can_not_fit_by_counts_is_not_planned_again() -> None:
    broker = full(gang("g", 2, 4))
    end(broker, 0)
    assert not state_of(broker).groups.runs()
    assert broker.next_deadline() is None
    end(broker, 2, 4, 6)
    assert not state_of(broker).groups.runs()  # one node is free, and it needs two


def test_a_gang_is_woken_when_its_plan_is_reserved_and_not_before() -> None:
    broker = full(gang("g", 2, 2))
    end(broker, 0, 2)
    assert woken_set(broker.step(1.0, 1000)) == set()
    end(broker, 1, 3, now=2.0)
    assert broker.next_deadline() == 0.0
    assert woken(broker.step(2.0, 1000)) == ["g0", "g1"]
    assert len(list(broker.plans())) == 1


def test_the_gang_of_the_highest_priority_is_planned_first() -> None:
    broker = full(gang("low", 1, 2), gang("high", 1, 2, priority=5), gang("other", 1, 2))
    end(broker, 0, 2)
    broker.step(1.0, 1000)
    assert list(broker.plans()) == ["default/high"]


def test_of_gangs_of_one_priority_the_oldest_is_planned_first() -> None:
    young, old = gang("young", 1, 2), gang("old", 1, 2)
    broker = full([replace(pod, created=5.0) for pod in young], old)
    end(broker, 0, 2)
    broker.step(1.0, 1000)
    assert list(broker.plans()) == ["default/old"]


def test_twenty_large_gangs_cause_no_wake_ups_when_a_small_pod_ends() -> None:
    broker = full(*(gang(f"g{number}", 8, 4) for number in range(20)))
    effects = broker.observe([PodDeleted("uid-s0")], 1.0)
    assert woken_set([*effects, *broker.step(1.0, 1000)]) == set()


def test_a_restored_broker_notices_capacity_that_is_gained() -> None:
    broker = full(gang("g", 2, 2))
    restored = Broker.restore(broker.snapshot(0.0))
    end(restored, 0, 1, 2, 3)
    assert woken_set(restored.step(1.0, 1000)) == {"g0", "g1"}

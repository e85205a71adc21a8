"""An unobserved pod takes no room from one that exists, and misses nothing once it is observed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.watch_events import PodDeleted
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place, woken
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NOW = 100.0


def refuse(broker: Broker, *pods: PodView) -> None:
    for pod in pods:
        assert broker.filter(pod, ["n"], NOW).nodes == []


def full() -> tuple[Broker, PodDeleted]:
    """A broker whose one device is taken, and the news that it is free."""
    broker = broker_of(FakeNode("n", count=1))
    return broker, PodDeleted(place(broker, device_pod("holder"), "n").uid)


def test_made_up_pods_of_high_priority_do_not_keep_a_real_one_asleep() -> None:
    broker, room = full()
    refuse(broker, *(device_pod(f"made-up-{number}", priority=1000) for number in range(100)))
    real = device_pod("real")
    broker.observe([real], NOW)
    refuse(broker, real)
    assert woken(broker.observe([room], NOW)) == ["real"]


def test_a_pod_that_is_seen_late_is_woken_for_room_that_appeared_before() -> None:
    broker, room = full()
    real = device_pod("real")
    refuse(broker, real)
    assert woken(broker.observe([room], NOW)) == []
    assert woken(broker.observe([real], NOW + 1.0)) == ["real"]
    assert woken(broker.observe([replace(real, version=2)], NOW + 2.0)) == []


def test_a_pod_that_is_seen_late_stands_in_line_from_then_on() -> None:
    broker, room = full()
    real = device_pod("real")
    refuse(broker, real)
    assert woken(broker.observe([real], NOW)) == []
    assert woken(broker.observe([room], NOW)) == ["real"]


def test_a_pod_is_woken_once_if_it_is_seen_as_room_appears() -> None:
    broker, room = full()
    real = device_pod("real")
    refuse(broker, real)
    assert woken(broker.observe([real, room], NOW)) == ["real"]


def test_a_pod_that_is_seen_bound_is_not_woken() -> None:
    broker, room = full()
    real = device_pod("real")
    refuse(broker, real)
    assert woken(broker.observe([room, replace(real, node="n")], NOW)) == []
    assert broker.next_deadline() is None


def test_what_follows_from_a_pod_that_was_seen_is_left_to_do() -> None:
    broker, room = full()
    real = device_pod("real")
    refuse(broker, real)
    broker.observe([room], NOW)
    broker.see([real])
    assert broker.next_deadline() == 0.0
    assert woken(broker.step(NOW)) == ["real"]


def test_a_pod_that_was_bound_after_a_refusal_stands_in_no_line() -> None:
    broker = broker_of(FakeNode("n", count=1), FakeNode("m", count=1))
    place(broker, device_pod("holder"), "m")
    real = device_pod("real")
    assert broker.filter(real, ["n"], NOW).nodes == ["n"]
    assert broker.filter(real, ["m"], NOW).nodes == []
    assert not broker.bind(real.uid, "n", NOW).error
    broker.observe([real], NOW)
    assert state_of(broker).queue.unschedulable() == []

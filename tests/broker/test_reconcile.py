"""Events about devices that stop working."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.effects import Event
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker

NOW = 100.0
BOX = FakeNode("n", count=4)
UNHEALTHY = replace(BOX, unhealthy=frozenset({0}))


def events_of(broker: Broker, box: FakeNode) -> list[Event]:
    return [effect for effect in broker.observe(box.events(), NOW) if isinstance(effect, Event)]


def test_a_device_that_stops_working_is_reported_at_its_node_and_at_the_pod_that_has_it() -> None:
    broker = broker_of(BOX)
    place(broker, device_pod("a", 4), "n")
    at_node, at_pod = events_of(broker, UNHEALTHY)
    assert (at_node.reason, at_node.node) == ("DeviceFailed", "n")
    assert at_node.sentence == "device 0 (n-d0) became unhealthy; 3 of 4 devices are usable"
    assert (at_pod.reason, at_pod.name, at_pod.uid) == ("DeviceFailed", "a", "uid-a")
    assert at_pod.sentence == "device 0 (n-d0) on node n, which this pod uses, became unhealthy"


def test_pods_on_other_devices_of_the_node_hear_nothing() -> None:
    broker = broker_of(replace(BOX, allocations={"uid-a": ("n-d2",)}))
    place(broker, device_pod("a", 1), "n")
    gone = events_of(broker, replace(UNHEALTHY, allocations={"uid-a": ("n-d2",)}))
    assert [event.name for event in gone if event.reason == "DeviceFailed"] == [""]


def test_the_failure_and_the_recovery_of_a_device_are_each_reported_once() -> None:
    broker = broker_of(BOX)
    assert len(events_of(broker, UNHEALTHY)) == 1
    assert events_of(broker, UNHEALTHY) == []
    assert [event.sentence for event in events_of(broker, BOX)] == [
        "device 0 (n-d0) is healthy again; 4 of 4 devices are usable"
    ]


def test_a_node_that_is_first_seen_with_a_failed_device_is_no_news() -> None:
    assert events_of(broker_of(), UNHEALTHY) == []


class Poison(dict[str, object]):
    """An object that fails in an unexpected way when it is read."""

    def get(self, key: str, default: object = None) -> object:
        raise RuntimeError(f"no {key}, not even {default}")


def test_a_node_whose_inventory_fails_is_reported_and_gets_no_pods_until_it_is_fixed() -> None:
    broker, pod = broker_of(BOX, FakeNode("other", count=4)), device_pod("a", 1)
    (event,) = broker.observe([NodeObject("n", KIND, Poison())], NOW)
    assert isinstance(event, Event)
    assert (event.reason, event.node) == ("InventoryProblem", "n")
    assert "a bug in Linkwise: RuntimeError" in event.sentence
    assert broker.filter(pod, ["n", "other"], NOW).nodes == ["other"]
    broker.observe(BOX.events(), NOW)
    assert "n" in broker.filter(pod, ["n"], NOW).nodes

"""Shared memory across restarts of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.explain.inspect import inspect_nodes
from linkwise.testing.cluster import MEMORY, FakeNode, binds, broker_of, device_pod, place, seen_bound
from support.properties.broker_invariants import claims
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NOW = 100.0


def pod(name: str, amount: int | str = 8) -> PodView:
    return device_pod(name, amount, MEMORY)


def box(name: str = "n", count: int = 1, memory: int = 16) -> FakeNode:
    return FakeNode(name, "share", count, memory)


def rooms(broker: Broker, node: str = "n") -> list[int]:
    (found,) = inspect_nodes(broker, node, NOW)
    return [device.room for device in found.devices]


def test_a_restart_before_the_binding_leaves_nothing_taken() -> None:
    old = broker_of(box())
    old.observe([pod("a")], NOW)
    assert binds(old.bind("uid-a", "n", NOW).effects)
    new = broker_of(box())
    new.observe([pod("a")], NOW)
    assert rooms(new) == [16]
    assert new.filter(pod("a"), ["n"], NOW).nodes == ["n"]


def test_a_restart_before_the_watch_event_rebuilds_the_same_state() -> None:
    old = broker_of(box(count=2))
    place(old, pod("a", 10), "n", NOW)
    old.observe([pod("b", 4)], NOW)
    (bound,) = binds(old.bind("uid-b", "n", NOW).effects)
    old.outcome(bound, "written", NOW)
    new = broker_of(box(count=2))
    new.observe([*(found for found in state_of(old).cluster.pods.values() if found.node)], NOW)
    new.observe([seen_bound(pod("b", 4), bound)], NOW)
    old.observe([seen_bound(pod("b", 4), bound)], NOW)
    assert rooms(new) == [2, 16]
    assert claims(new) == claims(old)


def test_a_promise_outlives_a_restart_from_a_snapshot() -> None:
    old = broker_of(box())
    old.observe([pod("a")], NOW)
    (bound,) = binds(old.bind("uid-a", "n", NOW).effects)
    new = type(old).restore(old.snapshot(NOW))
    assert claims(new) == claims(old)
    new.outcome(bound, "written", NOW)
    new.observe([seen_bound(pod("a"), bound)], NOW)
    assert rooms(new) == [8]

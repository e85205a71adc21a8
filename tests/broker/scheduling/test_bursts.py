"""Pods that arrive together end on the nodes on which the same pods, created one by one, would."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.watch_events import PodDeleted
from linkwise.model.settings import PlacingSettings
from linkwise.model.views import PodView
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

NOW = 100.0
Burst = tuple[list[FakeNode], list[PodView]]


def burst(resource: str, *sizes: int) -> Burst:
    families = {NVIDIA: "linked", ASCEND: "ring", MEMORY: "share", KOORDINATOR: "percent"}
    nodes = [FakeNode(f"n{number}", families[resource], 8) for number in range(4)]  # type: ignore[arg-type]  # a Family
    return nodes, [device_pod(f"p{number}", size, resource) for number, size in enumerate(sizes)]


BURSTS = {
    "one device each": burst(NVIDIA, *[1] * 12),
    "pairs": burst(NVIDIA, *[2] * 8),
    "mixed sizes": burst(NVIDIA, 1, 4, 2, 1, 8, 1, 2, 1),
    "rings": burst(ASCEND, 1, 2, 1, 4, 2, 1, 8),
    "memory": burst(MEMORY, *[2] * 20),
    "mixed memory": burst(MEMORY, 9, 2, 5, 8, 11, 3, 16, 2),
    "percents": burst(KOORDINATOR, *[50] * 12),
    "mixed percents": burst(KOORDINATOR, 30, 200, 50, 100, 70, 400, 20),
}


def scheduled(nodes: list[FakeNode], pods: list[PodView], lag: int) -> dict[str, str]:
    """The node of each pod when it is bound after `lag` other pods were filtered, and observed after as many more."""
    broker, names, now = broker_of(*nodes), [node.name for node in nodes], NOW
    broker.observe(pods, now)
    flying: deque[tuple[PodView, str]] = deque()
    homes: dict[str, str] = {}
    for pod in (*pods, *[None] * (lag + 1)):
        now += 0.01
        if pod is not None:
            (node,) = broker.filter(pod, names, now).nodes
            flying.append((pod, node))
        if flying and (pod is None or len(flying) > lag):
            first, node = flying.popleft()
            bind(broker, first, node, now)
            homes[first.name] = node
    return homes


def bind(broker: Broker, pod: PodView, node: str, now: float) -> tuple[str, ...]:
    answer = broker.bind(pod.uid, node, now)
    assert answer.error == ""
    (bound,) = binds(answer.effects)
    broker.outcome(bound, "written", now)
    broker.observe([seen_bound(pod, bound)], now)
    assert bound.grant is not None
    return bound.grant.offer.devices


@pytest.mark.parametrize("lag", [1, 4, 16])
@pytest.mark.parametrize("name", BURSTS)
def test_a_burst_ends_on_the_same_nodes_as_one_by_one(name: str, lag: int) -> None:
    nodes, pods = BURSTS[name]
    assert scheduled(nodes, pods, lag) == scheduled(nodes, pods, 0)


def test_eight_pods_of_one_device_fill_one_machine_of_three() -> None:
    nodes, pods = burst(NVIDIA, *[1] * 8)
    assert set(scheduled(nodes, pods, 8).values()) == {"n0"}


def test_a_bind_uses_the_devices_that_were_offered() -> None:
    broker, pods = broker_of(FakeNode("n", count=4)), [device_pod("a", 2), device_pod("b", 2)]
    for pod in pods:
        broker.filter(pod, ["n"], NOW)
    offered = {entry.pod: entry.grant.offer.devices for entry in broker.entries()}
    assert {pod.uid: bind(broker, pod, "n", NOW) for pod in reversed(pods)} == offered


def test_a_bind_elsewhere_replaces_the_offer() -> None:
    broker, pod = broker_of(FakeNode("n0"), FakeNode("n1")), device_pod("a", 2)
    broker.filter(pod, ["n0"], NOW)
    assert bind(broker, pod, "n1", NOW) == ("n1-d0", "n1-d1")
    assert broker.usage["n0"].used == {}


def test_a_bind_after_the_offer_is_over_picks_what_is_free() -> None:
    broker, pod, other = broker_of(FakeNode("n", count=2)), device_pod("a"), device_pod("b")
    broker.filter(pod, ["n"], NOW)
    assert broker.filter(other, ["n"], NOW + 2.0).nodes == ["n"]
    assert bind(broker, pod, "n", NOW + 2.0) != bind(broker, other, "n", NOW + 2.0)


def test_a_bind_picks_again_where_an_offered_device_has_failed() -> None:
    node, pod = FakeNode("n", count=2), device_pod("a")
    broker = broker_of(node)
    broker.filter(pod, ["n"], NOW)
    ((device, _),) = broker.usage["n"].used.items()
    failed = FakeNode("n", count=2, unhealthy=frozenset({int(device[-1])}))
    broker.observe(failed.events(), NOW)
    assert bind(broker, pod, "n", NOW) == node.devices(1 - int(device[-1]))


def test_an_offer_gives_way_to_a_pod_that_another_scheduler_bound_and_nothing_is_reported() -> None:
    broker, pod = broker_of(FakeNode("n", count=2)), device_pod("a")
    other = place(broker_of(FakeNode("n", count=2)), device_pod("foreign"), "n")
    broker.filter(pod, ["n"], NOW)
    assert broker.observe([other], NOW) == ()
    assert broker.counts().offered == 0
    assert bind(broker, pod, "n", NOW)


def test_an_offer_elsewhere_is_no_drift() -> None:
    broker, pod = broker_of(FakeNode("n0"), FakeNode("n1")), device_pod("a")
    broker.filter(pod, ["n0"], NOW)
    elsewhere = place(broker_of(FakeNode("n1")), pod, "n1")
    broker.observe([elsewhere], NOW)
    assert (broker.drift, broker.usage["n0"].used) == ({}, {})


@pytest.mark.parametrize("ends", ["deleted", "expired", "clock set back", "refused elsewhere"])
def test_pods_refused_because_of_an_offer_are_woken_when_it_ends(ends: str) -> None:
    broker = broker_of(FakeNode("n", count=1), FakeNode("full", count=0))
    first, waiting = device_pod("first"), device_pod("waits", priority=1)
    broker.observe([first, waiting], NOW)
    assert broker.filter(first, ["n"], NOW).nodes == ["n"]
    assert broker.filter(waiting, ["n"], NOW).nodes == []
    match ends:
        case "deleted":
            effects = broker.observe([PodDeleted(first.uid)], NOW)
        case "expired":
            assert broker.next_deadline() == NOW + 2.0
            effects = broker.step(NOW + 2.0)
        case "clock set back":
            effects = broker.step(NOW - 60.0)
        case _:
            effects = broker.filter(first, ["full"], NOW).effects
    assert woken(effects) == ["waits"]
    assert broker.counts().offered == 0


def test_no_pod_is_woken_when_an_offer_is_renewed_or_bound() -> None:
    broker = broker_of(FakeNode("n", count=1))
    first, waiting = device_pod("first"), device_pod("waits")
    broker.observe([first, waiting], NOW)
    broker.filter(first, ["n"], NOW)
    assert broker.filter(waiting, ["n"], NOW).nodes == []
    again = broker.filter(first, ["n"], NOW + 1.0)
    assert (again.nodes, woken(again.effects)) == (["n"], [])
    assert woken(broker.bind(first.uid, "n", NOW + 2.5).effects) == []


def test_without_a_time_for_offers_nothing_is_reserved() -> None:
    broker = broker_of(FakeNode("n", count=1), settings=PlacingSettings(pending=0.0))
    assert [broker.filter(device_pod(name), ["n"], NOW).nodes for name in "ab"] == [["n"], ["n"]]
    assert broker.counts().offered == 0


def test_pods_with_preferences_of_their_own_pack_once_the_scheduler_has_chosen() -> None:
    broker, names = broker_of(*(FakeNode(f"n{number}", count=4) for number in range(3))), ["n0", "n1", "n2"]
    homes = Counter[str]()
    for number in range(4):
        pod = replace(device_pod(f"p{number}"), has_preferences=True)
        node = broker.filter(pod, names, NOW).nodes[-1]
        bind(broker, pod, node, NOW)
        homes[node] += 1
    assert homes == {"n2": 4}

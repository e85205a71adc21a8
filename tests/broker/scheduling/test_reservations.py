"""The oldest large request is not starved by a stream of small ones: its nodes are drained, for a limited time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.watch_events import NodeGone, PodDeleted
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.settings import PlacingSettings, ReservationSettings, ShareSettings
from linkwise.testing.cluster import (
    ASCEND,
    KOORDINATOR,
    MEMORY,
    FakeNode,
    binds,
    broker_of,
    device_pod,
    gated,
    in_gang,
    place,
    seen_bound,
    woken,
)
from support.backlog import SHORTEST, START, Backlog

if TYPE_CHECKING:
    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.explain.reports import Explanation
    from linkwise.model.views import PodView

FLEET = [FakeNode(f"n{number}", count=8) for number in range(4)]
OFF = PlacingSettings(reservation=ReservationSettings(after=0.0))
NOW = 1000.0
AFTER = 300.0
HOLD = 3600.0
SOON = START + 60 + AFTER + 5 + 2 * SHORTEST - START
"""when the last small pod of a node has ended that is drained as soon as possible"""


# a stream of small pods


@pytest.mark.parametrize("priority", [0, 1000])
def test_a_large_pod_starts_soon_after_it_has_waited_long_enough(priority: int) -> None:
    backlog = Backlog(FLEET, [device_pod("large", 8, priority=priority)])
    backlog.run(500)
    assert AFTER < backlog.started["large"] < SOON
    assert backlog.idle < 8 * 2 * SHORTEST


def test_a_gang_that_needs_two_nodes_starts_soon_after_it_has_waited_long_enough() -> None:
    backlog = Backlog(FLEET, in_gang(device_pod("a", 8), device_pod("b", 8), least=2))
    backlog.run(500)
    assert AFTER < backlog.started["a"] == backlog.started["b"] < SOON
    assert backlog.idle < 2 * 8 * 2 * SHORTEST


def test_a_gated_gang_starts_soon_after_it_has_waited_long_enough_though_no_scheduler_reports_it() -> None:
    backlog = Backlog(FLEET, gated(in_gang(device_pod("a", 8), device_pod("b", 8), least=2)))
    backlog.run(500)
    assert AFTER < backlog.started["a"] == backlog.started["b"] < SOON
    assert backlog.idle < 2 * 8 * 2 * SHORTEST


def test_smaller_pods_pass_a_gated_gang_only_until_it_has_waited_long_enough() -> None:
    backlog = Backlog(FLEET, gated(in_gang(device_pod("a", 8), device_pod("b", 8), least=2)), OFF)
    backlog.run(500)
    assert not {"a", "b"} & backlog.started.keys()


def test_without_reservations_neither_starts() -> None:
    gang = in_gang(device_pod("a", 8), device_pod("b", 8), least=2)
    backlog = Backlog(FLEET, [device_pod("large", 8), *gang], OFF)
    backlog.run(500)
    assert not {"large", "a", "b"} & backlog.started.keys()


def test_several_large_pods_start_one_after_the_other_by_age() -> None:
    backlog = Backlog(FLEET, [device_pod(f"large-{number}", 8) for number in range(3)])
    backlog.run(800)
    started = [backlog.started[f"large-{number}"] for number in range(3)]
    assert started == sorted(started)


def test_a_large_share_is_not_starved_by_small_ones() -> None:
    nodes = [FakeNode(f"n{number}", "share", count=2) for number in range(2)]
    backlog = Backlog(nodes, [device_pod("large", 14, MEMORY)], None, lambda n: device_pod(f"small-{n}", 4, MEMORY))
    backlog.run(500)
    assert AFTER < backlog.started["large"] < SOON


def test_a_share_of_another_namespace_is_not_starved() -> None:
    nodes = [FakeNode("n", "share", count=2)]
    large = device_pod("large", 4, MEMORY, namespace="team-b")
    backlog = Backlog(nodes, [large], None, lambda n: device_pod(f"small-{n}", 4, MEMORY))
    backlog.run(500)
    assert AFTER < backlog.started["large"] < SOON


def test_whole_cards_are_not_starved_by_percents() -> None:
    nodes = [FakeNode(f"n{number}", "percent", count=2) for number in range(2)]
    backlog = Backlog(
        nodes, [device_pod("large", 200, KOORDINATOR)], None, lambda n: device_pod(f"small-{n}", 50, KOORDINATOR)
    )
    backlog.run(500)
    assert AFTER < backlog.started["large"] < SOON


def test_a_ring_is_not_starved_by_single_chips() -> None:
    nodes = [FakeNode(f"n{number}", "ring", count=8) for number in range(2)]
    backlog = Backlog(nodes, [device_pod("large", 4, ASCEND)], None, lambda n: device_pod(f"small-{n}", 1, ASCEND))
    backlog.run(500)
    assert AFTER < backlog.started["large"] < SOON
    assert backlog.idle < 4 * 2 * SHORTEST  # the other ring of the node stays in use


# one node, step by step


def drained(size: int = 4, *, settings: PlacingSettings | None = None) -> tuple[Broker, list[PodView], PodView]:
    """A broker whose node of four is full, and a pod of that size for which it is drained."""
    broker = broker_of(FakeNode("n", count=4), settings=settings)
    small = [place(broker, device_pod(f"small-{n}", created=float(n)), "n", NOW) for n in range(4)]
    large = replace(device_pod("large", size, created=50.0, priority=5), unschedulable_since=NOW)
    broker.observe([large], NOW)
    assert broker.filter(large, ["n"], NOW).nodes == []
    broker.step(NOW + AFTER)
    assert broker.counts().reservations == 1
    return broker, small, large


def end(broker: Broker, pods: list[PodView], now: float) -> tuple[Effect, ...]:
    return broker.observe([PodDeleted(pod.uid) for pod in pods], now)


LATER = NOW + AFTER + 10
NEW = device_pod("new", created=2000.0)


def test_a_device_that_comes_free_goes_to_no_other_pod() -> None:
    broker, small, _ = drained()
    end(broker, small[:3], LATER)
    broker.observe([NEW], LATER)
    answer = broker.filter(NEW, ["n"], LATER)
    assert answer.nodes == []
    assert answer.unresolvable == {"n": "node(s) had free devices that are reserved for a request ahead in the queue"}
    assert "too few" in broker.bind(NEW.uid, "n", LATER).error or "free" in broker.bind(NEW.uid, "n", LATER).error


def test_what_the_owner_does_not_need_goes_to_others() -> None:
    broker, small, _ = drained(size=2)
    end(broker, small[:3], LATER)
    broker.observe([NEW], LATER)
    assert broker.filter(NEW, ["n"], LATER).nodes == ["n"]


def test_the_owner_is_woken_when_the_last_device_is_free_and_gets_all() -> None:
    broker, small, large = drained()
    assert woken(end(broker, small[:3], LATER)) == []
    assert woken(end(broker, small[3:], LATER)) == ["large"]
    assert broker.filter(large, ["n"], LATER).nodes == ["n"]
    (bound,) = binds(broker.bind(large.uid, "n", LATER).effects)
    assert bound.grant is not None
    assert len(bound.grant.offer.devices) == 4
    broker.observe([seen_bound(large, bound)], LATER)
    assert broker.counts().reservations == broker.counts().reserved == 0


def test_a_bind_without_a_filter_gets_the_reserved_devices() -> None:
    broker, small, large = drained()
    end(broker, small, LATER)
    assert binds(broker.bind(large.uid, "n", LATER).effects)


def test_an_offer_that_is_not_taken_leaves_the_reservation() -> None:
    broker, small, large = drained()
    end(broker, small, LATER)
    assert broker.filter(large, ["n"], LATER).nodes == ["n"]
    assert broker.counts().reserved == 0
    broker.step(LATER + 3)
    assert broker.counts().reserved == 4


def test_an_owner_that_is_never_bound_is_woken_a_few_times_and_then_others_get_its_devices() -> None:
    broker, small, _ = drained()
    effects = end(broker, small, LATER)
    while broker.counts().reservations:
        now = broker.next_deadline()
        assert now is not None
        assert now <= LATER + 80
        effects += broker.step(now)
    assert woken(effects)[:4] == ["large"] * 4
    broker.observe([NEW], LATER + 80)
    assert broker.filter(NEW, ["n"], LATER + 80).nodes == ["n"]


def test_it_expires_and_its_owner_waits_before_the_next_attempt() -> None:
    broker, small, _ = drained()
    end(broker, small[:2], LATER)
    effects = broker.step(NOW + AFTER + HOLD)
    assert [effect.reason for effect in effects if isinstance(effect, Event)] == ["ReservationExpired"]
    assert broker.counts().reservations == broker.counts().reserved == 0
    broker.step(NOW + AFTER + 2 * HOLD - 1)
    assert broker.counts().reservations == 0
    broker.step(NOW + AFTER + 2 * HOLD + 10)
    assert broker.counts().reservations == 1


def test_it_follows_to_a_node_where_less_is_waited_for() -> None:
    broker, _, large = drained()
    other = FakeNode("m", count=4)
    broker.observe(other.events(), LATER)
    pods = [place(broker, device_pod(f"m-{n}"), "m", LATER) for n in range(4)]
    end(broker, pods[:3], LATER)
    broker.step(LATER + 5)
    assert "node m is being drained for it: 3 of 4 devices are free" in explanation_lines(
        explain(broker, "large", LATER + 5)
    )
    assert woken(end(broker, pods[3:], LATER + 6)) == ["large"]
    assert broker.filter(large, ["m", "n"], LATER + 6).nodes == ["m"]


def test_the_next_in_the_queue_gets_its_turn_when_a_reservation_expires() -> None:
    broker, _, _ = drained()
    other = replace(device_pod("other", 2, created=60.0), unschedulable_since=NOW)
    broker.observe([other], LATER)
    broker.step(NOW + AFTER + HOLD)
    (line, *_) = explanation_lines(explain(broker, "other", NOW + AFTER + HOLD))[1:]
    assert line == "node n is being drained for it: 0 of 2 devices are free"


def explain(broker: Broker, name: str, now: float) -> Explanation:
    report = explain_pod(broker, f"uid-{name}", now)
    assert report
    return report


@pytest.mark.parametrize("end_of_owner", ["deleted", "deleting", "gated", "bound elsewhere"])
def test_it_ends_with_the_wait_of_its_owner(end_of_owner: str) -> None:
    broker, small, large = drained()
    end(broker, small[:2], LATER)
    assert broker.counts().reserved == 2
    changes: dict[str, WatchEvent] = {
        "deleted": PodDeleted(large.uid),
        "deleting": replace(large, deleting=True, version=5),
        "gated": replace(large, gates=("example.com/gate",), version=5),
        "bound elsewhere": replace(large, node="other", version=5),
    }
    broker.observe([changes[end_of_owner]], LATER)
    assert broker.counts().reservations == broker.counts().reserved == 0


@pytest.mark.parametrize("loss", ["gone", "cordoned", "not ready", "broken"])
def test_it_ends_with_its_node(loss: str) -> None:
    broker, small, _ = drained()
    end(broker, small[:2], LATER)
    box = FakeNode("n", count=4, version=5)
    changes = {
        "gone": [NodeGone("n")],
        "cordoned": replace(box, cordoned=True).events(),
        "not ready": replace(box, ready=False).events(),
        "broken": replace(box, unhealthy=frozenset({2})).events(),
    }
    broker.observe(changes[loss], LATER)
    broker.step(LATER)
    assert broker.counts().reservations == broker.counts().reserved == 0


# who has one


def test_a_pod_of_higher_priority_passes() -> None:
    broker, small, _ = drained()
    end(broker, small[:2], LATER)
    urgent = device_pod("urgent", 2, priority=6)
    broker.observe([urgent], LATER)
    answer = broker.filter(urgent, ["n"], LATER)
    assert answer.nodes == ["n"]
    assert [effect.reason for effect in answer.effects if isinstance(effect, Event)] == ["ReservationEnded"]


def test_a_gang_of_higher_priority_passes() -> None:
    broker, small, _ = drained()
    end(broker, small[:2], LATER)
    gang = in_gang(device_pod("a", priority=6), device_pod("b", priority=6), least=2)
    broker.observe(gang, LATER)
    assert broker.filter(gang[0], ["n"], LATER).nodes == ["n"]
    assert broker.counts().reservations == 0


def test_no_pod_is_evicted_from_a_drained_node_for_another() -> None:
    broker, small, large = drained()
    other = device_pod("other", priority=5)
    broker.observe([other], LATER)
    victims = {"n": [small[0].uid]}
    assert broker.preempt(other, victims, LATER) == {}
    assert broker.preempt(large, {"n": [pod.uid for pod in small]}, LATER)
    assert broker.preempt(replace(other, priority=9), victims, LATER) == victims


def waiting(pod: PodView, settings: PlacingSettings | None = None, *, ask: bool = True) -> Broker:
    """A broker whose node of four is full, and a pod that has waited for long."""
    broker = broker_of(FakeNode("n", count=4), settings=settings)
    for n in range(4):
        place(broker, device_pod(f"small-{n}"), "n", NOW)
    broker.observe([pod], NOW)
    if ask:
        broker.filter(pod, ["n"], NOW)
    broker.step(NOW + AFTER)
    return broker


STARVED = replace(device_pod("large", 4), unschedulable_since=NOW)


def test_the_owner_need_not_have_asked_because_kube_scheduler_does_not_if_it_counts_too_few_devices() -> None:
    broker = waiting(STARVED, ask=False)
    assert broker.counts().reservations == 0  # no scheduler asks here at all
    broker.observe([NEW], NOW + AFTER + 10)
    broker.filter(NEW, ["n"], NOW + AFTER + 10)
    assert broker.counts().reservations == 1


@pytest.mark.parametrize(
    "pod",
    [
        replace(STARVED, unschedulable_since=0.0),
        replace(STARVED, unschedulable_since=NOW + 1),
        replace(STARVED, unschedulable_since=NOW + 1e9),
        replace(STARVED, gates=("example.com/gate",)),
        replace(STARVED, node_selector={"zone": "b"}),
        replace(device_pod("large", 5), unschedulable_since=NOW),
        replace(device_pod("large", 0), unschedulable_since=NOW),
        replace(device_pod("large", "x"), unschedulable_since=NOW),
        replace(device_pod("large", 4, cpu="65"), unschedulable_since=NOW),
    ],
)
def test_nothing_is_reserved_for_a_pod_that_has_not_waited_or_can_never_fit(pod: PodView) -> None:
    assert waiting(pod).counts().reservations == 0


def test_nothing_is_reserved_for_a_pod_of_a_scheduler_that_does_not_ask() -> None:
    broker = waiting(replace(STARVED, scheduler="another"), ask=False)
    broker.observe([NEW], NOW + AFTER + 10)
    broker.filter(NEW, ["n"], NOW + AFTER + 10)
    assert broker.counts().reservations == 0


def test_nothing_is_reserved_for_a_pod_that_fits_and_is_stopped_by_something_else() -> None:
    broker = broker_of(FakeNode("n", count=4))
    broker.observe([STARVED], NOW)
    broker.filter(STARVED, [], NOW)
    broker.step(NOW + AFTER)
    assert broker.counts().reservations == 0


def test_a_gang_that_needs_more_nodes_than_allowed_gets_none() -> None:
    settings = PlacingSettings(reservation=ReservationSettings(nodes=1))
    backlog = Backlog(FLEET, in_gang(device_pod("a", 8), device_pod("b", 8), least=2), settings)
    backlog.run(320)
    assert backlog.broker.counts().reservations == 0


def test_for_a_gang_no_more_nodes_are_drained_than_it_needs_beginning_with_the_nearest() -> None:
    broker = broker_of(FakeNode("far", count=4), FakeNode("near", count=4))
    for number in range(4):
        place(broker, device_pod(f"far-{number}"), "far", NOW)
    place(broker, device_pod("near-0"), "near", NOW)
    gang = in_gang(device_pod("a", 2), device_pod("b", 2), least=2)
    broker.observe([replace(pod, created=50.0, unschedulable_since=NOW) for pod in gang], NOW)
    for pod in gang:
        assert broker.filter(pod, ["far", "near"], NOW).nodes == []
    broker.step(NOW + AFTER, 1000)
    assert broker.counts().reservations == 1
    passing = device_pod("passing", created=100.0)
    broker.observe([passing], LATER)
    assert broker.filter(passing, ["far", "near"], LATER).nodes == []
    assert {entry.node for entry in broker.entries() if entry.state == "RESERVED"} == {"near"}


def test_a_reservation_of_lower_priority_gives_way_to_the_next_owner() -> None:
    broker, _, _ = drained()
    broker.observe(FakeNode("m", count=4).events(), LATER)
    for n in range(4):
        place(broker, device_pod(f"m-{n}"), "m", LATER)
    urgent = replace(device_pod("urgent", 4, priority=9), unschedulable_since=NOW)
    effects = (*broker.observe([urgent], LATER), *broker.step(LATER + 5))
    reasons = [(effect.name, effect.reason) for effect in effects if isinstance(effect, Event)]
    assert reasons == [("large", "ReservationEnded"), ("urgent", "NodesReserved")]
    assert broker.counts().reservations == 1


def test_a_hundred_pods_that_can_never_fit_do_not_hold_up_the_next() -> None:
    broker = broker_of(FakeNode("n", count=4))
    for n in range(4):
        place(broker, device_pod(f"small-{n}"), "n", NOW)
    never = [replace(device_pod(f"never-{n}", 5), unschedulable_since=NOW) for n in range(100)]
    broker.observe([*never, replace(STARVED, created=NOW)], NOW)
    broker.filter(never[0], ["n"], NOW)
    for seconds in range(0, 200, 5):
        broker.step(NOW + AFTER + seconds)
    assert broker.counts().reservations == 1


def test_two_reservations_at_a_time_use_different_nodes() -> None:
    settings = PlacingSettings(reservation=ReservationSettings(count=2))
    backlog = Backlog(FLEET, [device_pod("a", 8), device_pod("b", 8)], settings)
    backlog.run(320)
    assert backlog.broker.counts().reservations == 2
    nodes = {event.name: event.sentence.split()[1] for event in backlog.events if event.reason == "NodesReserved"}
    assert len(set(nodes.values())) == 2


def test_shares_of_any_namespace_are_reserved_where_cards_are_shared_by_all() -> None:
    settings = PlacingSettings(share=ShareSettings(within="any"))
    nodes = [FakeNode("n", "share", count=2)]
    large = device_pod("large", 16, MEMORY, namespace="team-b")
    backlog = Backlog(nodes, [large], settings, lambda n: device_pod(f"small-{n}", 4, MEMORY))
    backlog.run(500)
    assert AFTER < backlog.started["large"] < SOON


# restarts, clocks and others


def test_a_snapshot_keeps_it() -> None:
    broker, small, large = drained()
    end(broker, small[:3], LATER)
    again = Broker.restore(broker.snapshot(LATER))
    assert again.snapshot(LATER) == broker.snapshot(LATER)
    assert woken(end(again, small[3:], LATER)) == ["large"]
    assert again.filter(large, ["n"], LATER).nodes == ["n"]


def test_a_restarted_service_drains_the_same_node_again() -> None:
    broker, small, large = drained()
    end(broker, small[:2], LATER)
    again = Broker.restore(replace(broker.snapshot(LATER), state=None))
    broker.observe([large], LATER)
    assert again.filter(large, ["n"], LATER).nodes == []
    assert again.counts().reserved == 2


@pytest.mark.parametrize("seconds", [-1e6, -10.0, 1e9])
def test_the_clock_may_be_set(seconds: float) -> None:
    broker, small, _ = drained()
    broker.step(LATER + seconds)
    end(broker, small, LATER + seconds)
    broker.step(LATER + seconds)
    due = broker.next_deadline()
    assert due is None or due > LATER + seconds


def test_another_scheduler_may_use_reserved_devices_and_that_is_no_drift() -> None:
    broker, small, _ = drained()
    end(broker, small[:2], LATER)
    foreign = place(broker_of(FakeNode("n", count=4)), device_pod("foreign", 3), "n")
    effects = broker.observe([foreign], LATER)
    assert [effect.reason for effect in effects if isinstance(effect, Event)] == [
        "Drift"
    ]  # with the pods that run there
    broker.step(LATER)
    assert broker.counts().reserved <= 1


def test_fifty_large_pods_in_a_burst_get_one_reservation() -> None:
    backlog = Backlog(FLEET, [device_pod(f"large-{number}", 8) for number in range(50)])
    backlog.run(310)
    assert backlog.broker.counts().reservations == 1

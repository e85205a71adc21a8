"""Devices that Volcano allocates: chosen once, given back, claimed while others are leaving, and written after the bind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event, Record
from linkwise.broker.volcano.bookings import Task
from linkwise.broker.watch_events import PodDeleted
from linkwise.model.settings import PlacingSettings, VolcanoSettings
from linkwise.testing.cluster import ASCEND, FakeNode, binds, broker_of, device_pod, place
from support.builders.volcano import pod_group, records, seen_recorded, volcano_pod

if TYPE_CHECKING:
    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

RING: Final = FakeNode("n", "ring", 8)
PIPELINED: Final = True
DEFAULT: Final = VolcanoSettings().booking


def booked(broker: Broker, pod: PodView, node: str = "n", now: float = 0.0, *, pipelined: bool = False) -> str:
    return broker.book(Task(pod.uid, node, pod, pipelined), now).error


def devices(broker: Broker, pod: PodView) -> tuple[str, ...]:
    entry = broker.entry(pod.uid)
    return entry.grant.offer.devices if entry else ()


def state_of(broker: Broker, pod: PodView) -> str:
    entry = broker.entry(pod.uid)
    return entry.state if entry else ""


def seen(broker: Broker, *pods: PodView, now: float = 0.0) -> tuple[Effect, ...]:
    return broker.observe(pods, now)


def gang(*names: str, amount: int = 8) -> list[PodView]:
    return [replace(volcano_pod(name, amount, "g"), created=float(i)) for i, name in enumerate(names)]


@pytest.mark.rule("003.allocate")
def test_a_repeated_allocation_gets_the_same_devices() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    seen(broker, pod)
    assert booked(broker, pod) == ""
    first = devices(broker, pod)
    assert len(first) == 2
    assert [booked(broker, pod, now=float(second)) for second in range(1, 300)] == [""] * 299
    assert devices(broker, pod) == first


@pytest.mark.rule("003.allocate")
def test_what_is_deallocated_is_free_and_an_unknown_pod_changes_nothing() -> None:
    broker, one, two = broker_of(RING), volcano_pod("a", 8), volcano_pod("b", 8)
    seen(broker, one, two)
    assert booked(broker, one) == ""
    assert "node n:" in booked(broker, two)
    assert [broker.unbook(uid, 0.0) for uid in (one.uid, one.uid, "unknown", "")] == [()] * 4
    assert booked(broker, two) == ""


@pytest.mark.rule("003.in-session")
def test_two_tasks_of_one_session_never_get_one_chip() -> None:
    broker, pods = broker_of(RING), [volcano_pod(name, 2) for name in "abcde"]
    seen(broker, *pods)
    assert [booked(broker, pod) == "" for pod in pods] == [True] * 4 + [False]
    taken = [device for pod in pods for device in devices(broker, pod)]
    assert len(taken) == len(set(taken)) == 8


def test_a_booking_that_is_neither_repeated_nor_bound_is_dropped() -> None:
    broker = broker_of(RING, settings=PlacingSettings(volcano=VolcanoSettings(booking=10.0)))
    pod = volcano_pod("a", 8)
    seen(broker, pod)
    booked(broker, pod, now=100.0)
    assert broker.next_deadline() == 110.0
    broker.step(109.0)
    assert state_of(broker, pod) == "BOOKED"
    broker.step(110.0)
    assert state_of(broker, pod) == ""


def test_a_clock_that_is_set_back_ends_a_booking_instead_of_prolonging_it() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 8)
    seen(broker, pod)
    booked(broker, pod, now=10_000.0)
    broker.step(10.0)
    assert state_of(broker, pod) == ""
    assert booked(broker, pod, now=10.0) == ""


def test_a_booking_is_in_use_to_kube_scheduler_and_outlives_its_offers() -> None:
    broker, pod, other = broker_of(RING), volcano_pod("a", 8), device_pod("b", 1, ASCEND)
    seen(broker, pod, other)
    booked(broker, pod)
    assert broker.filter(other, ["n"], 1.0).nodes == []
    assert "node n" in broker.bind(other.uid, "n", 1.0).error
    broker.step(30.0)
    assert state_of(broker, pod) == "BOOKED"


def test_devices_that_kube_scheduler_was_offered_are_not_booked() -> None:
    broker, pod, other = broker_of(RING), volcano_pod("a", 8), device_pod("b", 1, ASCEND)
    seen(broker, pod, other)
    assert broker.filter(other, ["n"], 0.0).nodes == ["n"]
    assert "node n" in booked(broker, pod)
    assert booked(broker, pod, now=10.0) == ""  # the offer is over


@pytest.mark.rule("003.between")
def test_an_allocation_of_chips_whose_pod_is_leaving_is_refused_until_it_is_gone() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 8)
    old = place(broker, device_pod("old", 8, ASCEND), "n")
    seen(broker, pod, replace(old, deleting=True, version=9))
    assert booked(broker, pod).endswith("1 terminating pod must be gone first")
    broker.observe([PodDeleted(old.uid)], 1.0)
    assert booked(broker, pod, now=1.0) == ""


@pytest.mark.rule("003.between")
def test_a_pipelined_allocation_claims_the_chips_of_a_leaving_pod_and_no_other_pod_gets_them() -> None:
    broker, pod, other = broker_of(RING), volcano_pod("a", 8), device_pod("b", 1, ASCEND)
    old = place(broker, device_pod("old", 8, ASCEND), "n")
    seen(broker, pod, other, replace(old, deleting=True, version=9))
    assert booked(broker, pod, pipelined=PIPELINED) == ""
    assert state_of(broker, pod) == "CLAIMED"
    assert broker.drift == {}
    assert "still in use by terminating pods" in booked(broker, pod)
    broker.observe([PodDeleted(old.uid)], 1.0)
    assert (state_of(broker, pod), broker.filter(other, ["n"], 1.0).nodes) == ("BOOKED", [])
    assert booked(broker, pod, now=2.0) == ""


@pytest.mark.rule("003.between")
def test_chips_of_a_pod_that_a_session_evicts_can_be_claimed_and_stay_its_own() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 8)
    old = place(broker, device_pod("old", 8, ASCEND), "n")
    seen(broker, pod)
    assert "node n" in booked(broker, pod, pipelined=PIPELINED)
    broker.unbook(old.uid, 0.0)  # evicted in the session, and not in the cluster yet
    assert (state_of(broker, old), booked(broker, pod)) == ("ASSIGNED", booked(broker, pod))
    assert booked(broker, pod, pipelined=PIPELINED) == ""
    assert (state_of(broker, old), state_of(broker, pod)) == ("ASSIGNED", "CLAIMED")
    broker.unbook(pod.uid, 0.0)
    booked(broker, old)  # the session undoes the eviction
    assert "node n" in booked(broker, pod, pipelined=PIPELINED)


def test_a_claim_on_shared_memory_is_not_counted_twice_and_is_kept_free() -> None:
    memory = "aliyun.com/gpu-mem"
    broker = broker_of(FakeNode("n", "share", 1, memory=16))
    old = place(broker, device_pod("old", 10, memory), "n")
    pod, other = volcano_pod("a", 12, resource=memory), device_pod("b", 5, memory)
    seen(broker, pod, other, replace(old, deleting=True, version=9))
    assert booked(broker, pod, pipelined=PIPELINED) == ""
    assert broker.drift == {}
    assert broker.filter(other, ["n"], 0.0).nodes == []
    broker.observe([PodDeleted(old.uid)], 1.0)
    assert (state_of(broker, pod), broker.filter(other, ["n"], 1.0).nodes) == ("BOOKED", [])


@pytest.mark.rule("003.allocate")
def test_members_of_a_gang_are_booked_what_its_plan_reserves_and_giving_back_keeps_the_plan() -> None:
    broker = broker_of(*(FakeNode(name, "ring", 8) for name in "mn"))
    pods = gang("a", "b")
    broker.observe([pod_group("g", 2), *pods], 0.0)
    assert [broker.predicate(pods[0], name, 0.0).code for name in "mn"] == [0, 0]
    before = {pod.uid: entry for pod in pods if (entry := broker.entry(pod.uid))}
    assert [entry.state for entry in before.values()] == ["PLANNED"] * 2
    home = before[pods[0].uid].node
    assert booked(broker, pods[0], home) == ""
    assert "is planned on node" in booked(broker, pods[1], home)
    assert state_of(broker, pods[0]) == "BOOKED"
    broker.unbook(pods[0].uid, 1.0)
    assert {pod.uid: broker.entry(pod.uid) for pod in pods} == before


def test_a_gang_that_volcano_can_not_start_for_a_minute_causes_no_write() -> None:
    """Volcano counts other resources too, and replays both calls every second."""
    broker = broker_of(*(FakeNode(name, "ring", 8) for name in "mn"))
    waiting, pods = device_pod("waits", 16, ASCEND), gang("a", "b")
    effects = list(broker.observe([pod_group("g", 2), waiting, *pods], 0.0))
    for second in range(90):
        now = float(second)
        for pod in pods:
            for name in "mn":
                fit = broker.predicate(pod, name, now)
                effects += fit.effects
                if fit.code == 0:
                    effects += broker.book(Task(pod.uid, name, pod), now).effects
        for pod in pods:
            effects += broker.unbook(pod.uid, now + 0.5)
        effects += broker.step(now + 0.6, 100)
    assert {type(effect) for effect in effects} <= {Event}
    assert len(effects) < 10


def test_the_devices_of_a_booking_are_written_when_the_bound_pod_is_observed() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    seen(broker, pod)
    booked(broker, pod)
    chosen = devices(broker, pod)
    bound = replace(pod, node="n", version=2)
    (record,) = records(seen(broker, bound, now=1.0))
    assert record.annotations[ASCEND].count("Ascend910-") == 2
    assert (state_of(broker, pod), devices(broker, pod), broker.drift) == ("ASSIGNED", chosen, {})
    written = seen_recorded(bound, record)
    assert records(seen(broker, written, now=2.0)) == []
    assert (state_of(broker, pod), devices(broker, pod), broker.drift) == ("ASSIGNED", chosen, {})
    assert broker.next_deadline() is None


def test_the_record_is_written_again_until_it_is_observed() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    seen(broker, pod)
    booked(broker, pod)
    bound = replace(pod, node="n", version=2)
    (first,) = records(seen(broker, bound, now=1.0))
    seen(broker, replace(bound, phase="Running", version=3), now=1.5)  # not by us: the record is missing still
    times = []
    for second in range(2, 200):
        times += [second for effect in broker.step(float(second)) if isinstance(effect, Record)]
    assert times[:5] == [3, 7, 15, 31, 63]
    assert broker.drift == {}
    assert [part for part in first.annotations if part.startswith("linkwise.dev/")] == ["linkwise.dev/grant"]


def test_after_a_restart_a_bound_pod_without_record_gets_devices_that_no_other_pod_has() -> None:
    broker, pod, other = broker_of(RING), volcano_pod("a", 4), volcano_pod("b", 4)
    seen(broker, pod, other)
    booked(broker, pod)
    booked(broker, other)
    restarted = broker_of(RING)
    restarted.see([replace(each, node="n", version=2) for each in (pod, other)])
    assert not restarted.recover(5.0)
    found = records(restarted.step(5.0))
    assert {effect.uid for effect in found} == {pod.uid, other.uid}
    assert len({*devices(restarted, pod), *devices(restarted, other)}) == 8


def test_a_bound_pod_that_no_devices_are_left_for_is_reported_and_gets_some_when_there_are() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 8)
    old = place(broker, device_pod("old", 1, ASCEND), "n")
    effects = seen(broker, replace(pod, node="n", version=2))
    (event,) = [effect for effect in effects if isinstance(effect, Event) and effect.reason == "DevicesNotChosen"]
    assert event.sentence.startswith("scheduler volcano bound it to node n, which has no devices for it: ")
    assert [effect for effect in broker.step(20.0) if isinstance(effect, Event)] == []
    broker.observe([PodDeleted(old.uid)], 21.0)
    found = [effect for second in range(22, 90) for effect in records(broker.step(float(second)))]
    assert found
    assert len(devices(broker, pod)) == 8


def test_nothing_is_chosen_for_a_pod_that_has_started() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 8)
    assert seen(broker, replace(pod, node="n", begun=True, phase="Running", version=2)) == ()
    assert broker.step(100.0) == ()
    assert devices(broker, pod) == ()


def test_a_pod_that_carries_devices_gets_exactly_those_or_none() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    seen(broker, pod)
    carries = replace(pod, annotations={ASCEND: "Ascend910-5,Ascend910-6"})
    assert booked(broker, carries) == ""
    assert devices(broker, pod) == ("n-d5", "n-d6")
    assert "not its own any more" in booked(broker, replace(pod, annotations={ASCEND: "Ascend910-0,Ascend910-1"}))
    other = volcano_pod("b", 2)
    seen(broker, other)
    assert "not its own any more" in booked(broker, replace(other, annotations=carries.annotations))
    assert booked(broker, replace(other, annotations={ASCEND: ""})) == ""


def test_a_pod_that_was_bound_with_other_devices_than_its_booking_is_reported() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 1)
    seen(broker, pod)
    booked(broker, pod)
    assert devices(broker, pod) != ("n-d7",)
    effects = seen(broker, replace(pod, node="n", annotations={ASCEND: "Ascend910-7"}, version=2))
    assert [effect.reason for effect in effects if isinstance(effect, Event)] == ["DevicesOverwritten"]
    assert (devices(broker, pod), records(effects)) == (("#7",), [])


def test_bookings_survive_in_a_snapshot() -> None:
    broker, pods = broker_of(RING), [volcano_pod("a", 4), volcano_pod("b", 4), volcano_pod("c", 4)]
    old = place(broker, device_pod("old", 4, ASCEND), "n")
    seen(broker, *pods, replace(old, deleting=True, version=9))
    booked(broker, pods[0])
    booked(broker, pods[1], pipelined=PIPELINED)
    again = Broker.restore(broker.snapshot(1.0))
    assert [again.entry(pod.uid) for pod in pods] == [broker.entry(pod.uid) for pod in pods]
    assert again.next_deadline() == broker.next_deadline()
    assert again.snapshot(1.0) == broker.snapshot(1.0)
    bound = replace(pods[0], node="n", version=2)
    assert again.observe([bound], 2.0) == broker.observe([bound], 2.0)
    assert Broker.restore(broker.snapshot(2.0)).snapshot(2.0) == broker.snapshot(2.0)


@pytest.mark.parametrize(
    ("task", "error"),
    [
        (Task("", "n"), "the task without a UID has no pod"),
        (Task("unknown", "n"), "the task unknown has no pod"),
        (Task("uid-a", "elsewhere"), "node elsewhere is unknown"),
        (Task("uid-a", ""), "node without a name is unknown"),
    ],
)
def test_an_allocation_that_is_about_nothing_known_is_refused_with_a_reason(task: Task, error: str) -> None:
    broker = broker_of(RING)
    seen(broker, volcano_pod("a", 2))
    assert broker.book(task, 0.0).error == error


def test_a_pod_without_devices_is_allocated_anywhere() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 0)
    seen(broker, pod)
    assert booked(broker, pod, "elsewhere") == ""


def test_a_bind_of_kube_scheduler_takes_a_booking_over() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    seen(broker, pod)
    booked(broker, pod)
    (bound,) = binds(broker.bind(pod.uid, "n", 1.0).effects)
    assert bound.grant is not None
    assert state_of(broker, pod) == "ASSUMED"

"""How long what groups hold lasts, also where the clock is set back."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.watch_events import PodDeleted, PodListComplete
from linkwise.dialects.groups.koordinator_gang import WAITING
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.verdict import ReservedKey
from linkwise.testing.cluster import (
    FakeNode,
    binds,
    broker_of,
    device_pod,
    in_gang,
    in_group,
    place,
    woken_set,
)
from support.state import state_of

HOUR = 3600.0


def test_a_plan_holds_no_longer_when_the_clock_is_set_back() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, HOUR)
    assert broker.filter(pods[0], ["n0"], HOUR).nodes
    broker.step(0.0)
    assert broker.next_deadline() == 60.0
    broker.step(60.0)
    assert not list(broker.entries())


def test_a_group_rests_no_longer_when_the_clock_is_set_back() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, HOUR)
    broker.filter(pods[0], ["n0"], HOUR)
    broker.step(HOUR + 60.0)
    for pod in pods:
        assert broker.filter(pod, ["n0"], HOUR + 61.0).nodes == []
    assert woken_set(broker.step(0.0)) == {"a", "b"}
    assert broker.filter(pods[0], ["n0"], 1.0).nodes == ["n0"]


def test_a_group_whose_rest_is_over_does_not_rest_again_when_the_clock_is_set_back() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, HOUR)
    broker.filter(pods[0], ["n0"], HOUR)
    broker.step(HOUR + 60.0)
    assert woken_set(broker.step(HOUR + 70.0)) == {"a"}
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == ["n0"]


def test_a_group_waits_no_longer_for_members_when_the_clock_is_set_back() -> None:
    broker = broker_of(FakeNode("n0"))
    pod = in_group(device_pod("a"), total=2)[0]
    broker.observe([pod], HOUR)
    assert broker.filter(pod, ["n0"], HOUR).nodes == []
    assert woken_set(broker.step(0.0, 1000)) == {"a"}
    assert broker.filter(pod, ["n0"], 0.0).nodes == ["n0"]


def test_a_place_is_kept_no_longer_when_the_clock_is_set_back() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    bound = place(broker, replace(pods[0], labels={}), "n0", HOUR)
    broker.observe([replace(bound, labels=pods[0].labels, version=5), pods[1]], HOUR)
    broker.observe([PodDeleted(bound.uid)], HOUR)
    broker.observe([PodListComplete(frozenset({pods[1].uid}))], HOUR)
    assert [entry.key for entry in broker.entries()] == [ReservedKey("uid-a", "replacement")]
    broker.step(0.0)
    assert not list(broker.entries())


def held_for(said: str, settings: GroupSettings) -> float | None:
    broker = broker_of(FakeNode("n0"), settings=PlacingSettings(group=settings))
    pods = [
        replace(pod, annotations={**pod.annotations, WAITING: said})
        for pod in in_gang(device_pod("a"), device_pod("b"), least=2)
    ]
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes
    (stage,) = state_of(broker).groups.plans.values()
    return stage.expires


def test_a_plan_holds_for_as_long_as_its_gang_says_and_no_longer_than_any_may() -> None:
    usual = GroupSettings()
    assert [held_for(said, usual) for said in ("30s", "10m", "8760h")] == [60.0, 600.0, HOUR]
    assert held_for("10m", GroupSettings(longest_hold=90.0)) == 90.0


def test_a_plan_whose_last_bind_is_under_way_for_long_is_not_due_all_the_time() -> None:
    broker = broker_of(FakeNode("n0"))
    (pod,) = in_group(device_pod("a"))
    broker.observe([pod], 0.0)
    broker.filter(pod, ["n0"], 0.0)
    (flight,) = binds(broker.bind(pod.uid, "n0", 0.0).effects)
    broker.outcome(flight, "unknown", 0.0)
    broker.step(HOUR)
    assert broker.next_deadline() == HOUR + 60.0
    assert broker.entry(pod.uid)


def test_places_that_are_left_one_after_the_other_are_given_up_together() -> None:
    broker = broker_of(FakeNode("n0", count=4))
    pods = in_group(*(device_pod(name) for name in "abc"))
    broker.observe(pods, 0.0)
    for pod in pods:
        broker.filter(pod, ["n0"], 0.0)
        place(broker, pod, "n0")
    broker.observe([PodDeleted(pods[0].uid)], 1.0)
    broker.observe([PodDeleted(pods[1].uid)], 4.0)
    broker.step(7.0)
    assert (broker.next_deadline(), len(list(broker.entries()))) == (9.0, 3)
    broker.step(9.0)
    assert (broker.next_deadline(), len(list(broker.entries()))) == (None, 1)

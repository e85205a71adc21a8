"""Members of groups are known from what is observed: one that is made up holds nothing, and no pod gives way to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.dialects.groups.membership import NAME, REPLICA
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place, woken

if TYPE_CHECKING:
    from linkwise.model.views import PodView

NOW = 100.0


def refuse(broker: Broker, *pods: PodView) -> None:
    for pod in pods:
        assert broker.filter(pod, ["n"], NOW).nodes == []


def member(number: int) -> PodView:
    labels = {NAME: "g", REPLICA: "2"}
    return replace(device_pod(f"g-{number}"), labels=labels, created=float(number), version=1)


def planned(broker: Broker) -> list[str]:
    return sorted(entry.pod for entry in broker.entries() if entry.state == "PLANNED")


def test_made_up_members_hold_nothing() -> None:
    broker = broker_of(FakeNode("n", count=2))
    refuse(broker, member(0), member(1))
    assert planned(broker) == []
    assert broker.filter(device_pod("real", 2), ["n"], NOW).nodes == ["n"]


def test_a_made_up_member_does_not_complete_a_real_group() -> None:
    broker = broker_of(FakeNode("n", count=2))
    broker.observe([member(0)], NOW)
    refuse(broker, member(1), member(0))
    assert planned(broker) == []


def test_a_made_up_member_is_not_planned_when_the_window_is_over() -> None:
    broker = broker_of(FakeNode("n", count=2))
    broker.observe([member(1)], NOW)
    refuse(broker, member(0), member(1))
    assert broker.filter(member(1), ["n"], NOW + 20.0).nodes == ["n"]
    assert planned(broker) == ["uid-g-1"]


def test_a_group_whose_members_are_seen_late_is_planned_then() -> None:
    broker = broker_of(FakeNode("n", count=2))
    refuse(broker, member(0), member(1))
    assert woken(broker.observe([member(0)], NOW)) == ["g-0"]
    refuse(broker, member(0))
    assert woken(broker.observe([member(1)], NOW)) == ["g-1"]
    answer = broker.filter(member(1), ["n"], NOW)
    assert answer.nodes == ["n"]
    assert woken(answer.effects) == ["g-0"]


def test_a_pod_that_is_seen_without_the_group_that_it_named_is_woken() -> None:
    broker = broker_of(FakeNode("n", count=2))
    refuse(broker, member(0))
    assert woken(broker.observe([replace(member(0), labels={}, version=2)], NOW)) == ["g-0"]


def test_a_made_up_member_is_not_bound() -> None:
    broker = broker_of(FakeNode("n", count=2))
    refuse(broker, member(0))
    assert "belongs to a group without a plan" in broker.bind("uid-g-0", "n", NOW).error
    assert not list(broker.entries())


def test_no_pod_is_evicted_for_a_made_up_member() -> None:
    broker = broker_of(FakeNode("n", count=1))
    place(broker, device_pod("holder"), "n")
    refuse(broker, member(0))
    assert broker.preempt(member(0), {"n": ["uid-holder"]}, NOW) == {}


def test_no_plan_gives_way_to_a_made_up_pod_and_one_does_when_it_is_seen() -> None:
    broker = broker_of(FakeNode("n", count=2))
    broker.observe([member(0), member(1)], NOW)
    assert broker.filter(member(0), ["n"], NOW).nodes == ["n"]
    urgent = device_pod("urgent", 2, priority=5)
    refuse(broker, urgent)
    assert planned(broker) == ["uid-g-0", "uid-g-1"]
    assert woken(broker.observe([urgent], NOW)) == ["urgent"]
    assert broker.filter(urgent, ["n"], NOW).nodes == ["n"]
    assert planned(broker) == []


def test_a_member_is_woken_however_late_it_is_observed() -> None:
    broker = broker_of(FakeNode("n", count=2))
    refuse(broker, member(0), member(1))
    broker.step(NOW + 1000.0)
    late = NOW + 1001.0
    assert woken(broker.observe([member(0), member(1)], late)) == ["g-0", "g-1"]
    assert woken(broker.observe([replace(member(0), version=2)], late)) == []
    assert [broker.filter(member(number), ["n"], late).nodes for number in range(2)] == [["n"], ["n"]]


def test_a_member_that_is_observed_late_and_bound_is_not_woken() -> None:
    broker = broker_of(FakeNode("n", count=2))
    refuse(broker, member(0))
    broker.step(NOW + 1000.0)
    assert woken(broker.observe([replace(member(0), node="n")], NOW + 1001.0)) == []


def test_a_restored_broker_wakes_members_that_are_observed_late() -> None:
    broker = broker_of(FakeNode("n", count=2))
    refuse(broker, member(0))
    broker.step(NOW + 1000.0)
    restored = Broker.restore(broker.snapshot(NOW + 1000.0))
    assert woken(restored.observe([member(0)], NOW + 1001.0)) == ["g-0"]

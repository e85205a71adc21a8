"""What plans reserve: exactly the places of members that are pending in their group, whatever happens to these."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.watch_events import ClusterObject, PodDeleted
from linkwise.dialects.groups.koordinator_gang import INDEX
from linkwise.dialects.groups.pod_group_objects import KINDS
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod, in_gang, in_group, place, woken_set

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView


def ranked(pod: PodView, rank: int) -> PodView:
    return replace(pod, annotations={**pod.annotations, INDEX: str(rank)})


def pushed_out() -> tuple[Broker, PodView]:
    """A plan for two members of a gang; a pod of a lower rank comes, and the last is one too many."""
    broker = broker_of(FakeNode("n", count=4), FakeNode("other"))
    members = in_gang(device_pod("b"), device_pod("c"), device_pod("a"), least=1, total=2)
    first, last, lower = (ranked(pod, rank) for pod, rank in zip(members, (1, 2, 0), strict=True))
    broker.observe([first, last], 0.0)
    assert broker.filter(first, ["n"], 0.0).nodes == ["n"]
    broker.observe([replace(lower, created=9.0)], 1.0)
    return broker, last


def reserved(broker: Broker) -> set[str]:
    return {entry.pod for entry in broker.entries() if entry.state == "PLANNED"}


def test_a_member_that_is_pushed_out_of_its_group_loses_its_place() -> None:
    broker, last = pushed_out()
    assert reserved(broker) == {"uid-b"}
    assert all(last.uid not in plan.placements for plan in broker.plans().values())


def test_a_member_that_comes_back_is_bound_as_a_new_plan_says() -> None:
    broker, last = pushed_out()
    broker.observe([PodDeleted("uid-a")], 3.0)
    assert broker.filter(last, ["n"], 5.0).nodes == ["n"]
    place_of_last = broker.plans()["default/g"].placements[last.uid]
    (bound,) = binds(broker.bind(last.uid, "n", 5.0).effects)
    assert bound.grant is not None
    assert bound.grant.offer == place_of_last.offer


def test_a_member_that_comes_back_is_not_sent_to_a_node_that_was_filled_meanwhile() -> None:
    broker, last = pushed_out()
    place(broker, device_pod("single", 3), "n", 2.0)
    broker.observe([PodDeleted("uid-a")], 3.0)
    assert broker.filter(last, ["n", "other"], 5.0).nodes == ["other"]
    assert not broker.bind(last.uid, "other", 5.0).error


def test_a_member_that_moves_to_another_group_takes_nothing_from_that_groups_plan() -> None:
    broker = broker_of(FakeNode("n", count=8))
    old = in_group(device_pod("v1"), device_pod("v2"), device_pod("x"), name="v")
    broker.observe(old, 0.0)
    assert broker.filter(old[0], ["n"], 0.0).nodes == ["n"]
    new = in_group(device_pod("g1"), replace(old[2], version=2), name="g")
    broker.observe(new, 1.0)
    assert reserved(broker) == {"uid-v1", "uid-v2"}
    assert broker.filter(new[1], ["n"], 2.0).nodes == ["n"]
    broker.step(3.0, 1000)
    assert reserved(broker) == {"uid-v1", "uid-v2", "uid-g1", "uid-x"}
    assert not broker.bind("uid-x", "n", 3.0).error


def test_a_plan_that_left_a_member_out_leaves_nothing_behind_when_it_is_preempted() -> None:
    broker = broker_of(FakeNode("n"))
    gang = in_gang(device_pod("a"), device_pod("b"), device_pod("c"), least=2, total=3)
    broker.observe(gang, 0.0)
    for pod in gang:
        broker.filter(pod, ["n"], 0.0)
    high = replace(device_pod("high", 2), priority=9)
    broker.observe([high], 0.0)
    assert broker.filter(high, ["n"], 0.0).nodes == ["n"]
    broker.observe([PodDeleted(high.uid)], 0.5)
    due = broker.next_deadline()
    assert due is not None
    assert woken_set(broker.step(due, 1000)) == {"a", "b", "c"}
    assert broker.filter(gang[0], ["n"], due).nodes == ["n"]


def native(minimum: int) -> ClusterObject:
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return ClusterObject(KINDS["kubernetes"], "default/native", {"spec": spec})


def test_a_minimum_that_rises_while_a_plan_is_made_counts() -> None:
    broker = broker_of(FakeNode("n"), settings=PlacingSettings(group=GroupSettings(steps=1)))
    pods = [replace(device_pod(name, 2), scheduling_group="native", created=float(i)) for i, name in enumerate("ab")]
    broker.observe([native(1), *pods], 0.0)
    broker.filter(pods[0], ["n"], 0.0)
    broker.observe([native(2)], 0.1)
    broker.step(0.2, 1000)
    assert broker.plans() == {}
    assert broker.bind("uid-a", "n", 0.3).error
    broker.observe([native(1)], 1.0)
    broker.step(1.0, 1000)
    assert reserved(broker) == {"uid-a"}


def test_a_minimum_that_rises_beyond_a_plan_drops_it() -> None:
    broker = broker_of(FakeNode("n"))
    pods = [replace(device_pod(name, 2), scheduling_group="native", created=float(i)) for i, name in enumerate("ab")]
    broker.observe([native(1), *pods], 0.0)
    assert broker.filter(pods[0], ["n"], 0.0).nodes == ["n"]
    broker.observe([native(2)], 1.0)
    assert reserved(broker) == set()


def test_gangs_that_wait_for_one_that_does_not_name_them_are_planned_when_it_is_complete() -> None:
    broker = broker_of(FakeNode("n", count=4))
    (one,), (other,) = (
        in_gang(device_pod("a"), least=1, name="left", bundle="left right"),
        in_gang(device_pod("b"), least=1, name="right"),
    )
    broker.observe([one], 0.0)
    assert broker.filter(one, ["n"], 0.0).nodes == []
    broker.observe([other], 1.0)
    assert woken_set(broker.step(1.0, 1000)) == {"a"}

"""Groups that change while they wait, and the events about it."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.effects import Event
from linkwise.broker.watch_events import ClusterObject, NodeGone, PodDeleted
from linkwise.model.views import PodView
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

PLANLESS = PodView("default", "launcher", "uid-launcher")


def test_who_came_after_the_plan_does_not_stand_in_for_a_lost_member() -> None:
    broker = broker_of(FakeNode("n0", count=4))
    first, second, third = in_gang(device_pod("a"), device_pod("b"), device_pod("c"), least=2)
    broker.observe([first, second], 0.0)
    broker.filter(first, ["n0"], 20.0)
    assert broker.filter(first, ["n0"], 40.0).nodes == ["n0"]
    broker.observe([third, PodDeleted(second.uid)], 41.0)
    assert not list(broker.entries())
    broker.step(51.0, 1000)  # when it has waited for another one
    assert {entry.pod for entry in broker.entries()} == {first.uid, third.uid}


def test_a_gang_that_did_not_fit_and_loses_a_member_waits_for_it_and_is_not_woken() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_gang(device_pod("a"), device_pod("b", 2), device_pod("c"), least=3, total=3)
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == []
    assert woken_set(broker.observe([PodDeleted(pods[1].uid)], 1.0)) == set()
    assert set(broker.filter(pods[0], ["n0"], 1.0).unresolvable.values()) == {"node(s): the gang is incomplete"}


def test_a_gang_that_did_not_fit_is_woken_when_a_smaller_member_replaces_one() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_gang(device_pod("a"), device_pod("b", 2), device_pod("c"), least=2, total=2)
    broker.observe(pods[:2], 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == []
    broker.observe([PodDeleted(pods[1].uid), pods[2]], 1.0)
    assert woken_set(broker.step(1.0, 1000)) == {"a"}


def test_a_group_that_did_not_fit_is_woken_when_a_node_takes_pods_again() -> None:
    broker = broker_of(FakeNode("n0", cordoned=True, version=1))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == []
    assert broker.filter(pods[1], ["n0"], 0.0).nodes == []
    broker.observe([FakeNode("n0", version=2).view()], 1.0)
    assert woken_set(broker.step(1.0, 1000)) == {"a", "b"}


def test_a_group_that_did_not_fit_is_woken_when_a_node_has_more_beside_devices() -> None:
    broker = broker_of(FakeNode("n0", cpu="4", version=1))
    pods = in_group(device_pod("a", cpu="8"), device_pod("b", cpu="8"))
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == []
    assert broker.filter(pods[1], ["n0"], 0.0).nodes == []
    broker.observe([FakeNode("n0", version=2).view()], 1.0)
    assert woken_set(broker.step(1.0, 1000)) == {"a", "b"}


def test_who_waits_for_another_gang_is_woken_when_its_own_has_started() -> None:
    broker = broker_of(FakeNode("n0", count=4))
    pods = in_gang(device_pod("a"), device_pod("b"), name="left", least=1, total=2, bundle="left right")
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == []
    elsewhere = replace(pods[1], node="n0", version=2)
    broker.observe([elsewhere], 1.0)
    assert woken_set(broker.step(1.0, 1000)) == {"a"}
    assert broker.filter(pods[0], ["n0"], 1.0).nodes == ["n0"]


def test_a_member_without_devices_may_be_bound_where_it_was_sent() -> None:
    broker = broker_of(FakeNode("n0"))
    place(broker, device_pod("other", 2), "n0")
    pods = in_group(PLANLESS, device_pod("a"))
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == ["n0"]
    assert broker.bind(PLANLESS.uid, "n0", 0.0).error == ""


def test_a_pod_without_its_labels_goes_by_the_group_that_the_watch_shows() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_group(device_pod("a"), total=2)
    broker.observe(pods, 0.0)
    alone = replace(pods[0], labels={}, version=2)
    assert broker.filter(alone, ["n0"], 0.0).nodes == []
    broker.observe([alone], 0.0)
    assert broker.filter(alone, ["n0"], 0.0).nodes == ["n0"]


def test_a_gang_that_needs_more_members_by_its_object_holds_nothing() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = [replace(device_pod(name), annotations={"scheduling.volcano.sh/group-name": "v"}) for name in ("a", "b")]
    broker.observe([_volcano(2), *pods], 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == ["n0"]
    broker.observe([_volcano(3)], 1.0)
    assert not list(broker.entries())


def _volcano(minimum: int) -> ClusterObject:
    return ClusterObject("PodGroup.scheduling.volcano.sh", "default/v", {"spec": {"minMember": minimum}})


def test_a_group_that_did_not_fit_is_woken_when_the_devices_of_a_bound_member_are_free() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_group(device_pod("a"), device_pod("b", 2), device_pod("c", 2), total=3)
    bound = place(broker, replace(pods[0], labels={}), "n0")
    bound = replace(bound, labels=pods[0].labels, version=5)
    broker.observe([bound, *pods[1:]], 0.0)
    assert broker.filter(pods[1], ["n0"], 0.0).nodes == []
    broker.observe([replace(bound, deleting=True, version=6)], 20.0)
    assert woken_set(broker.step(20.0, 1000)) == set()
    broker.observe([PodDeleted(bound.uid)], 21.0)
    assert woken_set(broker.step(26.0, 1000)) == {"b"}  # when they were kept for a replacement for long enough


def test_members_are_woken_when_the_one_that_a_gate_held_back_is_gone() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe([pods[0], replace(pods[1], gates=("example.com/gate",))], 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == []
    broker.observe([PodDeleted(pods[1].uid)], 20.0)
    assert woken_set(broker.step(20.0, 1000)) == {"a"}
    assert broker.filter(pods[0], ["n0"], 20.0).nodes == ["n0"]


def test_a_gang_is_woken_when_a_member_comes_that_is_bound_already() -> None:
    broker = broker_of(FakeNode("n0"))
    pods = in_gang(device_pod("a"), device_pod("b"), least=2)
    broker.observe(pods[:1], 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == []
    broker.observe([replace(pods[1], node="n0")], 1.0)
    assert woken_set(broker.step(1.0, 1000)) == {"a"}
    assert broker.filter(pods[0], ["n0"], 1.0).nodes == ["n0"]


def test_a_pod_that_joins_a_group_waits_no_more_for_room_of_its_own() -> None:
    broker = broker_of(FakeNode("n0"))
    place(broker, device_pod("other", 2), "n0")
    alone = device_pod("a")
    broker.observe([alone], 0.0)
    assert broker.filter(alone, ["n0"], 0.0).nodes == []
    (member,) = in_group(replace(alone, version=2), total=2)
    broker.observe([member], 1.0)
    assert broker.filter(member, ["n0"], 1.0).nodes == []
    assert woken_set(broker.observe([PodDeleted("uid-other")], 2.0)) == set()


def test_pods_that_name_one_group_by_keys_of_two_systems_are_one_group_and_warned() -> None:
    broker = broker_of(FakeNode("n0"))
    (gang,) = in_gang(device_pod("a"), least=1, name="bert", total=2)
    other = replace(device_pod("b"), labels={"scheduling.x-k8s.io/pod-group": "bert"})
    assert not broker.observe([gang], 0.0)
    events = [effect for effect in broker.observe([other], 1.0) if isinstance(effect, Event)]
    assert {(event.reason, event.name) for event in events} == {("SourcesDiffer", "a"), ("SourcesDiffer", "b")}
    assert "default/bert is declared by both koordinator and scheduler-plugins" in events[0].sentence


def test_a_pod_too_many_that_becomes_a_member_waits_no_longer_alone() -> None:
    broker = broker_of(FakeNode("n0"))
    place(broker, device_pod("other", 2), "n0")
    first, second, extra = in_group(device_pod("a"), device_pod("b"), device_pod("c"), total=2)
    broker.observe([first, second, extra], 0.0)
    assert broker.filter(extra, ["n0"], 1.0).nodes == []
    assert [queued.uid for queued in state_of(broker).queue.unschedulable()] == [extra.uid]
    broker.observe([PodDeleted(second.uid), PodDeleted("uid-other")], 2.0)
    assert broker.filter(first, ["n0"], 2.0).nodes == ["n0"]
    assert state_of(broker).queue.unschedulable() == []


def test_a_pod_that_is_put_into_a_group_waits_no_longer_alone() -> None:
    broker = broker_of(FakeNode("n0"))
    place(broker, device_pod("other", 2), "n0")
    alone = device_pod("a")
    broker.observe([alone], 0.0)
    assert broker.filter(alone, ["n0"], 1.0).nodes == []
    broker.observe([replace(one, version=9) for one in in_group(alone, device_pod("b"))], 2.0)
    assert state_of(broker).queue.unschedulable() == []
    assert woken_set(broker.step(2.0, 1000)) == set()
    broker.observe([PodDeleted("uid-other")], 3.0)
    assert woken_set(broker.step(3.0, 1000)) == {"a"}


def test_a_pod_that_was_offered_a_node_and_joins_a_group_is_planned_with_it() -> None:
    broker = broker_of(FakeNode("n0", count=4))
    alone = device_pod("a")
    broker.observe([alone], 0.0)
    assert broker.filter(alone, ["n0"], 0.0).nodes == ["n0"]
    pods = in_group(replace(alone, version=2), device_pod("b"))
    broker.observe(pods, 1.0)
    assert broker.filter(pods[0], ["n0"], 1.0).nodes == ["n0"]
    assert {(entry.pod, entry.state) for entry in broker.entries()} == {("uid-a", "PLANNED"), ("uid-b", "PLANNED")}


def test_a_plan_is_let_go_when_pods_without_a_record_may_have_its_devices() -> None:
    broker = broker_of(FakeNode("n0", count=4))
    pods = in_gang(device_pod("a"), device_pod("b"), least=2)
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == ["n0"]
    strangers = replace(device_pod("stranger", 3), node="n0", version=1)
    effects = broker.observe([strangers], 1.0)
    assert "PlanBroken" in {effect.reason for effect in effects if isinstance(effect, Event)}
    assert not state_of(broker).groups.plans


def test_a_node_that_went_while_a_member_was_being_bound_is_planned_no_more() -> None:
    broker = broker_of(FakeNode("n0"), FakeNode("n1"))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, 0.0)
    (there,) = broker.filter(pods[0], ["n0", "n1"], 0.0).nodes
    flights = [binds(broker.bind(pod.uid, there, 0.0).effects)[0] for pod in pods]
    broker.observe([NodeGone(there)], 1.0)
    broker.outcome(flights[0], "refused", 1.0)
    assert "a" in woken_set(broker.step(1.0, 1000))
    (other,) = {"n0", "n1"} - {there}
    assert broker.filter(pods[0], [other], 1.0).nodes == [other]


def test_a_node_that_stopped_while_a_member_was_being_bound_is_planned_no_more() -> None:
    broker = broker_of(FakeNode("n0", version=1))
    (pod,) = in_group(device_pod("a"))
    broker.observe([pod], 0.0)
    broker.filter(pod, ["n0"], 0.0)
    (flight,) = binds(broker.bind(pod.uid, "n0", 0.0).effects)
    broker.observe([FakeNode("n0", ready=False, version=2).view()], 1.0)
    broker.outcome(flight, "refused", 1.0)
    assert not state_of(broker).groups.plans
    assert not list(broker.entries())


def test_a_bind_that_is_refused_when_the_plan_is_another_holds_nothing() -> None:
    broker = broker_of(FakeNode("n0", count=4))
    first, second, late = in_group(*(device_pod(name) for name in "abc"))
    broker.observe([first, second], 0.0)
    broker.filter(first, ["n0"], 0.0)
    assert broker.filter(first, ["n0"], 20.0).nodes == ["n0"]
    (flight,) = binds(broker.bind(first.uid, "n0", 20.0).effects)
    broker.observe([late], 20.0)
    assert broker.filter(late, ["n0"], 20.0).nodes == ["n0"]
    broker.outcome(flight, "refused", 20.0)
    assert {entry.pod for entry in broker.entries()} == {second.uid, late.uid}

"""Members whose PodGroup is observed after them, or never."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Event
from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.groups.conventions import SCHEDULER_PLUGINS
from linkwise.dialects.groups.koordinator_gang import LABEL
from linkwise.dialects.groups.pod_group_objects import KINDS
from linkwise.model.views import ContainerView
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, woken_set

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

MEMBERS: dict[str, dict[str, object]] = {
    "kubernetes": {"scheduling_group": "g"},
    "scheduler-plugins": {"labels": {SCHEDULER_PLUGINS: "g"}},
    "volcano": {"annotations": {"scheduling.volcano.sh/group-name": "g"}},
    "koordinator": {"labels": {LABEL: "g"}},
    "kai": {"annotations": {"pod-group-name": "g"}},
}
MISSING = {"node(s): the group's PodGroup doesn't exist"}
OTHERS = [source for source in MEMBERS if source != "kubernetes"]


def pods(source: str) -> list[PodView]:
    made = [replace(device_pod(name, 2), created=float(i)) for i, name in enumerate("ab")]
    return [replace(pod, **MEMBERS[source]) for pod in made]  # type: ignore[arg-type]


def pod_group(source: str, minimum: int = 2) -> ClusterObject:
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}} if source == "kubernetes" else {"minMember": minimum}
    return ClusterObject(KINDS[source], "default/g", {"spec": spec})


def refused(broker: Broker, pod: PodView, now: float) -> set[str]:
    answer = broker.filter(pod, ["n"], now)
    assert not answer.nodes
    assert broker.bind(pod.uid, "n", now).error
    return {*answer.failed.values(), *answer.unresolvable.values()}


@pytest.mark.parametrize("source", MEMBERS)
def test_a_gang_is_not_started_in_part_before_its_pod_group_is_observed(source: str) -> None:
    broker, members = broker_of(FakeNode("n")), pods(source)
    broker.observe(members, 0.0)
    assert refused(broker, members[0], 0.0) == MISSING
    broker.observe([pod_group(source)], 0.1)
    broker.step(0.1, 1000)
    assert "the gang" in refused(broker, members[0], 0.2).pop()


@pytest.mark.parametrize("source", MEMBERS)
def test_a_member_without_devices_is_not_bound_before_its_pod_group_is_observed_either(source: str) -> None:
    broker, members = broker_of(FakeNode("n")), pods(source)
    members[0] = replace(members[0], containers=(ContainerView("main"),))
    broker.observe(members, 0.0)
    assert broker.bind(members[0].uid, "n", 0.0).error  # without a question before
    assert refused(broker, members[0], 0.0) == MISSING


@pytest.mark.parametrize("source", MEMBERS)
def test_members_are_woken_when_their_pod_group_is_observed_and_they_fit(source: str) -> None:
    broker, members = broker_of(FakeNode("n", count=4)), pods(source)
    broker.observe(members, 0.0)
    assert refused(broker, members[0], 0.0) == MISSING
    broker.observe([pod_group(source)], 0.1)
    assert woken_set(broker.step(0.1, 1000)) == {"a"}


def test_a_group_of_kubernetes_itself_waits_for_its_object_however_long() -> None:
    broker, members = broker_of(FakeNode("n")), pods("kubernetes")
    broker.observe(members, 0.0)
    assert refused(broker, members[0], 0.0) == refused(broker, members[0], 5000.0) == MISSING
    assert broker.next_deadline() is None


@pytest.mark.parametrize("source", OTHERS)
def test_other_groups_are_planned_without_the_object_after_a_while_and_an_event_says_so(source: str) -> None:
    broker, members = broker_of(FakeNode("n")), pods(source)
    broker.observe(members, 0.0)
    assert refused(broker, members[0], 5.0) == MISSING
    assert broker.next_deadline() == 15.0
    effects = broker.step(15.0, 1000)
    assert woken_set(effects) == {"a"}
    events = {(event.reason, event.name) for event in effects if isinstance(event, Event)}
    assert events == {("PodGroupMissing", "a"), ("PodGroupMissing", "b")}
    assert broker.filter(members[0], ["n"], 15.0).nodes == ["n"]


def test_a_gang_whose_pods_give_the_minimum_does_not_wait_for_the_object() -> None:
    broker = broker_of(FakeNode("n", count=4))
    words = {"scheduling.volcano.sh/group-name": "g", "scheduling.volcano.sh/group-min-member": "2"}
    members = [replace(pod, annotations=words) for pod in pods("volcano")]
    broker.observe(members, 0.0)
    assert broker.filter(members[0], ["n"], 0.0).nodes == ["n"]

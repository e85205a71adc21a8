"""Events and refusals name nothing beyond the namespace that they are written to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.effects import Event
from linkwise.broker.watch_events import PodDeleted
from linkwise.dialects.groups.koordinator_gang import GROUPS, MINIMUM, NAME, TOTAL
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.settings import PlacingSettings, PreemptionSettings
from linkwise.testing.cluster import MEMORY, FakeNode, broker_of, device_pod, in_gang, place
from support.builders.access_objects import EVERYBODY, access_policy, team_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

EVICTING = PlacingSettings(preemption=PreemptionSettings(evict=True, hold=100.0))
ELSEWHERE = "a pod of another namespace (UID uid-"


def event_texts(effects: Iterable[Effect]) -> dict[tuple[str, str], str]:
    """Sentences of events by their reason and the name of the pod or node."""
    return {(each.reason, each.name or each.node): each.sentence for each in effects if isinstance(each, Event)}


def full(namespace: str, settings: PlacingSettings = EVICTING) -> Broker:
    """Two nodes of four devices that two pods of that namespace have."""
    broker = broker_of(FakeNode("n0", count=4), FakeNode("n1", count=4), settings=settings)
    for node in ("n0", "n1"):
        place(broker, device_pod(f"low-{node}", 4, namespace=namespace), node)
    return broker


def preempting(broker: Broker, namespace: str) -> dict[tuple[str, str], str]:
    """The events when a gang of a higher priority does not fit."""
    pods = [replace(device_pod(f"high-{number}", 4, namespace=namespace), priority=9) for number in range(2)]
    gang = in_gang(*pods, least=2, name="large")
    broker.observe(gang, 1.0)
    for pod in gang:
        broker.filter(pod, ["n0", "n1"], 1.0)
    return event_texts(effect for now in (1.1, 3.0, 5.1) for effect in broker.step(now))


def test_victims_and_preemptors_of_one_namespace_read_each_others_names() -> None:
    events = preempting(full("team-a"), "team-a")
    assert events["Preempted", "low-n0"] == (
        "preempted by group team-a/large, which has a higher priority (9) and does not fit otherwise"
    )
    assert "team-a/low-n0 on node n0, team-a/low-n1 on node n1" in events["Preempting", "high-0"]


def test_victims_and_preemptors_of_several_namespaces_do_not() -> None:
    broker = full("team-b")
    events = preempting(broker, "team-a")
    assert events["Preempted", "low-n0"] == (
        "preempted by a group of another namespace, which has a higher priority (9) and does not fit otherwise"
    )
    assert events["Preempting", "high-0"] == (
        f"evicting 2 pods of lower priority: {ELSEWHERE}low-n0) on node n0, {ELSEWHERE}low-n1) on node n1"
    )
    refused = event_texts(broker.not_evicted("uid-low-n0", 6.0))
    assert refused["PreemptionRefused", "high-0"].startswith(f"{ELSEWHERE}low-n0) could not be evicted")


def planned(namespace: str) -> Broker:
    """A node that the plan of a gang of that namespace takes."""
    broker = broker_of(FakeNode("n", count=4))
    gang = in_gang(*(device_pod(f"low-{number}", 2, namespace=namespace) for number in range(2)), least=2, name="small")
    broker.observe(gang, 1.0)
    broker.filter(gang[0], ["n"], 1.0)
    return broker


def overruling(broker: Broker) -> Mapping[tuple[str, str], str]:
    """The events when a pod of team-a with a higher priority comes."""
    pod = replace(device_pod("high", 4, namespace="team-a"), priority=3)
    broker.observe([pod], 2.0)
    return event_texts(broker.filter(pod, ["n"], 2.0).effects)


def test_the_pod_that_takes_the_devices_of_a_plan_is_named_in_its_own_namespace() -> None:
    winner = "which has a higher priority (3) and does not fit otherwise"
    own, others = overruling(planned("team-a")), overruling(planned("team-b"))
    assert own["PlanBroken", "low-0"] == f"its plan was preempted by pod team-a/high, {winner}"
    assert others["PlanBroken", "low-0"] == f"its plan was preempted by {ELSEWHERE}high), {winner}"
    loser = "which has a lower priority and no bound members"
    assert own["PlanOverruled", "high"] == f"it preempted the plan of group team-a/small, {loser}"
    assert others["PlanOverruled", "high"] == f"it preempted the plan of a group of another namespace, {loser}"


def reserved(namespace: str) -> Broker:
    """A node that is drained for a pod of that namespace: two of its four devices are free."""
    broker = broker_of(FakeNode("n", count=4))
    small = [place(broker, device_pod(f"small-{number}", namespace="team-c"), "n") for number in range(4)]
    large = replace(device_pod("large", 4, namespace=namespace, priority=5), unschedulable_since=1.0)
    broker.observe([large], 1.0)
    broker.filter(large, ["n"], 1.0)
    broker.step(302.0)
    broker.observe([PodDeleted(pod.uid) for pod in small[:2]], 310.0)
    return broker


def test_the_pod_for_which_a_reservation_ends_is_named_in_its_own_namespace() -> None:
    urgent = device_pod("urgent", 2, namespace="team-a", priority=6)
    ends = "which has a higher priority (6) and does not fit otherwise"
    for namespace, name in (("team-a", "pod team-a/urgent"), ("team-b", f"{ELSEWHERE}urgent)")):
        broker = reserved(namespace)
        broker.observe([urgent], 310.0)
        events = event_texts(broker.filter(urgent, ["n"], 310.0).effects)
        assert events == {("ReservationEnded", "large"): f"its reservation ended for {name}, {ends}"}


def test_the_owner_of_a_reservation_is_named_in_its_own_namespace_when_volcano_asks() -> None:
    other = device_pod("other", 1, namespace="team-a")
    for namespace, name in (("team-a", "pod team-a/large"), ("team-b", "a pod of another namespace")):
        broker = reserved(namespace)
        broker.observe([other], 310.0)
        assert broker.predicate(other, "n", 310.0).reason == (
            f"its free devices are reserved for {name}, which is ahead in the queue and waits for more of them"
        )


def bundled(namespace: str) -> tuple[Broker, list[PodView]]:
    """A planned gang of team-a, and one of that namespace that starts together with it."""
    broker = broker_of(FakeNode("n", count=4))
    pods = [device_pod("one", 2, namespace="team-a"), device_pod("two", 2, namespace=namespace)]
    names = [f"{pod.namespace}/gang-{pod.name}" for pod in pods]
    gangs = [
        replace(pod, annotations={NAME: f"gang-{pod.name}", MINIMUM: "1", TOTAL: "1", GROUPS: json.dumps(names)})
        for pod in pods
    ]
    broker.observe(gangs, 1.0)
    assert [broker.filter(pod, ["n"], 1.0).nodes for pod in gangs] == [["n"], ["n"]]
    return broker, gangs


def test_why_a_plan_of_several_gangs_ended_is_an_event_in_the_namespace_of_the_member_that_is_named() -> None:
    """The message of its scheduler is the member's own, too."""
    for namespace in ("team-a", "team-b"):
        broker, gangs = bundled(namespace)
        message = "0/1 nodes are available: a secret"
        broker.observe([replace(gangs[0], unschedulable_message=message, version=9)], 2.0)
        events = event_texts(broker.step(62.0))
        readable = namespace == "team-a"
        assert "pod one is unschedulable" in events["PlanExpired", "one"]
        assert ("pod one is unschedulable" in events["PlanExpired", "two"]) is readable
        explanation = explain_pod(broker, "uid-two", 62.0, readable=frozenset({namespace}))
        assert explanation is not None
        assert ("a secret" in "".join(explanation_lines(explanation))) is readable


def test_a_record_that_was_changed_is_reported_on_the_node_by_the_uid_of_its_pod() -> None:
    """Events about nodes are in the namespace default."""
    for namespace, name in (("default", "pod default/p"), ("team-b", f"{ELSEWHERE}p)")):
        broker = broker_of(FakeNode("n", count=2))
        pod = place(broker, device_pod("p", 1, namespace=namespace), "n")
        broker.observe([pod], 1.0)
        events = broker.observe([replace(pod, annotations={}, version=pod.version + 1)], 2.0)
        assert f"the record of {name} was changed" in event_texts(events)["Drift", "n"]


def test_a_bind_is_refused_without_the_namespaces_that_share_the_device() -> None:
    broker = broker_of(FakeNode("s", "share", count=1))
    place(broker, device_pod("b", 4, MEMORY, namespace="team-b"), "s")
    pod = device_pod("a", 4, MEMORY, namespace="team-a")
    broker.observe([pod], 1.0)
    assert "are used by another namespace, and namespace team-a" in broker.bind(pod.uid, "s", 1.0).error
    assert "are used by another namespace, and namespace team-a" in broker.predicate(pod, "s", 1.0).reason


def test_a_user_that_a_device_is_shared_with_is_named_to_readers_of_its_pods() -> None:
    broker = broker_of(FakeNode("s", "share", count=1))
    broker.observe([access_policy("p", EVERYBODY, sharing={"with": "user"})], 0.0)
    place(broker, team_pod("b", 4, MEMORY, namespace="team-b", user="bob"), "s")
    waiting = team_pod("a", 4, MEMORY, namespace="team-a", user="ann")
    broker.observe([waiting], 1.0)
    for readable, name in ((None, "user bob"), (frozenset({"team-a"}), "another user")):
        explanation = explain_pod(broker, "uid-a", 1.0, readable=readable)
        assert explanation is not None
        assert f"devices with free memory are used by {name}, and" in "".join(explanation_lines(explanation))

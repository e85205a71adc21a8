"""Members of gangs with PersistentVolumeClaims: no member starts while another can't get its volumes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.cluster.objects import ALL
from linkwise.broker.effects import Event
from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.groups.koordinator_gang import WAITING
from linkwise.dialects.kubernetes.objects import CLAIM, CLASS
from linkwise.explain.group.group import explain_group
from linkwise.explain.text.pod import explanation_lines
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, gated, in_gang, place, steers, woken_set

if TYPE_CHECKING:
    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

NODES = ["n0"]
LISTED = (ClusterObject(CLAIM, ALL, {}), ClusterObject(CLASS, ALL, {}))
"""as the watch delivers it when both kinds were listed"""
BOUND = {"spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}


def claim(document: dict[str, Any] | None) -> ClusterObject:
    return ClusterObject(CLAIM, "default/data", document)


def unbound(storage_class: str = "", node: str = "") -> dict[str, Any]:
    annotations = {"volume.kubernetes.io/selected-node": node} if node else {}
    return {"metadata": {"annotations": annotations}, "spec": {"storageClassName": storage_class}}


def storage_class(name: str, mode: str = "WaitForFirstConsumer") -> ClusterObject:
    return ClusterObject(CLASS, name, {"volumeBindingMode": mode})


def gang(least: int = 2) -> list[PodView]:
    """Two members, the second of which has a claim."""
    first, second = in_gang(device_pod("p0"), device_pod("p1"), least=least, total=2)
    return [first, replace(second, volume_claims=("data",))]


def cluster(*objects: ClusterObject, listed: bool = True) -> Broker:
    broker = broker_of(FakeNode("n0", count=4))
    broker.observe([*(LISTED if listed else ()), *objects], 0.0)
    return broker


def tried(broker: Broker, pods: list[PodView], now: float = 1.0) -> list[list[str]]:
    broker.observe(pods, now)
    return [list(broker.filter(pod, NODES, now).nodes) for pod in pods]


def after(broker: Broker, event: ClusterObject, now: float = 100.0) -> list[Effect]:
    """What follows from a change."""
    return [*broker.observe([event], now), *broker.step(now, 1000)]


def explained(broker: Broker) -> str:
    group = explain_group(broker, "uid-p0", 2.0)
    assert group is not None
    return "\n".join(explanation_lines(group))


@pytest.mark.rule("001.gang")
@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ((), "does not exist"),
        ((claim(unbound()),), "is not bound"),
        ((claim(unbound("fast")),), "its StorageClass fast does not exist"),
        ((claim(unbound("slow")), storage_class("slow", "Immediate")), "is not bound"),
        ((claim(unbound("fast", "n7")), storage_class("fast")), "provisioned for node n7"),
    ],
    ids=["missing", "no class", "unknown class", "immediate", "provisioning"],
)
def test_no_member_of_a_gang_starts_while_a_claim_of_another_can_not_be_bound(
    objects: tuple[ClusterObject, ...], why: str
) -> None:
    broker = cluster(*objects)
    assert tried(broker, gang()) == [[], []]
    assert broker.plans() == {}
    assert "PersistentVolumeClaim data of pod default/p1, a member of the pod's gang, " in explained(broker)
    assert why in explained(broker)


@pytest.mark.parametrize(
    "objects", [(claim(BOUND),), (claim(unbound("fast")), storage_class("fast"))], ids=["bound", "on demand"]
)
def test_a_gang_starts_whose_claims_are_bound_or_will_be_on_the_chosen_node(objects: tuple[ClusterObject, ...]) -> None:
    assert tried(cluster(*objects), gang()) == [NODES, NODES]


def test_a_gang_starts_if_claims_may_not_be_read() -> None:
    assert tried(cluster(listed=False), gang()) == [NODES, NODES]


def test_a_gang_starts_without_members_beyond_its_minimum_that_lack_a_volume() -> None:
    assert tried(cluster(), gang(least=1))[0] == NODES


def test_members_are_woken_when_the_claim_is_bound() -> None:
    broker = cluster(claim(unbound()))
    pods = gang()
    tried(broker, pods)
    assert woken_set(after(broker, claim(BOUND))) == {"p0", "p1"}
    assert tried(broker, pods, 101.0) == [NODES, NODES]


def test_members_are_woken_when_the_storage_class_is_created() -> None:
    broker = cluster(claim(unbound("fast")))
    tried(broker, gang())
    assert woken_set(after(broker, storage_class("fast"))) == {"p0", "p1"}


def test_gated_members_keep_their_gate_until_the_claim_is_bound() -> None:
    broker = cluster()
    assert steers(broker.observe(gated(gang()), 1.0)) == []
    assert {each.name for each in steers(after(broker, claim(BOUND)))} == {"p0", "p1"}


def test_a_restored_broker_knows_which_claims_are_bound() -> None:
    broker = cluster(claim(BOUND))
    restored = Broker.restore(broker.snapshot(0.5))
    assert tried(restored, gang()) == [NODES, NODES]
    missing = Broker.restore(cluster().snapshot(0.5))
    assert tried(missing, gang()) == [[], []]


LONG = {WAITING: "1h"}


def stuck(pods: list[PodView], *objects: ClusterObject) -> Broker:
    """A gang whose first member is bound, and whose second one is not, though it has its place."""
    broker = cluster(*objects)
    broker.observe([replace(pod, annotations={**pod.annotations, **LONG}) for pod in pods], 1.0)
    for pod in pods:
        broker.filter(pod, NODES, 1.0)
    place(broker, broker.pods["uid-p0"], "n0", 1.0)
    return broker


def test_the_devices_of_a_gang_are_released_within_a_minute_if_a_volume_is_not_provisioned() -> None:
    broker = stuck(gang(), claim(unbound("fast")), storage_class("fast"))
    assert broker.next_deadline() == 61.0
    assert broker.step(60.9) == ()
    events = [each for each in broker.step(61.0) if isinstance(each, Event) and each.name == "p1"]
    assert [
        (event.reason, "PersistentVolumeClaim data of pod p1 is not bound" in event.sentence) for event in events
    ] == [("PlanExpired", True)]
    assert broker.plans() == {}
    assert "PersistentVolumeClaim data of pod p1 is not bound" in explained(broker)
    assert broker.filter(device_pod("other", 3), NODES, 62.0).nodes == NODES


def test_the_devices_of_a_gang_are_released_within_a_minute_if_its_scheduler_does_not_accept_a_member() -> None:
    broker = stuck(gang(), claim(BOUND))
    message = "0/1 nodes are available: 1 node(s) had a volume node affinity conflict"
    broker.observe([replace(broker.pods["uid-p1"], unschedulable_message=message, version=9)], 2.0)
    broker.step(61.0)
    assert broker.plans() == {}
    assert message in explained(broker)


@pytest.mark.parametrize("message", ["", "0/1 nodes are available: 1 node(s): the gang is incomplete"])
def test_a_plan_holds_while_nothing_is_known_to_keep_its_members_from_being_bound(message: str) -> None:
    broker = stuck(gang(), claim(BOUND))
    broker.observe([replace(broker.pods["uid-p1"], unschedulable_message=message, version=9)], 2.0)
    for now in (61.0, 121.0, 3000.0):
        broker.step(now)
    assert list(broker.plans()) == ["default/g"]
    assert broker.step(3601.0)
    assert broker.plans() == {}

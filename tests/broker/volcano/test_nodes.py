"""Nodes that Volcano refuses for planned pods: the pods that replace them avoid these nodes for some time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Event
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, steers
from support.volcano_cluster import GROUP, VolcanoCluster, job, single

if TYPE_CHECKING:
    from linkwise.model.views import PodView

UNFIT = "0/3 nodes are unavailable: 1 node(s) had volume node affinity conflict, 2 didn't match node affinity."
QUEUE = "pod group is not ready, 2 Pending, 2 minAvailable; queue resource quota insufficient"
POSSIBLE = "Pod default/train-1 can possibly be assigned to b, once resource is released and minAvailable is satisfied"


def rings(*names: str) -> VolcanoCluster:
    placing = PlacingSettings(group=GroupSettings(hold=60.0), job_shape="per-pod")
    return VolcanoCluster(*(FakeNode(name, "ring", 8) for name in names), settings=placing)


def replica(name: str, chips: int = 8) -> PodView:
    """A pod of a ReplicaSet: Volcano names its PodGroup by the owner."""
    return replace(single(name, chips), annotations={GROUP: "podgroup-owner"})


def refuse(cluster: VolcanoCluster, name: str, message: str) -> None:
    """Volcano publishes why it did not bind a pod."""
    pod = cluster.pods[name]
    seen = replace(pod, unschedulable_since=cluster.now, unschedulable_message=message, version=pod.version + 1)
    cluster.pods[name] = seen
    cluster.see(seen)


def expired(cluster: VolcanoCluster, *pods: PodView, **messages: str) -> None:
    """Plan pods, which Volcano refuses with these messages until the plan expires."""
    cluster.submit(*pods)
    cluster.write()
    for name, message in messages.items():
        refuse(cluster, name.replace("_", "-"), message)
    cluster.step(61.0)


def pins(cluster: VolcanoCluster, name: str) -> list[str]:
    return [steer.pin for steer in steers(cluster.effects) if steer.name == name]


def explained(cluster: VolcanoCluster, name: str) -> str:
    report = explain_pod(cluster.broker, f"uid-{name}", cluster.now)
    assert report
    return "\n".join(explanation_lines(report))


@pytest.mark.rule("001.replan", level="L")
def test_the_pod_that_replaces_a_refused_one_goes_to_another_node() -> None:
    cluster = rings("a", "b")
    expired(cluster, replica("p"), p=UNFIT)
    cluster.delete("p")
    cluster.create(replica("q"))
    assert pins(cluster, "q") == ["b"]


def test_a_refused_node_is_used_if_no_other_fits() -> None:
    cluster = rings("a")
    expired(cluster, replica("p"), p=UNFIT)
    cluster.delete("p")
    cluster.create(replica("q"))
    assert pins(cluster, "q") == ["a"]


def test_a_refused_pod_is_tried_again_on_the_node_to_which_it_is_pinned() -> None:
    cluster = rings("a", "b")
    expired(cluster, replica("p"), p=UNFIT)
    cluster.write()
    cluster.step(100.0)
    cluster.write()
    cluster.look()
    assert cluster.session() == ["p"]
    assert cluster.bound() == {"p": "a"}


def test_a_refused_node_is_used_again_after_ten_minutes() -> None:
    cluster = rings("a", "b")
    expired(cluster, replica("p"), p=UNFIT)
    cluster.delete("p")
    cluster.step(601.0)
    cluster.create(replica("q"))
    assert pins(cluster, "q") == ["a"]


@pytest.mark.parametrize("message", [QUEUE, POSSIBLE, ""])
def test_a_pod_that_waits_for_its_queue_or_gang_does_not_demote_its_node(message: str) -> None:
    cluster = rings("a", "b")
    expired(cluster, replica("p"), p=message)
    cluster.delete("p")
    cluster.create(replica("q"))
    assert pins(cluster, "q") == ["a"]


def test_only_the_refused_member_of_a_gang_is_replaced_elsewhere() -> None:
    cluster = rings("a", "b", "c")
    gang = job("train", 8, 8)
    expired(cluster, *gang, train_0=UNFIT, train_1=POSSIBLE)
    cluster.write()
    first = {name: pod.affinity for name, pod in cluster.pods.items()}
    cluster.delete("train-0")
    cluster.create(replace(gang[0], uid="uid-new"))
    cluster.step(100.0)
    assert {steer.name: steer.node for steer in cluster.queued.values()} == {"train-0": "c", "train-1": "b"}
    assert cluster.pods["train-1"].affinity == first["train-1"]


def test_other_groups_are_still_planned_on_a_node_that_was_refused_for_one() -> None:
    cluster = rings("a", "b")
    expired(cluster, replica("p"), p=UNFIT)
    cluster.submit(single("other", 8))
    assert pins(cluster, "other") == ["a"]


def test_the_event_and_the_explanation_name_the_refused_node_and_volcanos_reason() -> None:
    cluster = rings("a", "b")
    expired(cluster, replica("p"), p=UNFIT)
    (event,) = [each for each in cluster.effects if isinstance(each, Event) and each.reason == "PlanExpired"]
    assert "pods that replace them avoid node a, which Volcano refused" in event.sentence
    assert f"Volcano reports: {UNFIT}" in explained(cluster, "p")
    cluster.delete("p")
    cluster.create(replica("q"))
    assert "node a is used only if no other fits: Volcano did not bind a pod of its group there" in explained(
        cluster, "q"
    )


def test_refused_nodes_are_part_of_a_snapshot() -> None:
    cluster = rings("a", "b")
    expired(cluster, replica("p"), p=UNFIT)
    stored = cluster.broker.snapshot(cluster.now)
    assert stored.state
    assert list(stored.state.demoted.values()) == [{"a": cluster.now + 600.0}]

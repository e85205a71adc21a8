"""Waiting pods are placed one after the other, as a scheduler would."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.sim.replay import Runner, differs, explained, replay
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from linkwise.broker.snapshot import BrokerState
    from linkwise.model.snapshot import Snapshot
    from linkwise.sim.replay import Decision


def pod(name: str, count: int = 2, created: float = 0.0, priority: int = 0) -> PodView:
    containers = (ContainerView("main", {"cpu": "1"}, {"nvidia.com/gpu": str(count)}),)
    return PodView("default", name, f"u-{name}", containers, created=created, priority=priority, version=1)


def snapshot(*pods: PodView) -> Snapshot[BrokerState]:
    broker = Broker()
    plain = NodeView("plain", capacity={"cpu": "64"}, allocatable={"cpu": "64"})
    broker.observe([*fleet_node(profile("dgx1-v100"), "n1"), plain, *pods], 1.0)
    return broker.snapshot(1.0)


def names(decisions: list[Decision]) -> list[str]:
    return [decision.pod for decision in decisions]


def test_the_highest_priority_goes_first_then_the_oldest() -> None:
    found = list(
        replay(snapshot(pod("young", created=5.0), pod("old", created=1.0), pod("urgent", created=9.0, priority=1)))
    )
    assert names(found) == ["default/urgent", "default/old", "default/young"]


def test_a_decision_reports_node_devices_policy_and_score() -> None:
    (found,) = replay(snapshot(pod("a")))
    assert (found.node, found.policy, found.devices[0].indices) == ("n1", "link-affinity", (0, 3))
    assert found.score["score"] == 230
    assert found.reasons == {}


def test_a_pending_pod_is_listed_with_its_reason_and_number_of_nodes() -> None:
    first, second = replay(snapshot(pod("a", 8), pod("b", 1, created=1.0)))
    assert first.node == "n1"
    assert (second.node, second.reasons) == (
        "",
        {"node(s) had no devices of the requested kind": 1, "node(s) had too few free devices": 1},
    )


def test_nodes_that_lack_something_else_are_not_asked() -> None:
    greedy = replace(pod("a"), containers=(ContainerView("main", {"cpu": "81"}, {"nvidia.com/gpu": "2"}),))
    (found,) = replay(snapshot(greedy))
    assert found.reasons == {"node(s) had insufficient cpu": 2}


def test_pods_that_are_held_back_bound_leaving_or_over_are_not_placed() -> None:
    gated = replace(pod("gated"), gates=("quota",))
    others = [
        replace(pod("bound"), node="n1"),
        replace(pod("leaving"), deleting=True),
        replace(pod("over"), phase="Failed"),
    ]
    found = list(replay(snapshot(gated, *others)))
    assert [(decision.pod, decision.reasons) for decision in found] == [
        ("default/gated", {"the pod has scheduling gates": 2})
    ]


def test_a_pod_that_only_asked_is_placed_too() -> None:
    broker = Broker.restore(snapshot())
    broker.filter(pod("asked"), ["n1", "plain"], 2.0)
    assert names(list(replay(broker.snapshot(2.0)))) == ["default/asked"]


def test_the_same_snapshot_gives_the_same_decisions() -> None:
    taken = snapshot(*(pod(f"p{number}", 1 + number % 3, created=number) for number in range(6)))
    assert list(replay(taken)) == list(replay(taken))


def test_a_decision_is_explained_in_sentences() -> None:
    runner = Runner(Broker.restore(snapshot(pod("a"))), 1.0)
    found = explained(runner, runner.place(runner.waiting()[0]))
    assert found.why[0] == "pod default/a has devices 0, 3 on node n1"


def test_decisions_differ_by_node_and_devices_alone() -> None:
    (found,) = replay(snapshot(pod("a")))
    moved = replace(found, devices=(replace(found.devices[0], indices=(1, 2)),))
    assert differs(found, moved)
    assert differs(found, None)
    assert differs(found, replace(found, node="n2"))
    assert not differs(found, replace(found, score={}))
    assert not differs(None, None)

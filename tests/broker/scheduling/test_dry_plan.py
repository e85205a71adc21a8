"""What a plan would be now: the same as the one that a filter brings about, with nothing reserved and nothing released."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import ClusterObject
from linkwise.explain.group.group import explain_group
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import in_gang, in_group
from linkwise.vendors.machines import profile
from support.state import state_of


def cluster(nodes: int) -> Broker:
    broker = Broker()
    for number in range(nodes):
        broker.observe(fleet_node(profile("dgx1-v100"), f"n{number}"), 0.0)
    return broker


def pods(name: str, count: int, devices: int = 8, priority: int = 0) -> list[PodView]:
    box = ContainerView("main", limits={"nvidia.com/gpu": str(devices)})
    names = [f"{name}-{number}" for number in range(count)]
    return [PodView("default", each, f"u-{each}", (box,), priority=priority, version=1) for each in names]


def bundle() -> list[PodView]:
    """Two gangs of two that start together, with one member each at least."""
    names = ("a", "b")
    return [pod for name in names for pod in in_gang(*pods(name, 2), least=1, name=name, bundle="a b")]


def nodes(broker: Broker, asked: list[PodView]) -> int:
    plan = broker.dry_plan(asked, 1.0)
    return len(plan.nodes) if plan else 0


def test_gangs_that_start_together_are_planned_with_all_members_or_with_as_many_as_must_start() -> None:
    assert [nodes(cluster(count), bundle()) for count in (1, 2, 3, 4)] == [0, 2, 2, 4]


def test_the_members_that_gangs_start_without_are_named() -> None:
    plan = cluster(2).dry_plan(bundle(), 1.0)
    assert plan is not None
    assert sorted(plan.missing) == ["u-a-1", "u-b-1"]


def test_a_filter_that_leads_to_no_bind_sees_the_same_plan() -> None:
    broker, members = cluster(2), bundle()
    broker.observe(members, 1.0)
    seen = [broker.filter(pod, ["n0", "n1"], 1.0, keep=False).nodes for pod in members]
    assert seen == [broker.filter(pod, ["n0", "n1"], 1.0).nodes for pod in members] == [["n0"], [], ["n1"], []]


def test_an_explanation_sees_the_same_plan() -> None:
    broker, members = cluster(2), bundle()
    broker.observe(members, 1.0)
    explanation = explain_group(broker, "default/a", 1.0)
    assert explanation is not None
    assert (explanation.stage, [member.state for member in explanation.members]) == (
        "schedulable",
        ["schedulable", "left out"],
    )


def test_plans_of_a_lower_priority_give_way_and_stay() -> None:
    broker = cluster(1)
    low = in_group(*pods("low", 1), name="low")
    broker.observe(low, 1.0)
    broker.filter(low[0], ["n0"], 1.0)
    assert nodes(broker, in_group(*pods("high", 1, priority=1), name="high")) == 1
    assert nodes(broker, in_group(*pods("equal", 1), name="equal")) == 0
    assert len(state_of(broker).groups.plans) == 1


def test_what_a_group_holds_itself_is_free_to_it() -> None:
    broker, members = cluster(1), in_gang(*pods("g", 2, 4), least=2)
    broker.observe(members, 1.0)
    broker.filter(members[0], ["n0"], 1.0)
    assert nodes(broker, members) == 1


def test_members_that_are_bound_count_for_those_that_must_start() -> None:
    broker, (first, second) = cluster(2), in_gang(*pods("g", 2), least=2)
    broker.observe([replace(first, node="n0", phase="Running")], 1.0)
    assert nodes(broker, [second]) == 1


def test_too_few_pods_make_no_plan_of_a_gang() -> None:
    assert nodes(cluster(2), in_gang(*pods("g", 1), least=2)) == 0


def test_the_minimum_of_a_pod_group_counts() -> None:
    broker = cluster(1)
    broker.observe(
        [ClusterObject("PodGroup.scheduling.x-k8s.io", "default/g", {"spec": {"minMember": 2}})],
        1.0,
    )
    asked = [replace(pod, labels={"scheduling.x-k8s.io/pod-group": "g"}) for pod in pods("g", 2)]
    assert nodes(broker, asked) == 0

"""Planned nodes that the scheduler leaves out of its call: volumes are known to it alone, topology spread in part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.engine.feasibility import HOST
from linkwise.explain.group.group import explain_group
from linkwise.model.views import PodTerm, SpreadConstraint
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, place, woken_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NODES = ["n0", "n1", "n2", "n3"]


def gang(count: int, devices: int) -> tuple[Broker, list[PodView]]:
    broker = broker_of(*(FakeNode(name, count=4) for name in NODES))
    pods = in_gang(*(device_pod(f"p{number}", devices) for number in range(count)), least=count)
    broker.observe(pods, 0.0)
    return broker, pods


def tried(broker: Broker, pod: PodView, names: Sequence[str], now: float = 0.0) -> list[str]:
    nodes = broker.filter(pod, names, now).nodes
    if nodes:
        place(broker, pod, nodes[0], now)
    return nodes


def test_members_with_volumes_on_certain_nodes_are_placed_there_at_once() -> None:
    broker, pods = gang(2, 4)
    assert [tried(broker, pod, [name]) for pod, name in zip(pods, ("n3", "n2"), strict=True)] == [["n3"], ["n2"]]


def test_members_that_spread_over_nodes_are_placed_one_after_the_other() -> None:
    broker, pods = gang(4, 1)
    left, homes = list(NODES), []
    for pod in pods:
        (home,) = tried(broker, pod, left)
        homes.append(home)
        left.remove(home)
    assert sorted(homes) == NODES


def spread_over_nodes(count: int, **fields: Any) -> tuple[Broker, list[PodView]]:  # noqa: ANN401 - of the constraint
    """A gang of pods of one device with topology spread by hostname, on nodes of four devices."""
    broker = broker_of(*(FakeNode(name, count=4) for name in NODES))
    for name in NODES:
        broker.observe([replace(broker.nodes[name], labels={HOST: name})], 0.0)
    constraint = SpreadConstraint(HOST, 1, PodTerm(HOST, {"app": "web"}, namespaces=("default",)), **fields)
    pods = (replace(device_pod(f"p{n}"), labels={"app": "web"}, spread=(constraint,)) for n in range(count))
    members = in_gang(*pods, least=count)
    broker.observe(members, 0.0)
    return broker, members


def homes(broker: Broker) -> list[str]:
    return sorted(entry.node for entry in broker.entries())


@pytest.mark.parametrize(("count", "expected"), [(4, NODES), (8, sorted(NODES * 2))])
def test_members_with_topology_spread_by_hostname_are_planned_on_different_nodes(
    count: int, expected: list[str]
) -> None:
    broker, members = spread_over_nodes(count)
    broker.filter(members[0], NODES, 0.0)
    assert homes(broker) == expected


def test_members_with_topology_spread_are_planned_beside_those_that_run_or_are_being_bound() -> None:
    broker, members = spread_over_nodes(3)
    running = replace(device_pod("running"), labels={"app": "web"}, node="n0")
    broker.observe([running], 0.0)
    tried(broker, members[0], NODES)
    broker.filter(members[1], NODES[1:], 0.0)
    assert homes(broker) == NODES


def test_a_gang_that_topology_spread_can_not_accept_holds_nothing() -> None:
    broker, members = spread_over_nodes(6)
    place(broker, device_pod("other", 4), "n3")
    assert broker.filter(members[0], NODES, 0.0).nodes == []
    assert broker.plans() == {}


def test_other_members_are_woken_if_the_new_plan_places_them_elsewhere() -> None:
    broker, pods = gang(2, 4)
    (home,) = broker.filter(pods[0], NODES, 0.0).nodes
    answer = broker.filter(pods[1], [home], 0.0)
    assert answer.nodes == [home]
    assert woken_set(answer.effects) == {"p0"}


def test_a_gang_of_which_a_member_can_go_nowhere_holds_nothing_until_capacity_is_gained() -> None:
    broker, pods = gang(2, 4)
    place(broker, device_pod("other", 4), "n3")
    assert tried(broker, pods[0], ["n3"]) == []
    assert broker.plans() == {}
    assert tried(broker, pods[1], NODES) == []
    report = explain_group(broker, "default/g", 0.0)
    assert report is not None
    assert report.stage == "unschedulable"
    assert tried(broker, pods[0], ["n2"]) == ["n2"]
    assert tried(broker, pods[1], NODES) == ["n0"]


def test_a_gang_whose_nodes_are_refused_again_and_again_backs_off() -> None:
    broker, pods = gang(2, 4)
    answer, attempts = broker.filter(pods[0], NODES, 0.0), 1
    while answer.nodes and attempts < 30:
        others = [name for name in NODES if name not in answer.nodes]
        answer, attempts = broker.filter(pods[0], others, 0.0), attempts + 1
    assert 8 < attempts < 30
    assert set(answer.unresolvable.values()) == {"node(s): the group was planned too often"}
    due = broker.next_deadline()
    assert due is not None
    assert woken_set(broker.step(due)) == {"p0"}
    assert len(broker.filter(pods[0], NODES, due).nodes) == 1

"""Members that are bound already count in the plan of the others: their domains, nodes and devices."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.groups.koordinator_gang import NETWORK
from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.views import PodView

RACK = "net.example.com/rack"
SETTINGS = PlacingSettings(group=GroupSettings(network=(RACK,)))
MUST = json.dumps({"gatherStrategy": [{"layer": RACK, "strategy": "MustGather"}]})


def cluster(**devices: int) -> Broker:
    """Nodes with so many devices; the first letter of a node's name is its rack."""
    nodes = [FakeNode(name, count=count) for name, count in devices.items()]
    broker = broker_of(*nodes, settings=SETTINGS)
    broker.observe([replace(node.view(), labels={RACK: node.name[0]}) for node in nodes], 0.0)
    return broker


def gang(count: int, *, least: int = 1, required: bool = True) -> list[PodView]:
    pods = in_gang(*(device_pod(f"m{number}", 2) for number in range(count)), least=least)
    wish = {NETWORK: MUST} if required else {}
    return [replace(pod, annotations={**pod.annotations, **wish}) for pod in pods]


def bound(pod: PodView, name: str) -> PodView:
    """The pod as it runs on a node's first two devices."""
    grant = Grant(pod.uid, "bandwidth", Offer(name, (Part("main", FakeNode(name).devices(0, 1)),)), mode="whole")
    keys = {**pod.annotations, GRANT: grant_text(grant)}
    return replace(pod, node=name, phase="Running", annotations=keys)


def planned(broker: Broker, *pods: PodView) -> Plan:
    plan = broker.dry_plan(pods, 1.0)
    assert plan is not None
    return plan


def level(plan: Plan, name: str) -> tuple[float, ...]:
    return next(level.value for level in plan.levels if level.name == name)


@pytest.mark.rule("001.replan")
def test_a_required_domain_is_the_one_where_members_are_bound() -> None:
    """Rack b leaves no device over and would be better, but the first member runs in rack a."""
    broker = cluster(a1=2, a2=4, b1=2)
    first, second = gang(2)
    broker.observe([bound(first, "a1"), second], 0.0)
    assert planned(broker, second).nodes == ("a2",)
    assert broker.filter(second, ["a1", "a2", "b1"], 1.0).nodes == ["a2"]


def test_a_member_waits_if_the_required_domain_of_the_bound_ones_is_full() -> None:
    broker = cluster(a1=2, b1=2)
    first, second = gang(2)
    broker.observe([bound(first, "a1"), second], 0.0)
    assert broker.dry_plan([second], 1.0) is None
    assert not broker.filter(second, ["a1", "b1"], 1.0).nodes


def test_a_plan_that_breaks_is_made_again_in_the_required_domain() -> None:
    broker = cluster(a1=2, a2=2, a3=4, b1=2)
    names = ["a1", "a2", "a3", "b1"]
    first, second = gang(2, least=2)
    broker.observe([first, second], 0.0)
    (home,) = broker.filter(first, names, 1.0).nodes
    place(broker, first, home, 1.0)
    (other,) = broker.filter(second, names, 1.0).nodes
    (taken,) = (node for node in (FakeNode("a1"), FakeNode("a2"), FakeNode("a3")) if node.name == other)
    broker.observe([replace(taken.view(), labels={RACK: "a"}, unschedulable=True, version=9)], 2.0)
    (again,) = broker.filter(second, [name for name in names if name != other], 3.0).nodes
    assert again[0] == home[0] == "a"


def test_bound_members_in_several_required_domains_are_joined_where_most_of_them_are() -> None:
    broker = cluster(a1=2, a2=4, b1=2, b2=2, b3=8)
    pods = gang(4)
    running = [bound(pod, name) for pod, name in zip(pods, ("a1", "b1", "b2"), strict=False)]
    broker.observe([*running, pods[3]], 0.0)
    plan = planned(broker, pods[3])
    assert plan.nodes == ("b3",)
    assert level(plan, "network") == (2.0,)


@pytest.mark.parametrize(("rooms", "chosen", "racks"), [({"a2": 4, "b1": 2}, "a2", 1.0), ({"b1": 2}, "b1", 2.0)])
def test_domains_and_nodes_of_bound_members_count(rooms: dict[str, int], chosen: str, racks: float) -> None:
    broker = cluster(a1=2, **rooms)
    first, second = gang(2, required=False)
    broker.observe([bound(first, "a1"), second], 0.0)
    plan = planned(broker, second)
    assert plan.nodes == (chosen,)
    assert (level(plan, "nodes"), level(plan, "network")) == ((2.0,), (racks,))

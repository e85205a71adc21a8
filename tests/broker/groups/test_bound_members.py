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
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, place
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile

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


def bound(pod: PodView, name: str, devices: tuple[str, ...] = ()) -> PodView:
    """The pod as it runs on these devices of a node, by default the first two."""
    part = Part("main", devices or FakeNode(name).devices(0, 1))
    grant = Grant(pod.uid, "bandwidth", Offer(name, (part,)), mode="whole")
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


@pytest.mark.parametrize(("pair", "chosen"), [((0, 3), "whole-machine"), ((0, 5), "slow-pair")])
def test_fast_links_are_left_to_others_where_bound_members_are_slow_anyway(pair: tuple[int, ...], chosen: str) -> None:
    """The bound member has two devices: 0 and 3 have a double NVLink, 0 and 5 have none."""
    machine, broker = profile("dgx1-v100-measured"), broker_of()
    for name, healthy in (("full", set(pair)), ("slow-pair", {0, 5}), ("whole-machine", set(range(8)))):
        broker.observe(fleet_node(machine, name, unhealthy=set(range(8)) - healthy), 0.0)
    first, *others = in_gang(device_pod("m0", 2), device_pod("m1", 1), device_pod("m2", 1), least=1)
    devices = machine_devices(machine, "full")
    broker.observe([bound(first, "full", tuple(devices[index].id for index in pair)), *others], 0.0)
    assert planned(broker, *others).nodes == (chosen,)

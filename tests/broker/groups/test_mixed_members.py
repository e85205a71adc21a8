"""Groups of which some members ask for whole devices and others for parts of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import in_gang
from linkwise.vendors.machines import profile
from support.state import state_of


def cluster(*names: str) -> Broker:
    broker = Broker()
    for name in names:
        broker.observe(fleet_node(profile("dgx1-v100"), name, mode="percent"), 0.0)
    return broker


def pod(name: str, percent: int) -> PodView:
    box = ContainerView("main", limits={"koordinator.sh/gpu": str(percent)})
    return PodView("default", name, f"u-{name}", (box,), version=1)


def placed(broker: Broker, one: PodView, names: list[str]) -> tuple[str, tuple[str, ...]]:
    """Where a pod goes, and which devices it gets."""
    (node, *_) = broker.filter(one, names, 1.0).nodes
    answer = broker.bind(one.uid, node, 1.0)
    (bind,) = [effect for effect in answer.effects if isinstance(effect, Bind)]
    broker.outcome(bind, "written", 1.0)
    broker.observe([replace(one, node=node, annotations={**one.annotations, **bind.annotations}, version=2)], 1.0)
    assert bind.grant is not None
    return node, bind.grant.offer.devices


@pytest.mark.parametrize(("percents", "count"), [((100, 50), 2), ((50, 100), 2), ((300, 50, 50, 200), 6)])
def test_whole_devices_and_parts_of_others_are_planned_on_one_node(percents: tuple[int, ...], count: int) -> None:
    broker = cluster("n0", "n1")
    pods = in_gang(*(pod(f"p{place}", percent) for place, percent in enumerate(percents)), least=len(percents))
    broker.observe(pods, 1.0)
    found = [placed(broker, each, ["n0", "n1"]) for each in pods]
    devices = [device for _, own in found for device in own]
    assert {node for node, _ in found} == {"n0"}
    assert len(set(devices)) == count


def test_where_no_device_is_wholly_free_a_node_takes_the_parts() -> None:
    broker = cluster("n0", "n1")
    for number in range(8):
        placed(broker, pod(f"half{number}", 60), ["n0"])
    pods = in_gang(pod("whole", 800), pod("part", 30), least=2)
    broker.observe(pods, 1.0)
    assert [placed(broker, each, ["n0", "n1"])[0] for each in pods] == ["n1", "n0"]


def test_a_part_beside_whole_devices_needs_a_device_of_its_own() -> None:
    broker = cluster("n0")
    pods = in_gang(pod("whole", 800), pod("part", 30), least=2)
    broker.observe(pods, 1.0)
    assert not broker.filter(pods[0], ["n0"], 1.0).nodes
    assert not state_of(broker).groups.plans


def test_a_part_beside_whole_devices_may_be_on_a_device_that_others_use() -> None:
    broker = cluster("n0")
    placed(broker, pod("half", 60), ["n0"])
    pods = in_gang(pod("whole", 700), pod("part", 30), least=2)
    broker.observe(pods, 1.0)
    devices = [set(placed(broker, each, ["n0"])[1]) for each in pods]
    assert devices[1].isdisjoint(devices[0])


def test_shares_avoid_nodes_with_unattributed_pods() -> None:
    broker = cluster("n0", "n1")
    stranger = replace(pod("stranger", 700), node="n0", phase="Running")
    broker.observe([stranger], 1.0)  # no record tells which seven devices it has
    pods = in_gang(pod("whole", 100), pod("part", 30), least=2)
    broker.observe(pods, 1.0)
    assert placed(broker, pods[1], ["n0", "n1"])[0] == "n1"

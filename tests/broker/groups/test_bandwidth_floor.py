"""Groups where an administrator set how fast devices must reach each other at least."""

from __future__ import annotations

import pytest

from linkwise.broker.broker import Broker
from linkwise.explain.group.group import explain_group
from linkwise.model.settings import BandwidthSettings, PlacingSettings
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import in_gang, in_group
from linkwise.vendors.machines import profile
from support.state import state_of

FAST = 40.0


def cluster(floor: float) -> Broker:
    broker = Broker(PlacingSettings(bandwidth=BandwidthSettings(floor)))
    broker.observe(fleet_node(profile("dgx1-v100-measured"), "a"), 0.0)
    return broker


def pod(number: int, devices: int) -> PodView:
    box = ContainerView("main", limits={"nvidia.com/gpu": str(devices)})
    return PodView("default", f"g-{number}", f"u{number}", (box,), version=1)


def speeds(broker: Broker, pods: list[PodView]) -> list[float]:
    broker.observe(pods, 1.0)
    broker.filter(pods[0], ["a"], 1.0)
    explanation = explain_group(broker, pods[0].uid, 1.0)
    assert explanation is not None
    return [member.bottleneck or 0.0 for member in explanation.members]


@pytest.mark.rule("001.best-effort")
def test_a_member_gets_no_devices_that_are_slower_than_the_floor() -> None:
    broker = cluster(FAST)
    assert speeds(broker, in_group(pod(0, 5))) == [0.0]
    assert not state_of(broker).groups.plans


def test_where_the_fastest_set_of_all_has_a_slow_part_another_one_is_taken() -> None:
    free, kept = (min(speeds(cluster(floor), in_gang(pod(0, 3), pod(1, 3), least=2))) for floor in (0.0, FAST))
    assert free < FAST < kept


def test_a_floor_says_nothing_of_members_with_one_device() -> None:
    broker = cluster(FAST)
    speeds(broker, in_group(*(pod(number, 1) for number in range(8))))
    assert len(state_of(broker).groups.plans) == 1


def test_where_nothing_is_known_of_links_no_pair_is_fast_enough() -> None:
    broker = Broker(PlacingSettings(bandwidth=BandwidthSettings(FAST)))
    has = {"nvidia.com/gpu": "4", "cpu": "32", "pods": "9"}
    broker.observe([NodeView("a", capacity=has, allocatable=has)], 0.0)
    speeds(broker, in_group(pod(0, 2)))
    assert not state_of(broker).groups.plans
    speeds(broker, in_group(pod(1, 1), pod(2, 1), name="singles"))
    assert len(state_of(broker).groups.plans) == 1

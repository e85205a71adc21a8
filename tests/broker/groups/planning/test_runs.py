"""Plans that are made in several steps, and what may happen meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, in_group, woken_set
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.model.views import PodView

ONE_STEP = PlacingSettings(group=GroupSettings(steps=1))
NODES = ["n0", "n1"]


def begun(*pods: PodView) -> Broker:
    """A broker that has begun to plan a group on two nodes."""
    broker = broker_of(FakeNode("n0"), FakeNode("n1"), settings=ONE_STEP)
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], NODES, 0.0).nodes == []
    assert state_of(broker).groups.runs()
    return broker


def finish(broker: Broker) -> set[str]:
    return woken_set(broker.step(1.0, 1000))


def test_a_plan_in_the_making_is_work_left() -> None:
    broker = begun(*in_group(device_pod("a"), device_pod("b")))
    assert broker.next_deadline() == 0.0
    assert finish(broker) == {"a"}
    assert broker.next_deadline() == 61.0


def test_a_member_that_another_scheduler_binds_meanwhile_is_not_planned() -> None:
    pods = in_group(device_pod("a"), device_pod("b"))
    broker = begun(*pods)
    broker.observe([replace(pods[1], node="n1", version=2)], 0.5)
    finish(broker)
    broker.step(1.0, 1000)
    assert state_of(broker).groups.plans["default/g/2"].plan.placements.keys() == {"uid-a"}


def test_a_gang_that_loses_a_member_meanwhile_holds_nothing() -> None:
    pods = in_gang(device_pod("a"), device_pod("b"), least=2)
    broker = begun(*pods)
    broker.observe([replace(pods[1], deleting=True, version=2)], 0.5)
    finish(broker)
    broker.step(1.0, 1000)
    assert not state_of(broker).groups.plans
    assert not list(broker.entries())


def test_a_node_that_is_cordoned_meanwhile_gets_no_pod() -> None:
    pods = in_group(device_pod("a", 2), device_pod("b", 2))
    broker = begun(*pods)
    broker.observe([FakeNode("n1", cordoned=True, version=2).view()], 0.5)
    finish(broker)
    broker.step(1.0, 1000)
    assert state_of(broker).groups.plans["default/g/2"].plan.nodes == ("n0",)


def test_a_node_that_changes_its_sharing_mode_meanwhile_gets_no_pod() -> None:
    pods = in_group(device_pod("a"), device_pod("b"))
    broker = begun(*pods)
    broker.step(0.0, 8)
    assert state_of(broker).groups.runs()  # which has looked at the nodes
    broker.observe(FakeNode("n0", mode="share").events(), 0.5)
    finish(broker)
    finish(broker)
    assert state_of(broker).groups.plans["default/g/2"].plan.nodes == ("n1",)


@pytest.mark.parametrize("later", [0.0, 5.0])
def test_members_whose_plan_was_in_the_making_are_woken_after_a_restore(later: float) -> None:
    pods = in_group(device_pod("a"), device_pod("b"))
    restored = Broker.restore(begun(*pods).snapshot(1.0))
    assert woken_set(restored.step(1.0 + later, 1000)) == {"a"}
    assert woken_set(restored.step(1.0 + later, 1000)) == set()


def test_room_that_appears_meanwhile_is_not_missed() -> None:
    pods = in_group(device_pod("a", 2), device_pod("b", 2))
    others = [FakeNode(f"x{number}", "amd") for number in range(100)]
    broker = broker_of(FakeNode("n0", unhealthy=frozenset({0}), version=1), *others, settings=ONE_STEP)
    broker.observe(pods, 0.0)
    broker.filter(pods[0], NODES, 0.0)
    for _ in range(3):  # so far that the first hundred nodes were looked at
        broker.step(0.0)
    broker.observe(FakeNode("n0", version=2).events(), 0.5)
    for _ in range(2):
        broker.step(1.0, 1000)
    assert state_of(broker).groups.plans["default/g/2"].plan.placements.keys() == {"uid-a"}

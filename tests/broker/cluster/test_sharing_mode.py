"""The sharing mode of a node: whole devices or memory, never both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.watch_events import NodeObject, PodDeleted
from linkwise.model.views import NodeView
from linkwise.testing.cluster import (
    KOORDINATOR,
    MEMORY,
    NVIDIA,
    FakeNode,
    broker_of,
    device_pod,
    place,
)
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.engine.usage import DriftKind
    from linkwise.testing.cluster import Family

NOW = 100.0
WHOLE, SHARE = device_pod("whole"), device_pod("share", 4, MEMORY)
BOTH = {NVIDIA: "2", MEMORY: "32", "aliyun.com/gpu-count": "2"}


def drift(broker: Broker, node: str = "n") -> list[DriftKind]:
    return [found.kind for found in state_of(broker).cluster.drift.get(node, ())]


def serving_both(box: FakeNode) -> NodeView:
    """A node whose plugins tell kubelet of whole devices and of memory."""
    return replace(box.view(), capacity=BOTH, allocatable=BOTH)


@pytest.mark.rule("004.mode")
@pytest.mark.parametrize(("old", "new"), [("linked", "share"), ("share", "linked")])
def test_a_node_switched_while_devices_are_held_hands_out_nothing_until_they_are_given_back(
    old: Family, new: Family
) -> None:
    first, then = (WHOLE, SHARE) if old == "linked" else (SHARE, WHOLE)
    broker = broker_of(FakeNode("n", old))
    held = place(broker, first, "n")
    switched = FakeNode("n", new)
    effects = broker.observe([serving_both(switched), switched.inventory_object()], NOW)
    assert drift(broker) == ["mode"]
    assert ["in another sharing mode" in effect.sentence for effect in effects if isinstance(effect, Event)] == [True]
    assert broker.filter(then, ["n"], NOW).failed == {"n": "node(s) use a different sharing mode"}
    assert broker.filter(replace(first, uid="other", name="other"), ["n"], NOW).nodes == []
    broker.observe([PodDeleted(held.uid)], NOW)
    assert drift(broker) == []
    assert broker.filter(then, ["n"], NOW).nodes == ["n"]


def test_a_node_that_never_said_how_it_hands_out_devices_keeps_to_its_first_grant() -> None:
    broker = Broker()
    amounts = {NVIDIA: "2", KOORDINATOR: "200"}
    device = {"type": "gpu", "health": True, "resources": {"koordinator.sh/gpu-memory-ratio": 100}}
    cards = {"spec": {"devices": [{**device, "minor": minor, "id": f"GPU-{minor}"} for minor in range(2)]}}
    broker.observe([NodeView("n", capacity=amounts, allocatable=amounts), NodeObject("n", "Device", cards)], NOW)
    held = place(broker, WHOLE, "n")
    percent = device_pod("percent", 50, KOORDINATOR)
    assert broker.filter(percent, ["n"], NOW).failed == {"n": "node(s) use a different sharing mode"}
    broker.observe([PodDeleted(held.uid)], NOW)
    assert broker.filter(percent, ["n"], NOW).nodes == ["n"]

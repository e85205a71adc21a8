"""What a second look at the broker found, kept so that it stays found."""

from __future__ import annotations

from typing import Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Wake
from linkwise.broker.sample_nodes import fleet_node
from linkwise.broker.watch_events import NodeGone, NodeObject, PodDeleted, PodListComplete
from linkwise.explain.inspect import inspect_nodes
from linkwise.model.settings import PlacingSettings
from linkwise.model.views import ContainerView, PodView
from linkwise.vendors.machines import profile
from support.state import state_of

NOW = 100.0


def pod(name: str, devices: int = 1, **fields: Any) -> PodView:  # noqa: ANN401 - any field of a view
    containers = (ContainerView("main", limits={"nvidia.com/gpu": str(devices)}),)
    return PodView("default", name, f"uid-{name}", containers, version=1, **fields)


def broker_of(*names: str, settings: PlacingSettings | None = None) -> Broker:
    broker = Broker(settings)
    for name in names:
        broker.observe(fleet_node(profile("dgx1-v100"), name), NOW)
    return broker


def promised(broker: Broker, wanted: PodView, node: str) -> Bind:
    broker.filter(wanted, [node], NOW)
    return next(effect for effect in broker.bind(wanted.uid, node, NOW).effects if isinstance(effect, Bind))


def test_a_pod_whose_bind_is_not_settled_gets_nobody_evicted() -> None:
    broker = broker_of("a", "b")
    victim = promised(broker, pod("victim", 8), "b")
    broker.outcome(promised(broker, pod("x", 8), "a"), "unknown", NOW)
    assert broker.filter(pod("x", 8), ["b"], NOW).failed == {}
    assert broker.preempt(pod("x", 8), {"b": [victim.uid]}, NOW) == {}


def test_what_is_left_to_hand_out_is_due_at_once() -> None:
    broker = broker_of("a")
    broker.filter(pod("first", 8), ["a"], NOW)
    broker.observe([pod("first", 8), pod("waits", 8)], NOW)
    broker.filter(pod("waits", 8), ["a"], NOW)
    inspect_nodes(broker, None, NOW + 3)
    assert broker.next_deadline() == 0.0
    assert [effect.uid for effect in broker.step(NOW + 3) if isinstance(effect, Wake)] == ["uid-waits"]
    assert broker.next_deadline() is None


def test_a_whole_list_tells_who_is_gone_though_nobody_saw_it_go() -> None:
    broker = broker_of("a")
    broker.outcome(promised(broker, pod("never-shown", 8), "a"), "written", NOW)
    broker.filter(pod("asked"), ["a"], NOW)
    broker.observe([PodListComplete(frozenset())], NOW)
    assert state_of(broker).asked == {}
    assert broker.filter(pod("next", 8), ["a"], NOW).nodes == ["a"]


def test_nothing_is_kept_of_nodes_that_are_gone() -> None:
    broker = broker_of("a")
    bound = promised(broker, pod("x"), "a")
    broker.observe([PodDeleted(bound.uid), NodeGone("a"), NodeObject("a", "DeviceInventory", None)], NOW)
    assert (state_of(broker).writer.times(), state_of(broker).cluster.objects) == ({}, {})


@pytest.mark.parametrize("change", [{"deleting": True}, {"phase": "Failed"}])
def test_who_can_never_be_bound_is_not_woken(change: dict[str, object]) -> None:
    broker = broker_of("a")
    holder = promised(broker, pod("holder", 8), "a")
    broker.filter(pod("waits", 8), ["a"], NOW)
    broker.observe([pod("waits", 8, **change)], NOW)
    assert [effect for effect in broker.observe([PodDeleted(holder.uid)], NOW) if isinstance(effect, Wake)] == []


@pytest.mark.parametrize("policy", ["whole-device", "link-affinity", "bandwidth"])
def test_the_agent_is_told_what_the_scheduler_would_pick_whatever_the_policy(policy: str) -> None:
    broker = broker_of("a", settings=PlacingSettings(policies={"nvidia.com/gpu": policy}))
    devices = [device.id for device in broker.usage["a"].devices]
    offer = broker.dry_run(pod("x", 3), NOW).offer
    assert offer is not None
    assert broker.preferred("a", devices, (), 3, NOW) == offer.devices

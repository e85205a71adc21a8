"""Gangs that are stuck halfway, and when groups are tried again though nothing happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Event, Wake
from linkwise.broker.watch_events import PodDeleted
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

GANG = "gang.scheduling.koordinator.sh/"
SEED = "gputopology.scheduling.koordinator.sh/"


def member(number: int, mode: str = "Strict") -> PodView:
    words = {f"{GANG}name": "g", f"{GANG}min-available": "2", f"{GANG}mode": mode}
    asks = (ContainerView("main", limits={"nvidia.com/gpu": "8"}),)
    return PodView("team", f"g{number}", f"u{number}", asks, annotations=words, created=float(number), version=1)


def cluster() -> Broker:
    broker = Broker()
    for number in range(2):
        broker.observe(fleet_node(profile("dgx1-v100"), f"n{number}"), 0.0)
    return broker


def half_bound(mode: str = "Strict") -> Broker:
    """One of two that must start together is bound, the other has its place in a plan."""
    broker = cluster()
    broker.observe([member(0, mode), member(1, mode)], 1.0)
    (node,) = broker.filter(member(0, mode), ["n0", "n1"], 1.0).nodes
    (bind,) = (effect for effect in broker.bind("u0", node, 1.0).effects if isinstance(effect, Bind))
    broker.outcome(bind, "written", 1.0)
    words = {**member(0, mode).annotations, **bind.annotations}
    broker.observe([replace(member(0, mode), node=node, annotations=words, version=2)], 1.0)
    return broker


def notified(effects: tuple[object, ...]) -> list[str]:
    return [effect.uid for effect in effects if isinstance(effect, Event) and effect.reason == "GangHalfBound"]


@pytest.mark.rule("001.gang")
def test_devices_reserved_for_unbound_members_are_free_when_the_plan_expires() -> None:
    broker = half_bound()
    broker.step(600.9)
    assert len(list(broker.entries())) == 2
    broker.step(601.0)
    assert [entry.pod for entry in broker.entries()] == ["u0"]


def test_a_member_that_runs_without_its_gang_is_notified_once() -> None:
    broker = half_bound()
    assert notified(broker.step(601.0)) == ["u0"]
    now = 700.0
    broker.filter(member(1), ["n0", "n1"], now)
    assert notified(broker.step(now + 601.0)) == []


def test_a_gang_that_is_not_strict_gets_no_notice() -> None:
    assert notified(half_bound("NonStrict").step(601.0)) == []


def test_a_gang_whose_other_member_leaves_before_it_is_bound_is_notified() -> None:
    assert notified(half_bound().observe([PodDeleted("u1")], 2.0)) == ["u0"]


def test_a_gang_that_started_gets_no_notice_when_a_member_leaves() -> None:
    broker = half_bound()
    broker.observe([replace(member(1), node="n1", version=2)], 2.0)
    broker.observe([PodDeleted("u1"), member(3)], 3.0)
    broker.filter(member(3), ["n0", "n1"], 3.0)
    assert notified(broker.step(1000.0)) == []


def test_members_are_woken_when_the_window_for_missing_ones_is_over() -> None:
    broker = cluster()
    alone = replace(member(0), annotations={}, labels={f"{SEED}name": "g", f"{SEED}replica": "2"})
    broker.observe([alone], 1.0)
    assert broker.filter(alone, ["n0", "n1"], 5.0).nodes == []
    assert broker.next_deadline() == 5.0 + broker.settings.group.window
    assert not any(isinstance(effect, Wake) for effect in broker.step(14.9))
    assert [effect.uid for effect in broker.step(15.0, 1000) if isinstance(effect, Wake)] == ["u0"]
    assert broker.filter(alone, ["n0", "n1"], 15.0).nodes

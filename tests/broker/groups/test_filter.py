"""Answers to a member of a group before and after its group is planned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Wake
from linkwise.dialects.groups.koordinator_gang import MINIMUM, NAME as GANG
from linkwise.dialects.groups.membership import NAME, REPLICA
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.broker.effects import FilterAnswer
    from linkwise.model.node import Mode

NODES = ["a", "b"]


def member(
    number: int, devices: int = 4, *, total: int = 2, gang: int = 0, resource: str = "nvidia.com/gpu"
) -> PodView:
    box = ContainerView("main", limits={resource: str(devices)})
    words = {GANG: "g", MINIMUM: str(gang)} if gang else {}
    labels = {NAME: "g", REPLICA: str(total)}
    return PodView("default", f"g-{number}", f"u{number}", (box,), labels, words, created=float(number), version=1)


def cluster(settings: GroupSettings | None = None, modes: tuple[Mode, ...] = ("whole", "whole")) -> Broker:
    broker = Broker(PlacingSettings(group=settings or GroupSettings()))
    for name, mode in zip(NODES, modes, strict=True):
        broker.observe(fleet_node(profile("dgx1-v100-measured"), name, mode=mode), 0.0)
    return broker


def planned(broker: Broker) -> int:
    return sum(entry.state == "PLANNED" for entry in broker.entries())


def filtered(broker: Broker, pod: PodView, now: float = 1.0, *, keep: bool = True) -> FilterAnswer:
    return broker.filter(pod, NODES, now, keep=keep)


@pytest.mark.rule("001.members")
def test_a_call_that_leads_to_no_bind_is_answered_and_holds_nothing() -> None:
    broker = cluster()
    broker.observe([member(0), member(1)], 0.0)
    assert filtered(broker, member(0), keep=False).nodes == ["a"]
    assert planned(broker) == 0
    assert filtered(broker, member(0)).nodes == ["a"]
    assert planned(broker) == 2


def test_a_call_that_leads_to_no_bind_starts_no_window() -> None:
    broker = cluster()
    broker.observe([member(0)], 0.0)
    assert not filtered(broker, member(0), 1.0, keep=False).nodes
    assert not filtered(broker, member(0), 20.0).nodes
    assert filtered(broker, member(0), 30.0).nodes == ["a"]


def test_a_scheduler_may_be_faster_than_the_watch() -> None:
    broker = cluster()
    for number in range(2):
        assert set(filtered(broker, member(number)).unresolvable.values()) == {"node(s): the group is incomplete"}
    effects = broker.observe([member(0), member(1)], 1.0)
    assert [effect.name for effect in effects if isinstance(effect, Wake)] == ["g-0", "g-1"]
    answer = filtered(broker, member(1))
    assert answer.nodes == ["a"]
    assert [effect.name for effect in answer.effects if isinstance(effect, Wake)] == ["g-0"]
    assert not broker.bind("u1", "a", 1.0).error


@pytest.mark.rule("001.gang")
def test_evicting_is_worth_a_thought_only_where_room_is_short() -> None:
    broker = cluster()
    broker.observe([member(0, total=5, gang=5)], 0.0)
    assert set(filtered(broker, member(0)).unresolvable.values()) == {"node(s): the gang is incomplete"}
    broker.observe([member(number, total=5, gang=5) for number in range(5)], 0.0)
    assert set(filtered(broker, member(0)).unresolvable.values()) == {"node(s): the gang can never fit"}
    broker.observe(fleet_node(profile("dgx1-v100-measured"), "c"), 0.0)
    broker.observe([replace(member(9, 8), labels={}, node="c", phase="Running")], 1.0)
    assert set(filtered(broker, member(0), 2.0).failed.values()) == {"node(s): the gang doesn't fit"}


def test_a_long_plan_is_made_in_steps_and_its_members_are_woken() -> None:
    broker = cluster(GroupSettings(steps=1))
    broker.observe([member(0), member(1)], 0.0)
    for number in range(2):
        answer = filtered(broker, member(number))
        assert set(answer.unresolvable.values()) == {"node(s): the group is being planned"}
    assert planned(broker) == 0
    woken = [effect.name for effect in broker.step(2.0, 1000) if isinstance(effect, Wake)]
    assert woken == ["g-0", "g-1"]
    assert filtered(broker, member(0), 2.0).nodes == ["a"]


def test_what_did_not_fit_is_not_planned_again_at_once() -> None:
    broker = cluster(GroupSettings(steps=1))
    broker.observe([member(number, 8, total=3, gang=3) for number in range(3)], 0.0)
    filtered(broker, member(0, 8))
    broker.step(2.0, 1000)
    assert not filtered(broker, member(1, 8), 3.0).nodes
    assert not state_of(broker).groups.runs()
    filtered(broker, member(1, 8), 20.0)
    assert state_of(broker).groups.runs()


def test_the_end_of_a_window_is_something_to_wait_for() -> None:
    broker = cluster()
    broker.observe([member(0)], 0.0)
    filtered(broker, member(0), 5.0)
    assert broker.next_deadline() == 15.0
    assert [effect.name for effect in broker.step(15.0, 1000) if isinstance(effect, Wake)] == ["g-0"]


@pytest.mark.rule("001.replan")
def test_a_bind_that_has_not_ended_is_fixed_in_the_next_plan() -> None:
    broker = cluster()
    pods = [member(0), member(1)]
    broker.observe(pods, 0.0)
    filtered(broker, pods[0])
    (bound,) = [effect for effect in broker.bind("u0", "a", 1.0).effects if isinstance(effect, Bind)]
    broker.outcome(bound, "unknown", 1.0)
    broker.observe(fleet_node(profile("dgx1-v100-measured"), "a", mode="whole", unhealthy=[7]), 2.0)
    assert planned(broker) == 0
    assert filtered(broker, pods[1], 3.0).nodes == ["b"]
    entry = broker.entry("u0")
    assert entry is not None
    assert (entry.state, entry.node) == ("ASSUMED", "a")


def test_members_that_ask_in_different_ways_go_to_nodes_of_both_kinds() -> None:
    broker = cluster(modes=("whole", "share"))
    part = member(1, 8, resource="aliyun.com/gpu-mem")
    broker.observe([member(0), part], 0.0)
    assert filtered(broker, member(0)).nodes == ["a"]
    assert filtered(broker, part).nodes == ["b"]
    assert not broker.bind("u1", "b", 1.0).error

"""Plans that give way to a higher priority, as long as no member of them is bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Event, Wake
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.broker.effects import FilterAnswer

SEED = "gputopology.scheduling.koordinator.sh/"


def pod(name: str, devices: int = 8, priority: int = 0, **labels: str) -> PodView:
    asks = (ContainerView("main", limits={"nvidia.com/gpu": str(devices)}),)
    return PodView("team", name, f"u-{name}", asks, labels, priority=priority, version=1)


def group(name: str, members: int = 2, devices: int = 8, priority: int = 0) -> list[PodView]:
    labels = {f"{SEED}name": name, f"{SEED}replica": str(members)}
    return [pod(f"{name}{number}", devices, priority, **labels) for number in range(members)]


def holding(name: str = "low", nodes: int = 2, priority: int = 0) -> Broker:
    """A cluster that a plan fills."""
    broker = Broker()
    for number in range(nodes):
        broker.observe(fleet_node(profile("dgx1-v100"), f"n{number}"), 0.0)
    members = group(name, nodes, priority=priority)
    broker.observe(members, 1.0)
    tried(broker, members[0])
    assert list(state_of(broker).groups.plans) == [f"team/{name}/{nodes}"]
    return broker


def tried(broker: Broker, asking: PodView, now: float = 1.0) -> list[str]:
    return answered(broker, asking, now).nodes


def answered(broker: Broker, asking: PodView, now: float) -> FilterAnswer:
    broker.observe([asking], now)
    return broker.filter(asking, list(broker.nodes), now)


def test_a_pod_of_a_higher_priority_breaks_a_plan_that_takes_all_room() -> None:
    broker = holding()
    answer = answered(broker, pod("high", priority=1), 2.0)
    assert answer.nodes == ["n0"]
    assert state_of(broker).groups.plans == {}


def test_preempted_and_preempting_pods_both_get_an_event() -> None:
    answer = answered(holding(), pod("high", priority=1), 2.0)
    reported = {(effect.reason, effect.uid) for effect in answer.effects if isinstance(effect, Event)}
    assert reported == {("PlanBroken", "u-low0"), ("PlanBroken", "u-low1"), ("PlanOverruled", "u-high")}


@pytest.mark.parametrize("priority", [0, -1])
def test_an_equal_or_lower_priority_breaks_nothing(priority: int) -> None:
    broker = holding()
    assert tried(broker, pod("other", priority=priority), 2.0) == []
    assert state_of(broker).groups.plans


def test_a_look_breaks_nothing() -> None:
    broker = holding()
    broker.filter(pod("high", priority=1), ["n0", "n1"], 2.0, keep=False)
    assert state_of(broker).groups.plans


def test_where_there_is_room_no_plan_is_broken() -> None:
    broker = holding()
    broker.observe(fleet_node(profile("dgx1-v100"), "n9"), 1.0)
    assert tried(broker, pod("high", priority=1), 2.0) == ["n9"]
    assert state_of(broker).groups.plans


def test_a_plan_with_a_bound_member_stays() -> None:
    broker = holding()
    (bind,) = (effect for effect in broker.bind("u-low0", "n0", 2.0).effects if isinstance(effect, Bind))
    broker.outcome(bind, "written", 2.0)
    assert tried(broker, pod("high", priority=1), 2.5) == []
    assert state_of(broker).groups.plans


def test_a_pod_that_would_not_fit_all_the_same_breaks_nothing() -> None:
    broker = holding()
    assert tried(broker, pod("high", devices=9, priority=1), 2.0) == []
    assert state_of(broker).groups.plans


def test_of_two_plans_the_one_of_the_lower_priority_gives_way() -> None:
    broker = holding("lower", nodes=1)
    broker.observe(fleet_node(profile("dgx1-v100"), "n9"), 1.0)
    low = group("low", 1, priority=1)
    broker.observe(low, 1.0)
    assert tried(broker, low[0]) == ["n9"]
    assert tried(broker, pod("high", priority=2), 2.0) == ["n0"]
    assert list(state_of(broker).groups.plans) == ["team/low/1"]


def test_a_group_of_a_higher_priority_breaks_a_plan_and_holds_its_own() -> None:
    broker = holding()
    high = group("high", priority=1)
    broker.observe(high, 2.0)
    answer = broker.filter(high[0], ["n0", "n1"], 2.0)
    assert len(answer.nodes) == 1
    assert list(state_of(broker).groups.plans) == ["team/high/2"]
    reported = {(effect.reason, effect.uid) for effect in answer.effects if isinstance(effect, Event)}
    assert {("PlanBroken", "u-low0"), ("PlanOverruled", "u-high1")} <= reported


def test_a_group_breaks_only_plans_that_it_takes_devices_of() -> None:
    broker = holding(nodes=1)
    broker.observe([*fleet_node(profile("dgx1-v100"), "n9"), *group("half", 1, devices=4)], 1.0)
    tried(broker, group("half", 1, devices=4)[0])
    high = group("high", 1, priority=1)
    broker.observe(high, 2.0)
    assert len(tried(broker, high[0], 2.0)) == 1
    assert len(state_of(broker).groups.plans) == 2


def test_an_equal_group_waits() -> None:
    broker = holding()
    other = group("other")
    broker.observe(other, 2.0)
    assert tried(broker, other[0], 2.0) == []
    assert list(state_of(broker).groups.plans) == ["team/low/2"]


def test_who_lost_its_plan_is_woken_when_the_winner_has_its_devices() -> None:
    broker = holding()
    tried(broker, group("low")[1])
    answer = answered(broker, pod("high", priority=1), 2.0)
    assert not any(isinstance(effect, Wake) for effect in answer.effects)
    due = broker.next_deadline()
    assert due == 2.0 + broker.settings.pending
    woken = {effect.uid for effect in broker.step(due) if isinstance(effect, Wake)}
    assert woken == {"u-low0", "u-low1"}


def test_a_bundle_gives_way_as_a_whole_or_not_at_all() -> None:
    broker = Broker()
    for number in range(2):
        broker.observe(fleet_node(profile("dgx1-v100"), f"n{number}"), 0.0)
    gang = "gang.scheduling.koordinator.sh/"
    pods = []
    for name, priority in (("a", 0), ("b", 5)):
        words = {f"{gang}name": name, f"{gang}min-available": "1", f"{gang}groups": '["team/a","team/b"]'}
        pods.append(replace(pod(name, priority=priority), annotations=words))
    broker.observe(pods, 1.0)
    tried(broker, pods[0])
    assert tried(broker, pod("high", priority=3), 2.0) == []
    assert len(tried(broker, pod("higher", priority=6), 2.0)) > 0
    assert state_of(broker).groups.plans == {}

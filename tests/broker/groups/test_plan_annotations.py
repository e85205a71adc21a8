"""Plans that are written on members, and hold again for a broker that starts anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Annotate, Bind
from linkwise.broker.sample_nodes import fleet_node
from linkwise.dialects.linkwise.dialect import PLAN, MemberPlan, plan_of, plan_words
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.vendors.machines import profile
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.broker.watch_events import WatchEvent

SEED = "gputopology.scheduling.koordinator.sh/"
KEY = "team/g/2"


def member(number: int, devices: int = 8) -> PodView:
    labels = {f"{SEED}name": "g", f"{SEED}replica": "2"}
    asks = (ContainerView("main", limits={"nvidia.com/gpu": str(devices)}),)
    return PodView("team", f"g{number}", f"u{number}", asks, labels, created=float(number), version=1)


def fleet(count: int = 3) -> list[WatchEvent]:
    return [sight for number in range(count) for sight in fleet_node(profile("dgx1-v100"), f"n{number}")]


def broker(*sights: WatchEvent, write: bool = True) -> Broker:
    made = Broker(PlacingSettings(group=GroupSettings(write_plans=write)))
    made.observe(sights, 0.0)
    return made


def written(*, generations: int = 1) -> list[PodView]:
    """Members with the plan that a broker wrote on them."""
    first = broker(*fleet(), member(0), member(1))
    state_of(first).groups[KEY].generation = generations - 1
    answer = first.filter(member(0), ["n0", "n1", "n2"], 1.0)
    words = {effect.uid: effect.applied({}) for effect in answer.effects if isinstance(effect, Annotate)}
    assert words.keys() == {"u0", "u1"}
    return [replace(pod, annotations=words[pod.uid], version=2) for pod in (member(0), member(1))]


def planned(pod: PodView) -> str:
    plan = plan_of(pod)[0]
    assert plan is not None
    return plan.node


def test_a_plan_is_written_when_it_is_held() -> None:
    plan, problems = plan_of(written()[0])
    assert problems == ()
    assert plan is not None
    assert (plan.id, plan.generation, len(plan.parts[0].devices)) == (KEY, 1, 8)


def test_nothing_is_written_unless_that_is_set() -> None:
    made = broker(*fleet(), member(0), member(1), write=False)
    answer = made.filter(member(0), ["n0", "n1"], 1.0)
    assert answer.nodes
    assert not any(isinstance(effect, Annotate) for effect in answer.effects)


def test_a_written_plan_reserves_its_devices_again_before_any_filter_call() -> None:
    pods = written(generations=3)
    second = broker(*pods, *fleet())
    held = state_of(second).groups.plans[KEY]
    assert {uid: place.node for uid, place in held.plan.placements.items()} == {pod.uid: planned(pod) for pod in pods}
    assert held.generation == 3
    assert second.filter(pods[1], ["n0", "n1", "n2"], 1.0).nodes == [planned(pods[1])]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_members_nodes_and_inventories_may_be_seen_in_any_order(order: tuple[int, ...]) -> None:
    pods, nodes = written(), fleet()
    views: list[WatchEvent] = [sight for sight in nodes if isinstance(sight, NodeView)]
    parts = (views, [sight for sight in nodes if sight not in views], pods)
    second = broker()
    for number in order:
        second.observe(parts[number], 0.5)
    assert state_of(second).groups.plans[KEY].plan.placements.keys() == {"u0", "u1"}


def test_a_member_that_is_seen_later_joins_the_plan_that_was_taken_up() -> None:
    pods = written()
    second = broker(*fleet(), pods[0])
    assert state_of(second).groups.plans[KEY].plan.placements.keys() == {"u0"}
    second.observe([pods[1]], 1.0)
    assert state_of(second).groups.plans[KEY].plan.placements.keys() == {"u0", "u1"}
    assert state_of(second).groups.plans[KEY].generation == 1


def test_where_a_device_is_taken_the_group_is_planned_anew_under_a_higher_number() -> None:
    pods = written(generations=3)
    thief = PodView("x", "thief", "thief", (ContainerView("c", limits={"nvidia.com/gpu": "8"}),), node=planned(pods[0]))
    second = broker(*fleet(), thief, *pods)
    assert KEY not in state_of(second).groups.plans
    (node,) = second.filter(pods[0], ["n0", "n1", "n2"], 1.0).nodes
    assert node != planned(pods[0])
    assert state_of(second).groups.plans[KEY].generation == 4


def test_plans_of_different_generations_are_made_anew() -> None:
    old, new = written(), written(generations=2)
    second = broker(*fleet(), old[0], new[1])
    assert state_of(second).groups.plans == {}


def test_a_plan_that_is_older_than_what_a_sibling_was_bound_by_does_not_hold() -> None:
    old, new = written(), written(generations=2)
    first = broker(*fleet(), *new)
    (bind,) = (effect for effect in first.bind("u0", planned(new[0]), 1.0).effects if isinstance(effect, Bind))
    bound = replace(new[0], node=bind.node, annotations=bind.annotations)
    assert state_of(broker(*fleet(), bound, old[1])).groups.plans == {}
    assert state_of(broker(*fleet(), bound, new[1])).groups.plans.keys() == {KEY}


def test_a_plan_that_was_let_go_is_not_taken_up_again_though_it_is_still_written() -> None:
    pods = written()
    second = broker(*fleet(), *pods)
    second.step(61.0)
    second.observe([replace(pod, version=3) for pod in pods], 62.0)
    assert state_of(second).groups.plans == {}


@pytest.mark.parametrize(
    "plan",
    [
        MemberPlan("team/other", 1, "n0"),
        MemberPlan(KEY, 1, "n0"),
        MemberPlan(KEY, 1, "nowhere"),
    ],
)
def test_a_plan_annotation_of_another_writer_reserves_nothing(plan: MemberPlan) -> None:
    pods = [replace(member(number), annotations=plan_words(plan)) for number in range(2)]
    second = broker(*fleet(), *pods)
    assert state_of(second).groups.plans == {}
    assert len(second.filter(pods[0], ["n0", "n1", "n2"], 1.0).nodes) == 1


def test_a_plan_text_that_is_broken_is_passed_over() -> None:
    pods = [replace(member(number), annotations={PLAN: "{"}) for number in range(2)]
    assert state_of(broker(*fleet(), *pods)).groups.plans == {}


def test_members_that_are_all_gated_hold_nothing_yet() -> None:
    gated = [replace(pod, gates=("linkwise.dev/gang",)) for pod in written()]
    second = broker(*fleet(), *gated)
    assert state_of(second).groups.plans == {}
    second.observe([replace(pod, gates=(), version=3) for pod in gated], 1.0)
    assert state_of(second).groups.plans.keys() == {KEY}

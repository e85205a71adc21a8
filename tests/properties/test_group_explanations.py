"""What is said to help a group does, and asking changes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from hypothesis import example, given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind
from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explanation_lines
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.explain.reports import GroupExplanation, GroupRemedy

LABEL = "gputopology.scheduling.koordinator.sh"
GANG = "gang.scheduling.koordinator.sh"
MACHINES = st.lists(st.sampled_from(["dgx1-v100", "v100-pcie", "dgx-a100"]), min_size=1, max_size=4)


class World(NamedTuple):
    """Machines, what runs on them, and a gang of so many members with so many devices each."""

    machines: list[str]
    running: list[int]
    size: int
    members: int
    models: Literal["one", "any"] = "one"


WORLDS = st.builds(
    World, MACHINES, st.lists(st.integers(1, 8), max_size=5), st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 6)
)


def pod(name: str, count: int, place: int = 0) -> PodView:
    containers = (ContainerView("main", limits={"nvidia.com/gpu": str(count)}),)
    return PodView("team", name, name, containers, created=float(place))


def gang(size: int, count: int) -> list[PodView]:
    labels = {f"{LABEL}/name": "g", f"{LABEL}/replica": str(count)}
    words = {f"{GANG}/name": "g", f"{GANG}/min-available": str(count)}
    pods = [pod(f"g-{place}", size, 10 + place) for place in range(count)]
    return [replace(view, labels=labels, annotations=words) for view in pods]


def bound(broker: Broker, view: PodView, node: str) -> None:
    (effect,) = (found for found in broker.bind(view.uid, node, 0.0).effects if isinstance(found, Bind))
    broker.outcome(effect, "written", 0.0)
    broker.observe([replace(view, node=node, annotations=effect.annotations)], 0.0)


def broker_of(world: World, but: Collection[str] = ()) -> Broker:
    """The cluster of a world, in which some of the running pods have ended."""
    broker = Broker(PlacingSettings(group=GroupSettings(models=world.models)))
    for place, machine in enumerate(world.machines):
        broker.observe(fleet_node(profile(machine), f"n{place}"), 0.0)
    names = list(broker.nodes)
    for place, count in enumerate(world.running):
        view = pod(f"p{place}", count, place)
        broker.observe([view], 0.0)
        nodes = broker.filter(view, names, 0.0).nodes
        if nodes:
            bound(broker, view, nodes[0])
    gone = [broker.pods[uid] for uid in but]
    broker.observe([replace(view, phase="Succeeded") for view in gone], 0.0)
    broker.observe(gang(world.size, world.members), 0.0)
    return broker


def explained(world: World, but: Collection[str] = ()) -> GroupExplanation:
    found = explain_group(broker_of(world, but), "g-0", 0.0)
    assert found is not None
    return found


def helps(world: World, remedy: GroupRemedy) -> bool:
    match remedy.kind:
        case "pods end":
            return explained(world, {pod.uid for pod in remedy.pods}).whole
        case "fewer members":
            return explained(world._replace(members=remedy.amount)).whole
        case "fewer devices":
            return explained(world._replace(size=remedy.amount)).whole
        case _:
            return explained(world._replace(models="any")).whole


@settings(max_examples=examples(40), deadline=None)
@given(WORLDS)
def test_what_is_said_to_help_a_group_does(world: World) -> None:
    explanation = explained(world)
    assert explanation.whole == (explanation.stage == "schedulable")
    assert [remedy for remedy in explanation.remedies if not helps(world, remedy)] == []
    if explanation.never:
        assert not explained(world._replace(running=[])).whole


@settings(max_examples=examples(40), deadline=None)
@given(WORLDS)
@example(World(["dgx1-v100", "v100-pcie"], [], 1, 1, "any"))  # one pod goes where its policy prefers it
def test_a_gang_fits_if_and_only_if_it_would_be_planned(world: World) -> None:
    broker = broker_of(world)
    explanation = explain_group(broker, "g-0", 0.0)
    answer = broker.filter(gang(world.size, world.members)[0], list(broker.nodes), 0.0)
    held = explain_group(broker, "g-0", 0.0)
    assert explanation is not None
    assert held is not None
    assert (explanation.stage == "schedulable", held.stage) == (
        bool(answer.nodes),
        "reserved" if answer.nodes else "unschedulable",
    )
    assert (held.hosts, held.levels, held.runner_up) == (explanation.hosts, explanation.levels, explanation.runner_up)


@settings(max_examples=examples(40), deadline=None)
@given(WORLDS)
def test_a_group_can_be_explained_and_asking_changes_nothing(world: World) -> None:
    broker = broker_of(world)
    before = broker.snapshot(0.0)
    explanation = explain_group(broker, "g-0", 0.0)
    assert explanation is not None
    assert all(explanation_lines(explanation))
    json.dumps(asdict(explanation), allow_nan=False)
    assert explanation == explain_group(broker, "g-0", 0.0)
    assert broker.snapshot(0.0) == before

"""Small groups and clusters as input of the planner, generated or written out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from linkwise.engine.planning.hosts import LinkedHost
from linkwise.engine.planning.planner import TABLE, outline
from linkwise.engine.planning.problem import BoundSpot, GroupProblem, MemberKind, Spot
from linkwise.topology.fabric import fabric_of
from support.properties.enumeration import Place, Values

if TYPE_CHECKING:
    from linkwise.engine.planning.planner import Outline
    from linkwise.model.topology import Matrix

__all__ = ["Question", "planned", "problem_of", "questions", "values_of"]


class Question(NamedTuple):
    """Members of these sizes on these nodes."""

    places: tuple[Place, ...]
    sizes: tuple[int, ...]
    required: int = 0
    seed_order: bool = False
    floor: float = 0.0


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Two kinds of machines, a few nodes of them, and up to four members, which may be shares of used devices."""
    machines = [draw(_matrices()) for _ in range(2)]
    levels = draw(st.integers(0, 2))
    shares = draw(st.integers(0, 4)) == 0
    places = tuple(draw(_places(machines, levels, number, shares=shares)) for number in range(draw(st.integers(1, 4))))
    equal = draw(st.booleans())
    sizes = [draw(st.integers(1, 2))] * draw(st.integers(1, 4)) if equal else draw(_sizes)
    sizes = [1] * len(sizes) if shares else sizes
    floor = draw(st.sampled_from([0.0, 0.0, 50.5, 100.0]))
    required, seed_order = draw(st.integers(0, levels)), draw(st.booleans())
    return Question(places, tuple(sorted(sizes, reverse=True)), required, seed_order, floor)


_sizes = st.lists(st.integers(1, 3), min_size=1, max_size=4)


@st.composite
def _matrices(draw: st.DrawFn) -> Matrix:
    count = draw(st.integers(2, 5))
    rows = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            rows[i][j] = rows[j][i] = draw(st.sampled_from([10.0, 50.0, 51.0, 100.0]))
    return tuple(map(tuple, rows))


@st.composite
def _places(draw: st.DrawFn, machines: list[Matrix], levels: int, number: int, *, shares: bool) -> Place:
    values = draw(st.sampled_from(machines))
    devices = draw(st.permutations(range(len(values))))
    held_count = draw(st.sampled_from([0, 0, 0, 0, 1, 2]))
    free = draw(st.integers(0 if held_count else 1, len(values)))
    held = devices[free : free + held_count]
    free = free if free or held else 1
    path = tuple(draw(st.sampled_from(["a", "b", ""])) for _ in range(levels))
    model = draw(st.sampled_from(["x", "x", "y"]))
    most = draw(st.sampled_from([1, 2, 9]))
    shared = devices[: draw(st.integers(0, free))] if shares else []
    return Place(f"n{number}", values, tuple(sorted(devices[:free])), path, model, most, tuple(held), tuple(shared))


def problem_of(question: Question) -> GroupProblem:
    """The question as a planner reads it."""
    kinds = tuple(MemberKind(size, count) for size, count in sorted(Counter(question.sizes).items(), reverse=True))
    hosts: dict[tuple[object, ...], LinkedHost] = {}
    spots = []
    for place in question.places:
        key = (place.values, place.free, place.held, place.shared)
        if key not in hosts:
            hosts[key] = LinkedHost(place.values, _mask(place.free), _mask(place.held), _mask(place.idle()))
        caps = tuple(min(place.most, kind.count) for kind in kinds)
        spots.append(Spot(place.name, hosts[key], caps, place.path, place.model, not place.held))
    models = {place.model for place in question.places if place.held}
    bound = tuple(
        BoundSpot(place.name, place.path, 1, len(place.idle()), fabric_of(place.values).bottleneck(_mask(place.held)))
        for place in question.places
        if place.held
    )
    most = {place.name: place.most for place in question.places}
    levels = tuple(f"level {number}" for number in range(len(question.places[0].path)))
    return GroupProblem(
        kinds,
        tuple(spot for spot in spots if spot.model in (models or {spot.model})),
        levels,
        question.required,
        seed_order=question.seed_order,
        floor=question.floor,
        together=lambda name, counts: sum(counts) <= most[name],
        bound=bound,
    )


def planned(problem: GroupProblem, table: int = TABLE) -> tuple[Outline | None, int]:
    """The outline, and in how many steps it was made."""
    steps, count = outline(problem, table), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


def values_of(found: Outline) -> Values:
    """What an outline is worth."""
    level = {one.name: one.value for one in found.levels}
    return Values(
        int(level["nodes"][0]),
        tuple(map(int, level["network"])),
        level["bottleneck"][0],
        level["per pod"][0],
        tuple(map(int, level["residual"])),
        int(level["left-over"][0]),
    )


def _mask(devices: tuple[int, ...]) -> int:
    return sum(1 << device for device in devices)

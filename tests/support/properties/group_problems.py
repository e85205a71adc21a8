"""Small groups and clusters as input of the planner, generated or written out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hypothesis import strategies as st

from linkwise.engine.index.node_index import Query
from linkwise.engine.planning.hosts import LinkedHost, PartSize, PickedHost
from linkwise.engine.planning.parts import Amount, Card, PartsHost, at_least
from linkwise.engine.planning.planner import TABLE, most_members, outline
from linkwise.engine.planning.problem import BoundSpot, GroupProblem, MemberKind, Spot
from linkwise.policies.ring_affinity import RingAffinity
from linkwise.policies.ring_profiles import RING_PROFILES
from linkwise.testing.nodes import ask, node
from linkwise.topology.fabric import fabric_of
from support.properties.enumeration import WHOLE, Place, Share, Size, Values, largest_first

if TYPE_CHECKING:
    import random
    from collections.abc import Generator

    from linkwise.engine.planning.hosts import Host, Size as PlannedSize
    from linkwise.engine.planning.planner import Outline
    from linkwise.engine.planning.problem import Counts
    from linkwise.model.topology import Matrix

__all__ = ["Question", "planned", "planned_gang", "problem_of", "questions", "random_question", "run", "values_of"]


class Question(NamedTuple):
    """Members of these sizes on these nodes."""

    places: tuple[Place, ...]
    sizes: tuple[Size, ...]
    required: int = 0
    seed_order: bool = False
    floor: float = 0.0
    distinct: bool = False
    """whether no two members may be on one device"""


def questions() -> st.SearchStrategy[Question]:
    """Small questions of every kind."""
    return st.randoms(use_true_random=False).map(random_question)


def random_question(chance: random.Random) -> Question:
    """Two kinds of machines, a few nodes of them, and up to four members: of whole devices, of parts, or in rings."""
    kind = chance.choice(("whole", "whole", "parts", "parts", "rings"))
    machines = [_matrix(chance) for _ in range(2)]
    levels = chance.randint(0, 2)
    profile = chance.choice(PROFILES) if kind == "rings" else ""
    number = chance.randint(1, 2 if profile else 3 if kind == "parts" else 4)
    places = tuple(_place(chance, machines, levels, place, kind=kind, profile=profile) for place in range(number))
    sizes: list[Size] = [chance.randint(1, 2)] * chance.randint(1, 4)
    if kind == "parts":
        sizes = _parts(chance)
    elif profile:
        counts = RING_PROFILES[profile].counts()
        sizes = [chance.choice([count for count in counts if count <= MOST]) for _ in range(chance.randint(2, 5))]
    elif chance.random() < UNEQUAL:
        sizes = [chance.randint(1, 3) for _ in range(chance.randint(1, 4))]
    floor = 0.0 if profile else chance.choice([0.0, 0.0, 50.5, 100.0])
    required, seed_order = chance.randint(0, levels), chance.random() < UNEQUAL
    distinct = kind == "parts" and chance.random() < DISTINCT
    return Question(places, tuple(largest_first(sizes)), required, seed_order, floor, distinct)


PROFILES: Final = ("ascend-910", "ascend-910c-8", "atlas-350-mesh-8", "ascend-310-card")
"""machines of eight devices in rings, modules, meshes or cards"""
MOST: Final = 5  # devices of a member in rings
UNEQUAL: Final = 0.5
DISTINCT: Final = 0.2
AMOUNTS: Final = (10, 20, 30, 50, 60, 70, 100)  # percent


def _parts(chance: random.Random) -> list[Size]:
    """Equal parts, unequal ones, or some beside whole devices; by memory alone, or by memory and compute."""
    count = chance.randint(1, 4)
    cores = chance.choice([(0,), (0,), AMOUNTS])
    amounts = chance.sample(AMOUNTS, chance.choice([1, 2, 3]))
    parts: list[Size] = [Share(chance.choice(amounts), chance.choice(cores)) for _ in range(count)]
    if chance.random() < UNEQUAL:
        parts = [parts[0]] * count
    elif chance.random() < UNEQUAL:
        parts[0] = chance.randint(1, 2)
    return parts


def _matrix(chance: random.Random) -> Matrix:
    count = chance.randint(2, 5)
    rows = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            rows[i][j] = rows[j][i] = chance.choice([10.0, 50.0, 51.0, 100.0])
    return tuple(map(tuple, rows))


def _place(  # noqa: PLR0913 - one node of a question
    chance: random.Random, machines: list[Matrix], levels: int, number: int, *, kind: str, profile: str
) -> Place:
    values = ((0.0,) * 8,) * 8 if profile else chance.choice(machines)
    devices = chance.sample(range(len(values)), len(values))
    held_count = chance.choice([0, 0, 0, 0, 1, 2])
    free = chance.randint(0 if held_count else 1, len(values))
    held = tuple(devices[free : free + held_count])
    path = tuple(chance.choice(["a", "b", ""]) for _ in range(levels))
    open_ = devices[: free if free or held else 1]
    rooms: tuple[tuple[int, int], ...] = ()
    if kind == "parts":
        used = {*chance.sample(open_, chance.randint(0, len(open_))), *held}
        rooms = tuple(_room(chance) if device in used else WHOLE for device in range(len(values)))
        open_ += held
    return Place(
        f"n{number}",
        values,
        tuple(sorted(open_)),
        path,
        chance.choice(["x", "x", "y"]),
        chance.choice([1, 2, 9]),
        held,
        rooms,
        profile,
    )


def _room(chance: random.Random) -> tuple[int, int]:
    """What is left of a used device."""
    return chance.choice(AMOUNTS[:-1]), chance.choice(AMOUNTS)


def problem_of(question: Question) -> GroupProblem:
    """The question as a planner reads it."""
    counts = Counter(question.sizes)
    shares = [size for size in counts if isinstance(size, Share)]
    kinds = tuple(MemberKind(_planned(size, shares), counts[size]) for size in largest_first(list(counts)))
    hosts: dict[tuple[object, ...], Host] = {}
    spots = []
    for place in question.places:
        key = (place.values, place.free, place.held, place.rooms)
        if key not in hosts:
            hosts[key] = _host(place, question, shares)
        caps = tuple(min(place.most, kind.count) for kind in kinds)
        spots.append(Spot(place.name, hosts[key], caps, place.path, place.model, not place.held))
    models = {place.model for place in question.places if place.held}
    bound = tuple(
        BoundSpot(place.name, place.path, 1, len(place.idle()), _slowest(place))
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


def _planned(size: Size, shares: list[Share]) -> PlannedSize:
    if isinstance(size, Share):
        return PartSize(shares.index(size), at_least(size.memory / WHOLE[0]))
    return size


def _host(place: Place, question: Question, shares: list[Share]) -> Host:
    if place.profile:
        asks: dict[PlannedSize, Query] = {
            size: Query(ask(size, profile=place.profile), "ascend", RingAffinity())
            for size in question.sizes
            if isinstance(size, int)
        }
        return PickedHost(node(len(place.values), free=place.free, profile=place.profile), asks)
    if not place.rooms:
        return LinkedHost(place.values, _mask(place.free), _mask(place.held))
    cards = {device: _card(place, device, question, shares) for device in place.free}
    return PartsHost(
        place.values,
        cards,
        ["team"] * len(shares),
        _mask(place.held),
        distinct=question.distinct,
        fewest_first=question.seed_order,
    )


def _card(place: Place, device: int, question: Question, shares: list[Share]) -> Card:
    memory, core = place.rooms[device]
    needs = tuple(
        Amount(*share)
        if share.memory <= memory and share.core <= core and not (question.distinct and device in place.held)
        else None
        for share in shares
    )
    return Card(Amount(memory, core), needs, (memory, core) == WHOLE, WHOLE[0])


def _slowest(place: Place) -> float:
    return inf if place.profile else fabric_of(place.values).bottleneck(_mask(place.held))


def planned(problem: GroupProblem, table: int = TABLE) -> tuple[Outline | None, int]:
    """The outline, and in how many steps it was made."""
    return run(outline([problem], table))


def planned_gang(problem: GroupProblem, table: int = TABLE) -> Outline | None:
    """The outline for as many members as fit."""
    found, _ = planned(problem, table)
    if found is not None:
        return found
    (choices, proven), _ = run(most_members(problem, table))
    problems = [with_counts(problem, counts) for counts in choices if any(counts)]
    return run(outline(problems, table, certain=proven))[0] if problems else None


def with_counts(problem: GroupProblem, counts: Counts) -> GroupProblem:
    """The problem with fewer members."""
    kinds = tuple(MemberKind(kind.size, count) for kind, count in zip(problem.kinds, counts, strict=True))
    return replace(problem, kinds=kinds, options={}, _sizes={}, _devices={})


T = TypeVar("T")


def run(steps: Generator[None, None, T]) -> tuple[T, int]:
    """The result of a computation in steps, and their number."""
    count = 0
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
        int(sum(level["placed"])),
    )


def _mask(devices: tuple[int, ...]) -> int:
    return sum(1 << device for device in devices)

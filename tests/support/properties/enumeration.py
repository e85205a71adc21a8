"""Every plan of a small group, and the levels as successive filters over all of them: what a planner must equal."""

from __future__ import annotations

from itertools import combinations, product
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from linkwise.topology.fabric import NEAR, fabric_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from linkwise.model.topology import Matrix

__all__ = ["Place", "Values", "best_values"]


class Place(NamedTuple):
    """A node, written so that everything about it can be tried."""

    name: str
    values: Matrix
    free: tuple[int, ...]
    path: tuple[str, ...] = ()
    model: str = ""
    most: int = 99
    """members that fit by CPU"""
    held: tuple[int, ...] = ()


class Values(NamedTuple):
    """What a plan is worth, level by level."""

    nodes: int
    network: tuple[int, ...]
    bottleneck: float
    member: float
    loss: tuple[int, ...]
    left: int


def best_values(
    places: Sequence[Place], sizes: Sequence[int], *, required: int = 0, seed_order: bool = False, floor: float = 0.0
) -> Values | None:
    """The values of levels 2 to 7 that the best plans have; None if the group does not fit."""
    plans = [plan for plan in _plans(places, sizes, required) if plan.member >= floor]
    if not plans:
        return None
    plans = _least(plans, lambda plan: (plan.nodes,))
    plans = _least(plans, lambda plan: plan.network)
    if seed_order:
        plans = _least(plans, lambda plan: (plan.left,))
    best = max(plan.bottleneck for plan in plans)
    plans = [plan for plan in plans if plan.bottleneck >= NEAR * best]
    inside = max(plan.member for plan in plans)
    plans = [plan for plan in plans if plan.member >= NEAR * inside]
    plans = _least(plans, lambda plan: plan.loss)
    plans = _least(plans, lambda plan: (plan.left,))
    return plans[0]._replace(bottleneck=best, member=inside)


def _least(plans: list[Values], key: Callable[[Values], tuple[int, ...]]) -> list[Values]:
    least = min(map(key, plans))
    return [plan for plan in plans if key(plan) == least]


def _plans(places: Sequence[Place], sizes: Sequence[int], required: int) -> Iterator[Values]:
    for homes in product(range(len(places)), repeat=len(sizes)):
        used = sorted(set(homes))
        if len({places[home].model for home in used}) > 1:
            continue
        shared = {places[home].path[:required] for home in used}
        if len(shared) > 1 or any("" in places[home].path[:required] for home in used):
            continue
        if any(homes.count(home) > places[home].most for home in used):
            continue
        ways = [
            list(_ways(places[home], [size for size, own in zip(sizes, homes, strict=True) if own == home]))
            for home in used
        ]
        for chosen in product(*ways):
            yield _valued(places, used, chosen)


def _ways(place: Place, sizes: list[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to give members disjoint free devices."""
    if not sizes:
        yield ()
        return
    for own in combinations(place.free, sizes[0]):
        rest = place._replace(free=tuple(device for device in place.free if device not in own))
        for others in _ways(rest, sizes[1:]):
            yield (own, *others)


def _valued(places: Sequence[Place], used: list[int], chosen: Sequence[Sequence[tuple[int, ...]]]) -> Values:
    speeds, inside, losses, left = [], [], [], 0
    bound = [number for number, place in enumerate(places) if place.held]
    for home, sets in zip(used, chosen, strict=True):
        place = places[home]
        union = [device for own in sets for device in own]
        speeds.append(_slowest(place.values, [*union, *place.held]))
        inside += [_slowest(place.values, own) for own in sets]
        fabric = fabric_of(place.values)
        before = sum(1 << device for device in place.free)
        after = before & ~sum(1 << device for device in union)
        losses.append([was - now for was, now in zip(fabric.left(before), fabric.left(after), strict=True)])
        left += len(place.free) - len(union)
    left += sum(len(places[number].free) for number in bound if number not in used)
    return Values(
        len({*used, *bound}),
        _domains([places[home] for home in used]),
        min(speeds),
        min(inside),
        tuple(map(sum, zip(*losses, strict=True))),
        left,
    )


def _slowest(values: Matrix, devices: Sequence[int]) -> float:
    return min((min(values[i][j], values[j][i]) for i, j in combinations(devices, 2)), default=inf)


def _domains(places: Sequence[Place]) -> tuple[int, ...]:
    """Distinct domains per level, up to the first level with more than one."""
    counts: list[int] = []
    for level in range(len(places[0].path)):
        words = {place.path[: level + 1] if place.path[level] else place.name for place in places}
        counts.append(len(words))
        if len(words) > 1:
            break
    return tuple(counts)

"""Brute force: every partition and every set, every plan of a small group; no caches.

Tests compare the answers of the exact algorithms with it, and `make bench` their speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice, product
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from linkwise.model.verdict import Offer
from linkwise.policies.ring_affinity import RingAffinity
from linkwise.testing.nodes import ask, node
from linkwise.topology.fabric import NEAR, fabric_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from linkwise.model.topology import Matrix

__all__ = [
    "Enumerated",
    "Place",
    "Values",
    "all_partitions",
    "best_values",
    "enumerate_best_partition",
    "largest_bottleneck",
]

Set = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Enumerated:
    """The best set of the best partition, found by looking at all of them."""

    devices: Set
    score: float
    total: float
    sets: tuple[Set, ...]


def all_partitions(free: Sequence[int], size: int) -> Iterator[tuple[Set, ...]]:
    """Every partition into sets of `size` and one left-over set, in the order of sorted positions."""
    yield from _split(tuple(free), size, len(free) % size)


def _split(members: Set, size: int, left_over: int) -> Iterator[tuple[Set, ...]]:
    """The next set holds the first member; a left-over set stands where padding behind all devices would put it."""
    if not members:
        yield ()
        return
    first, others = members[0], members[1:]
    found = list(combinations(others, size - 1))
    if left_over:
        found += combinations(others, left_over - 1)
        found.sort(key=lambda chosen: (*chosen, *(inf,) * (size - 1 - len(chosen))))
    for chosen in found:
        rest = tuple([member for member in others if member not in chosen])
        for tail in _split(rest, size, left_over if len(chosen) == size - 1 else 0):
            yield ((first, *chosen), *tail)


def enumerate_best_partition(
    scores: Sequence[Sequence[float]], size: int, free: Sequence[int], required: Collection[int] = ()
) -> Enumerated | None:
    """The first partition with the best total that has a full set with all required devices; its best such set."""
    best, wanted = None, set(required)
    for sets in all_partitions(free, size):
        full = [found for found in sets if len(found) == size and wanted <= set(found)]
        if not full:
            continue
        total = sum(scores[i][j] for found in sets for i, j in combinations(found, 2))
        if best is None or total > best.total:
            worth = [sum(scores[i][j] for i, j in combinations(found, 2)) for found in full]
            best = Enumerated(full[worth.index(max(worth))], max(worth), total, sets)
    return best


def largest_bottleneck(
    values: Sequence[Sequence[float]], size: int, free: Sequence[int], required: Collection[int] = ()
) -> float | None:
    """The largest smallest pair of any set of `size` with all required devices."""
    sets = [found for found in combinations(free, size) if set(required) <= set(found)]
    worth = [min((values[i][j] for i, j in combinations(found, 2)), default=inf) for found in sets]
    return max(worth, default=None)


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
    shared: tuple[int, ...] = ()
    """those of `free` that other pods use a part of"""
    profile: str = ""
    """of a machine with rings, whose layouts matter instead of bandwidth"""

    def idle(self) -> tuple[int, ...]:
        """Devices that nobody uses."""
        return tuple(device for device in self.free if device not in self.shared)


class Values(NamedTuple):
    """What a plan is worth, level by level."""

    nodes: int
    network: tuple[int, ...]
    bottleneck: float
    member: float
    loss: tuple[int, ...]
    left: int
    placed: int = 0
    taken: int = 0
    """idle devices that the group takes"""


def best_values(  # noqa: PLR0913 - the settings of a plan
    places: Sequence[Place],
    sizes: Sequence[int],
    *,
    required: int = 0,
    seed_order: bool = False,
    floor: float = 0.0,
    least: int | None = None,
) -> Values | None:
    """The values of levels 1 to 7 that the best plans have; None if fewer than `least` members fit, by default all."""
    for count in range(len(sizes), (len(sizes) if least is None else least) - 1, -1):
        choices = sorted(set(combinations(sorted(sizes, reverse=True), count)))
        plans = [plan for chosen in choices for plan in _plans(places, chosen, required) if plan.member >= floor]
        if plans:
            return _best(plans, seed_order=seed_order)
    return None


def _best(plans: list[Values], *, seed_order: bool) -> Values:
    plans = _least(plans, lambda plan: (plan.nodes,))
    plans = _least(plans, lambda plan: plan.network)
    if seed_order:
        plans = _least(plans, lambda plan: (plan.taken, plan.left))
    best = max(plan.bottleneck for plan in plans)
    plans = [plan for plan in plans if plan.bottleneck >= NEAR * best]
    inside = max(plan.member for plan in plans)
    plans = [plan for plan in plans if plan.member >= NEAR * inside]
    plans = _least(plans, lambda plan: plan.loss)
    plans = _least(plans, lambda plan: (plan.taken, plan.left))
    return plans[0]._replace(bottleneck=best, member=inside, taken=0)


def _least(plans: list[Values], key: Callable[[Values], tuple[int, ...]]) -> list[Values]:
    least = min(map(key, plans))
    return [plan for plan in plans if key(plan) == least]


def _plans(places: Sequence[Place], sizes: Sequence[int], required: int) -> Iterator[Values]:
    bound = [place for place in places if place.held]
    domain, models = _bound_domain(bound, required), {place.model for place in bound or places}
    for homes in product(range(len(places)), repeat=len(sizes)):
        used = sorted(set(homes))
        if len({places[home].model for home in used}) > 1 or not models.issuperset(places[home].model for home in used):
            continue
        shared = {places[home].path[:required] for home in used}
        away = any(path[: len(domain)] != domain for path in shared)
        if away or len(shared) > 1 or any("" in places[home].path[:required] for home in used):
            continue
        if any(homes.count(home) > places[home].most for home in used):
            continue
        ways = [
            list(_ways(places[home], [size for size, own in zip(sizes, homes, strict=True) if own == home]))
            for home in used
        ]
        for chosen in product(*ways):
            yield _valued(places, used, chosen)


def _bound_domain(bound: Sequence[Place], required: int) -> tuple[str, ...]:
    """The domain that bound members require of the others: level by level the one with the most of their nodes."""
    domain: tuple[str, ...] = ()
    for level in range(required):
        words = [place.path[level] for place in bound if place.path[:level] == domain and place.path[level]]
        if not words:
            break
        domain += (min(words, key=lambda word: (-words.count(word), word)),)
    return domain


def _ways(place: Place, sizes: list[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to give members disjoint free devices."""
    if not sizes:
        yield ()
        return
    if place.profile:
        yield from islice(_ring_ways(place, sizes), 1)
        return
    for own in combinations(place.free, sizes[0]):
        rest = place._replace(free=tuple(device for device in place.free if device not in own))
        for others in _ways(rest, sizes[1:]):
            yield (own, *others)


def _ring_ways(place: Place, sizes: list[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to give members disjoint free devices in a layout that the policy accepts."""
    if not sizes:
        yield ()
        return
    for own in combinations(place.free, sizes[0]):
        if in_layout(place.profile, own):
            rest = place._replace(free=tuple(device for device in place.free if device not in own))
            yield from ((own, *others) for others in _ring_ways(rest, sizes[1:]))


@cache
def in_layout(profile: str, devices: tuple[int, ...]) -> bool:
    """Whether a pod may get exactly these devices of a machine with rings."""
    return isinstance(
        RingAffinity().pick(ask(len(devices), profile=profile), node(8, free=devices, profile=profile)), Offer
    )


def _valued(places: Sequence[Place], used: list[int], chosen: Sequence[Sequence[tuple[int, ...]]]) -> Values:
    speeds, inside, losses, left, taken = [], [], [], 0, 0
    bound = [number for number, place in enumerate(places) if place.held]
    for home, sets in zip(used, chosen, strict=True):
        place = places[home]
        union = [device for own in sets for device in own]
        speeds.append(inf if place.profile else _slowest(place.values, [*union, *place.held]))
        inside += [inf if place.profile else _slowest(place.values, own) for own in sets]
        fabric = fabric_of(place.values)
        before = sum(1 << device for device in place.idle())
        after = before & ~sum(1 << device for device in union)
        lost = [was - now for was, now in zip(fabric.left(before), fabric.left(after), strict=True)]
        losses.append([0] * len(lost) if place.profile else lost)
        taken += len(set(union) & set(place.idle()))
        left += len(set(place.idle()) - set(union))
    for number in bound:
        if number not in used:
            speeds.append(inf if places[number].profile else _slowest(places[number].values, places[number].held))
            left += len(places[number].idle())
    return Values(
        len({*used, *bound}),
        _domains([places[number] for number in {*used, *bound}]),
        min(speeds),
        min(inside),
        tuple(map(sum, zip(*losses, strict=True))),
        left,
        sum(map(len, chosen)),
        taken,
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

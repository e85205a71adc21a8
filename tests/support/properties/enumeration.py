"""Brute force: every partition and every set, every plan of a small group; no caches.

Tests compare the answers of the exact algorithms with it, and `make bench` their speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice, product
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.model.verdict import Offer
from linkwise.policies.ring_affinity import RingAffinity
from linkwise.testing.nodes import ask, node
from linkwise.topology.fabric import NEAR, fabric_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from linkwise.model.topology import Matrix

__all__ = [
    "WHOLE",
    "Enumerated",
    "Place",
    "Share",
    "Size",
    "Values",
    "all_partitions",
    "best_values",
    "enumerate_best_partition",
    "largest_bottleneck",
    "largest_first",
]

Set = tuple[int, ...]
WHOLE: Final = (100, 100)
"""memory and compute of a device, in percent"""


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


class Share(NamedTuple):
    """A member that gets a part of a device: memory and compute, in percent."""

    memory: int
    core: int = 0


Size = int | Share
"""what a member gets: a number of whole devices, or a part of one"""


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
    rooms: tuple[tuple[int, int], ...] = ()
    """by device, the memory and compute that are left, in percent; those of a device that has room are in `free`"""
    profile: str = ""
    """of a machine with rings, whose layouts matter instead of bandwidth"""

    def idle(self) -> tuple[int, ...]:
        """Devices that are not in use."""
        return tuple(device for device in self.free if not self.rooms or self.rooms[device] == WHOLE)

    def without(self, *devices: int) -> Place:
        """The node once these devices are used up."""
        return self._replace(free=tuple(device for device in self.free if device not in devices))

    def less(self, device: int, share: Share) -> Place:
        """The node once a part of a device is used."""
        memory, core = self.rooms[device]
        left = (memory - share.memory, core - share.core)
        return self._replace(rooms=(*self.rooms[:device], left, *self.rooms[device + 1 :]))


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
    sizes: Sequence[Size],
    *,
    required: int = 0,
    seed_order: bool = False,
    floor: float = 0.0,
    least: int | None = None,
    distinct: bool = False,
) -> Values | None:
    """The values of levels 1 to 7 that the best plans have; None if fewer than `least` members fit, by default all."""
    for count in range(len(sizes), (len(sizes) if least is None else least) - 1, -1):
        choices = sorted(set(combinations(largest_first(sizes), count)), key=str)
        plans = [
            plan
            for chosen in choices
            for plan in _plans(places, chosen, required, distinct=distinct)
            if plan.member >= floor
        ]
        if plans:
            return _best(plans, seed_order=seed_order)
    return None


def largest_first(sizes: Sequence[Size]) -> list[Size]:
    """Whole devices before parts, the largest first."""
    whole = sorted((size for size in sizes if not isinstance(size, Share)), reverse=True)
    return [*whole, *sorted((size for size in sizes if isinstance(size, Share)), reverse=True)]


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


def _plans(places: Sequence[Place], sizes: Sequence[Size], required: int, *, distinct: bool) -> Iterator[Values]:
    bound = [place for place in places if place.held]
    domain, models = _bound_domain(bound, required), {place.model for place in bound or places}

    @cache
    def values_on(home: int, own: tuple[Size, ...]) -> list[_OnNode]:
        place = places[home]
        return list(dict.fromkeys(_on_node(place, sets) for sets in _ways(place, list(own), distinct)))

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
            values_on(home, tuple(size for size, own in zip(sizes, homes, strict=True) if own == home)) for home in used
        ]
        for chosen in product(*ways):
            yield _valued(places, used, chosen, len(sizes))


def _bound_domain(bound: Sequence[Place], required: int) -> tuple[str, ...]:
    """The domain that bound members require of the others: level by level the one with the most of their nodes."""
    domain: tuple[str, ...] = ()
    for level in range(required):
        words = [place.path[level] for place in bound if place.path[:level] == domain and place.path[level]]
        if not words:
            break
        domain += (min(words, key=lambda word: (-words.count(word), word)),)
    return domain


def _ways(place: Place, sizes: list[Size], distinct: bool) -> Iterator[tuple[tuple[int, ...], ...]]:  # noqa: FBT001
    """All ways to give members unused devices of their own, or parts of devices that have room for all of them."""
    if not sizes:
        yield ()
        return
    size = sizes[0]
    if place.profile:
        yield from islice(_ring_ways(place, [size for size in sizes if not isinstance(size, Share)]), 1)
    elif isinstance(size, Share):
        for device in place.free:
            memory, core = place.rooms[device]
            if distinct and device in place.held:
                continue
            if size.memory <= memory and size.core <= core:
                rest = place.without(device) if distinct else place.less(device, size)
                for others in _ways(rest, sizes[1:], distinct):
                    yield ((device,), *others)
    else:
        for own in combinations(place.idle(), size):
            for others in _ways(place.without(*own), sizes[1:], distinct):
                yield (own, *others)


def _ring_ways(place: Place, sizes: list[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to give members disjoint free devices in a layout that the policy accepts."""
    if not sizes:
        yield ()
        return
    for own in combinations(place.free, sizes[0]):
        if in_layout(place.profile, own):
            yield from ((own, *others) for others in _ring_ways(place.without(*own), sizes[1:]))


@cache
def in_layout(profile: str, devices: tuple[int, ...]) -> bool:
    """Whether a pod may get exactly these devices of a machine with rings."""
    return isinstance(
        RingAffinity().pick(ask(len(devices), profile=profile), node(8, free=devices, profile=profile)), Offer
    )


class _OnNode(NamedTuple):
    """What members on one node are worth."""

    bottleneck: float
    member: float
    loss: tuple[int, ...]
    taken: int
    left: int


def _on_node(place: Place, sets: Sequence[Sequence[int]]) -> _OnNode:
    union, idle = {device for own in sets for device in own}, set(place.idle())
    fabric = fabric_of(place.values)
    before, after = fabric.left(_mask(idle)), fabric.left(_mask(idle - union))
    rings = bool(place.profile)
    return _OnNode(
        inf if rings else _slowest(place.values, sorted(union | set(place.held))),
        inf if rings else min(_slowest(place.values, own) for own in sets),
        tuple(0 if rings else was - now for was, now in zip(before, after, strict=True)),
        len(union & idle),
        len(idle - union),
    )


def _mask(devices: Iterable[int]) -> int:
    return sum(1 << device for device in devices)


def _valued(places: Sequence[Place], used: list[int], chosen: Sequence[_OnNode], placed: int) -> Values:
    bound = [number for number, place in enumerate(places) if place.held]
    others = [places[number] for number in bound if number not in used]
    speeds = [inf if place.profile else _slowest(place.values, place.held) for place in others]
    return Values(
        len({*used, *bound}),
        _domains([places[number] for number in {*used, *bound}]),
        min([own.bottleneck for own in chosen] + speeds),
        min(own.member for own in chosen),
        tuple(map(sum, zip(*(own.loss for own in chosen), strict=True))),
        sum(own.left for own in chosen) + sum(len(place.idle()) for place in others),
        placed,
        sum(own.taken for own in chosen),
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

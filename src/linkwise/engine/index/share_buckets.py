"""Buckets of the share index: nodes sorted by score, per kind of device.

A level is the free share of a device, what other pods lose with it and the number of unused devices of its node in one
number, so that the order of levels is the order of the terms of the score. Bound: a change moves at most LONGEST entries,
and the best nodes are read from the front of a bucket.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.topology.fabric import LARGEST_LOSS, NO_LOSS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

__all__ = [
    "LONGEST",
    "Bucket",
    "DeviceKind",
    "Reach",
    "SortedNames",
    "best_ranked",
    "best_ranks",
    "level",
    "rank_of",
    "score",
    "with_free_share",
]

LONGEST: Final = 512
"""entries per list; a longer one is split in halves"""
_UNUSED: Final = 16
"""bits of the number of unused devices of a node"""
_LOSS: Final = LARGEST_LOSS.bit_length()
"""bits of a loss"""
_BELOW: Final = _UNUSED + _LOSS * len(NO_LOSS)
"""bits of a level below the free share"""


def level(share: int, lost: tuple[int, ...] = NO_LOSS, unused: int = 0) -> int:
    """The level of a device with this free share and these losses, on a node with this number of unused devices."""
    if lost is NO_LOSS:
        return share << _BELOW | unused
    number = share
    for amount in lost:
        number = number << _LOSS | amount
    return number << _UNUSED | unused


def score(rank: int, sign: int) -> tuple[int, ...]:
    """The score of a rank, equal to `MemoryShare.score`."""
    number = sign * rank
    lost = [number >> place & LARGEST_LOSS for place in range(_BELOW - _LOSS, _UNUSED - 1, -_LOSS)]
    terms = [-amount if sign > 0 else amount - LARGEST_LOSS for amount in lost]
    return (-sign * (number >> _BELOW), *terms, -sign * (number & (1 << _UNUSED) - 1))


def rank_of(code: tuple[int, ...], sign: int) -> int:
    """The rank of a score."""
    share, *terms, unused = code
    lost = tuple([-term if sign > 0 else term + LARGEST_LOSS for term in terms])
    return sign * level(-sign * share, lost, -sign * unused)


class SortedNames:
    """Sorted pairs of a number and a name, in short lists so that an insertion is cheap."""

    __slots__ = ("_names", "_numbers", "_tops")

    def __init__(self) -> None:
        # Two parallel lists instead of pairs: slices of either are taken without creating or touching tuples.
        self._numbers: list[list[int]] = [[]]
        self._names: list[list[str]] = [[]]
        self._tops: list[tuple[int, str]] = []
        """upper bound of every list but the last"""

    def add(self, number: int, name: str) -> None:
        """Insert a pair that is not in it."""
        place, position = self._find(number, name)
        numbers, names = self._numbers[place], self._names[place]
        numbers.insert(position, number)
        names.insert(position, name)
        if len(numbers) > LONGEST:
            half = len(numbers) // 2
            self._numbers[place : place + 1] = [numbers[:half], numbers[half:]]
            self._names[place : place + 1] = [names[:half], names[half:]]
            self._tops.insert(place, (numbers[half - 1], names[half - 1]))

    def remove(self, number: int, name: str) -> None:
        """Remove a pair that is in it."""
        place, position = self._find(number, name)
        del self._numbers[place][position], self._names[place][position]
        if self._tops and not self._numbers[place]:
            del self._numbers[place], self._names[place], self._tops[min(place, len(self._tops) - 1)]

    def between(self, least: float, most: float, piece: int = LONGEST) -> Iterator[tuple[list[int], list[str]]]:
        """The pairs with numbers from `least` to `most`, as lists of numbers and names of at most `piece` entries."""
        for place in range(bisect_left(self._tops, (least,)), len(self._numbers)):
            numbers, names = self._numbers[place], self._names[place]
            start, end = bisect_left(numbers, least), bisect_right(numbers, most)
            for first in range(start, end, piece):
                last = min(first + piece, end)
                yield numbers[first:last], names[first:last]
            if end < len(numbers):
                return

    def _find(self, number: int, name: str) -> tuple[int, int]:
        place = bisect_left(self._tops, (number, name))
        numbers = self._numbers[place]
        start = bisect_left(numbers, number)
        return place, bisect_left(self._names[place], name, start, bisect_right(numbers, number, start))


STEPS: Final = 256
"""steps of a device's memory by which nodes are grouped by their largest free share"""


class DeviceKind(NamedTuple):
    """The properties in which devices of one bucket agree, so that only their free share matters to an ask."""

    core: int  # percent free
    memory: int  # in the unit of shares
    bytes: int


class Bucket:
    """Devices of one kind that are used by one namespace, or by none.

    The rank of a device is the level that an ask leaves on it, negated if the largest free share is best: the lowest
    rank is best.

    Args:
        kind: of the devices.
        sign: 1 if the smallest free share is best (binpack), -1 if the largest is (spread).
    """

    def __init__(self, kind: DeviceKind, sign: int) -> None:
        self.kind: Final = kind
        self.of: Final[dict[str, tuple[int, ...]]] = {}
        """the distinct levels of each node, ascending"""
        self._sign: Final = sign
        self._levels: Final = SortedNames()
        self._largest: Final[dict[int, dict[str, None]]] = {}
        self._step: Final = level(max(1, kind.memory // STEPS))

    def put(self, name: str, levels: tuple[int, ...]) -> None:
        """Set the distinct levels of a node."""
        old = self.of.pop(name, ())
        for number in old:
            if number not in levels:
                self._levels.remove(self._sign * number, name)
        for number in levels:
            if number not in old:
                self._levels.add(self._sign * number, name)
        if old:
            del self._largest[old[-1] // self._step][name]
        if levels:
            self._largest.setdefault(levels[-1] // self._step, {})[name] = None
            self.of[name] = levels

    def first(self, need: int, count: int, wanted: Callable[[str], bool], limit: float) -> dict[str, int]:
        """The first `count` wanted nodes and their ranks, none above `limit`; the best first, and equal ones by name."""
        offset = self._sign * need
        least, most = (offset, limit + offset) if self._sign > 0 else (-inf, min(offset, limit + offset))
        hits: dict[str, int] = {}
        for numbers, names in self._levels.between(least, most):
            for number, name in zip(numbers, names, strict=True):
                if wanted(name) and name not in hits:
                    hits[name] = number - offset
                    if len(hits) == count:
                        return hits
        return hits

    def behind(self, need: int, rank: int, name: str, count: int) -> list[str]:
        """The first `count` nodes with a device behind this rank and name; one may have a better device elsewhere."""
        offset = self._sign * need
        most = inf if self._sign > 0 else offset
        least, nodes = rank + offset, list[str]()
        for numbers, names in self._levels.between(least, most, count + 1):
            nodes += [other for number, other in zip(numbers, names, strict=True) if number > least or other > name]
            if len(nodes) >= count:
                break
        return nodes[:count]

    def ranks(self, names: Iterable[str], need: int) -> dict[str, int]:
        """The best rank of each of the names that fits."""
        of = self.of
        known = filter(of.__contains__, names)
        if self._sign < 0:
            return {name: need - of[name][-1] for name in known if of[name][-1] >= need}
        return {name: levels[bisect_left(levels, need)] - need for name in known if (levels := of[name])[-1] >= need}

    def with_free_share(self, need: int) -> list[Collection[str]]:
        """All nodes with a level of at least `need`, in several collections."""
        step, rest = divmod(need, self._step)
        edge: Collection[str] = self._largest.get(step, {})
        if rest:
            edge = {name for name in edge if self.of[name][-1] >= need}
        return [edge, *(names for at, names in self._largest.items() if at > step)]


Reach = list[tuple[Bucket, int]]
"""buckets whose devices may serve an ask, and the level that it needs there"""


def best_ranked(reach: Reach, count: int, wanted: Callable[[str], bool]) -> list[str]:
    """The first `count` wanted nodes of all buckets; the best first, and equal ones by name."""
    best: dict[str, int] = {}
    limit = inf
    for bucket, need in reach:
        hits = bucket.first(need, count, wanted, limit)
        if not hits:
            continue
        for name, rank in best.items():
            hits[name] = min(rank, hits.get(name, rank))
        order = sorted(hits, key=lambda name: (hits[name], name))[:count]
        best = {name: hits[name] for name in order}
        limit = best[order[-1]] if len(best) == count else inf
    return list(best)


def with_free_share(reach: Reach) -> set[str]:
    """All nodes that fit."""
    return set[str]().union(*(part for bucket, need in reach for part in bucket.with_free_share(need)))


def best_ranks(names: Collection[str], reach: Reach) -> dict[str, int]:
    """The best rank of each of the names that fits."""
    best: dict[str, int] = {}
    for bucket, need in reach:
        more, fewer = bucket.ranks(names, need), best
        best, fewer = (more, fewer) if len(more) > len(fewer) else (fewer, more)
        for name, rank in fewer.items():
            if rank < best.get(name, inf):
                best[name] = rank
    return best

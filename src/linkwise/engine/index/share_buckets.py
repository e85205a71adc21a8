"""Buckets of the share index: nodes sorted by the free share of devices that are alike otherwise.

Bound: a change moves at most LONGEST entries, and the best nodes are read from the front of a bucket.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import merge
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

__all__ = [
    "LONGEST",
    "Bucket",
    "DeviceKind",
    "Pool",
    "Ranked",
    "Reach",
    "SortedNames",
    "all_ranked",
    "best_pool",
    "best_ranks",
    "with_free_share",
]

LONGEST: Final = 512
"""entries per list; a longer one is split in halves"""


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

    The rank of a device is the share that an ask leaves free on it, negated if the largest free share is best: the
    lowest rank is best.

    Args:
        kind: of the devices.
        sign: 1 if the smallest free share is best (binpack), -1 if the largest is (spread).
    """

    def __init__(self, kind: DeviceKind, sign: int) -> None:
        self.kind: Final = kind
        self.of: Final[dict[str, tuple[int, ...]]] = {}
        """the distinct free shares of each node, ascending"""
        self._sign: Final = sign
        self._rooms: Final = SortedNames()
        self._largest: Final[dict[int, dict[str, None]]] = {}
        self._step: Final = max(1, kind.memory // STEPS)

    def put(self, name: str, rooms: tuple[int, ...]) -> None:
        """Set the distinct free shares of a node."""
        old = self.of.pop(name, ())
        for room in old:
            if room not in rooms:
                self._rooms.remove(self._sign * room, name)
        for room in rooms:
            if room not in old:
                self._rooms.add(self._sign * room, name)
        if old:
            del self._largest[old[-1] // self._step][name]
        if rooms:
            self._largest.setdefault(rooms[-1] // self._step, {})[name] = None
            self.of[name] = rooms

    def ranked(self, share: int, piece: int = LONGEST) -> Iterator[Ranked]:
        """All ranks, the best first, and the nodes that have them, in pieces of at most `piece`."""
        offset = self._sign * share
        least, most = (offset, inf) if self._sign > 0 else (-inf, offset)
        for numbers, names in self._rooms.between(least, most, piece):
            yield [number - offset for number in numbers], names

    def ranks(self, names: Iterable[str], share: int) -> dict[str, int]:
        """The best rank of each of the names that fits."""
        of = self.of
        known = filter(of.__contains__, names)
        if self._sign < 0:
            return {name: share - of[name][-1] for name in known if of[name][-1] >= share}
        return {name: rooms[bisect_left(rooms, share)] - share for name in known if (rooms := of[name])[-1] >= share}

    def with_free_share(self, share: int) -> list[Collection[str]]:
        """All nodes with a free share of at least `share`, in several collections."""
        step, rest = divmod(share, self._step)
        edge: Collection[str] = self._largest.get(step, {})
        if rest:
            edge = {name for name in edge if self.of[name][-1] >= share}
        return [edge, *(names for at, names in self._largest.items() if at > step)]


Ranked = tuple[list[int], list[str]]
"""ascending ranks and the node of each; a node has one rank per distinct free share"""

Reach = list[tuple[Bucket, int]]
"""buckets whose devices may serve an ask, and the share that it needs there"""


class Pool(NamedTuple):
    """The nodes of the best ranks; those at rank `high` may be incomplete."""

    parts: list[Ranked]
    low: int = 0
    high: int = 0
    whole: bool = True
    """whether it has all nodes that fit"""

    def names(self) -> set[str]:
        """All nodes of the pool."""
        return set[str]().union(*(names for _, names in self.parts))

    def ranked(self, names: Collection[str]) -> list[str]:
        """The names that are in the pool, best first, once per rank."""
        pairs = chain.from_iterable(zip(*part, strict=True) for part in self.parts)
        return [name for _, name in sorted(pair for pair in pairs if pair[1] in names)]


def best_pool(reach: Reach, width: int, enough: int, plenty: int) -> Pool:
    """The nodes of the best ranks: at least `enough`, up to `plenty` if they are within `width` of the best."""
    count = plenty if width else enough
    # A few nodes of each bucket are usually enough; if one bucket has all the best, take `count` of it.
    for depth in (count // len(reach) + 16, count):
        parts, horizon = _best_of_each(reach, depth)
        order = sorted(chain.from_iterable(ranks for ranks, _ in parts))
        known = bisect_right(order, horizon)
        if known >= enough or horizon == inf:
            break
    if not order:
        return Pool([])
    equal = bisect_right(order, order[0] + width)
    high = order[min(known, max(enough, min(equal, plenty))) - 1]
    ends = [bisect_right(ranks, high) for ranks, _ in parts]
    best = [(ranks[:end], names[:end]) for (ranks, names), end in zip(parts, ends, strict=True)]
    return Pool(best, order[0], high, whole=horizon == inf and high == order[-1])


def _best_of_each(reach: Reach, depth: int) -> tuple[list[Ranked], float]:
    """The `depth` best of each bucket, and the rank up to which they are complete."""
    parts: list[Ranked] = []
    horizon = inf
    for bucket, share in reach:
        ranks: list[int] = []
        names: list[str] = []
        for piece in bucket.ranked(share, depth + 1):
            ranks += piece[0]
            names += piece[1]
            if len(ranks) > depth:
                horizon = min(horizon, ranks[depth - 1])
                break
        parts.append((ranks[:depth], names[:depth]))
    return parts, horizon


def all_ranked(reach: Reach, names: Collection[str]) -> Iterator[str]:
    """The names that fit, best first, once per rank; computed lazily."""
    return (name for _, name in merge(*(_pairs(bucket.ranked(share), names) for bucket, share in reach)))


def _pairs(pieces: Iterable[Ranked], names: Collection[str]) -> Iterator[tuple[int, str]]:
    for piece in pieces:
        yield from [pair for pair in zip(*piece, strict=True) if pair[1] in names]


def with_free_share(reach: Reach) -> set[str]:
    """All nodes that fit."""
    return set[str]().union(*(part for bucket, share in reach for part in bucket.with_free_share(share)))


def best_ranks(names: Collection[str], reach: Reach) -> dict[str, int]:
    """The best rank of each of the names that fits."""
    best: dict[str, int] = {}
    for bucket, share in reach:
        more, fewer = bucket.ranks(names, share), best
        best, fewer = (more, fewer) if len(more) > len(fewer) else (fewer, more)
        for name, rank in fewer.items():
            if rank < best.get(name, inf):
                best[name] = rank
    return best

"""Names sorted by numbers, in short lists, so that a change moves little.

Nodes by the rooms of devices that are alike in all else.
"""
# Joined from sorted_names, shelf: one docstring for all.

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
    "Kind",
    "Pool",
    "Ranked",
    "Reach",
    "Shelf",
    "SortedNames",
    "all_ranked",
    "left_over",
    "pooled",
    "with_room",
]

LONGEST: Final = 512
"""entries of a list; one that grows beyond is halved"""


class SortedNames:
    """Pairs of a number and a name, by number and then by name: how they came about does not show."""

    __slots__ = ("_names", "_numbers", "_tops")

    def __init__(self) -> None:
        # Beside each other and not as pairs: a part is taken of either without making or touching pairs.
        self._numbers: list[list[int]] = [[]]
        self._names: list[list[str]] = [[]]
        self._tops: list[tuple[int, str]] = []
        """no pair of a list comes after its top; the last list has none"""

    def add(self, number: int, name: str) -> None:
        """Put in a pair that is not there."""
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
        """Take out a pair that is there."""
        place, position = self._find(number, name)
        del self._numbers[place][position], self._names[place][position]
        if self._tops and not self._numbers[place]:
            del self._numbers[place], self._names[place], self._tops[min(place, len(self._tops) - 1)]

    def between(self, least: float, most: float, piece: int = LONGEST) -> Iterator[tuple[list[int], list[str]]]:
        """The pairs with numbers from the one to the other, in pieces of at most so many, numbers and names apart."""
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
"""of a device's memory, by which nodes are kept by their largest room"""


class Kind(NamedTuple):
    """What devices must agree in to differ for an ask by their room alone."""

    core: int  # percent left
    memory: int  # in the unit of shares
    bytes: int


class Shelf:
    """Devices of one kind that one owner has, or nobody.

    The rank of a device is what an ask leaves of it, negative where the most room is best: the lowest rank is best.

    Args:
        kind: of the devices.
        sign: 1 if the least room is best, -1 if the most is.
    """

    def __init__(self, kind: Kind, sign: int) -> None:
        self.kind: Final = kind
        self.of: Final[dict[str, tuple[int, ...]]] = {}
        """the different rooms of each node, ascending"""
        self._sign: Final = sign
        self._rooms: Final = SortedNames()
        self._largest: Final[dict[int, dict[str, None]]] = {}
        self._step: Final = max(1, kind.memory // STEPS)

    def put(self, name: str, rooms: tuple[int, ...]) -> None:
        """The node has these rooms now."""
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
        """All ranks from the best on, and the nodes that have them, in pieces of at most so many."""
        offset = self._sign * share
        least, most = (offset, inf) if self._sign > 0 else (-inf, offset)
        for numbers, names in self._rooms.between(least, most, piece):
            yield [number - offset for number in numbers], names

    def ranks(self, names: Iterable[str], share: int) -> dict[str, int]:
        """The best rank of each of the names that has room."""
        of = self.of
        known = filter(of.__contains__, names)
        if self._sign < 0:
            return {name: share - of[name][-1] for name in known if of[name][-1] >= share}
        return {name: rooms[bisect_left(rooms, share)] - share for name in known if (rooms := of[name])[-1] >= share}

    def with_room(self, share: int) -> list[Collection[str]]:
        """All nodes with that much room, in parts."""
        step, rest = divmod(share, self._step)
        edge: Collection[str] = self._largest.get(step, {})
        if rest:
            edge = {name for name in edge if self.of[name][-1] >= share}
        return [edge, *(names for at, names in self._largest.items() if at > step)]


Ranked = tuple[list[int], list[str]]
"""ranks, ascending, and the name of the node that has it beside each; a node has a rank for each of its rooms"""

Reach = list[tuple[Shelf, int]]
"""shelves whose devices may serve an ask, and the share it takes there"""


class Pool(NamedTuple):
    """The nodes of the best ranks; of those at `high` perhaps only some."""

    parts: list[Ranked]
    low: int = 0
    high: int = 0
    whole: bool = True
    """whether it is all there is"""

    def names(self) -> set[str]:
        """All of them."""
        return set[str]().union(*(names for _, names in self.parts))

    def ranked(self, names: Collection[str]) -> list[str]:
        """Those of the names that are in it, best first, once for each rank."""
        pairs = chain.from_iterable(zip(*part, strict=True) for part in self.parts)
        return [name for _, name in sorted(pair for pair in pairs if pair[1] in names)]


def pooled(reach: Reach, width: int, enough: int, plenty: int) -> Pool:
    """The nodes of the best ranks: enough, or plenty as long as all are within the width of the best."""
    count = plenty if width else enough
    # A little of each shelf is enough as a rule; where one has all the best, its part is too small.
    for depth in (count // len(reach) + 16, count):
        parts, horizon = _taken(reach, depth)
        order = sorted(chain.from_iterable(ranks for ranks, _ in parts))
        known = bisect_right(order, horizon)
        if known >= enough or horizon == inf:
            break
    if not order:
        return Pool([])
    equal = bisect_right(order, order[0] + width)
    high = order[min(known, max(enough, min(equal, plenty))) - 1]
    ends = [bisect_right(ranks, high) for ranks, _ in parts]
    kept = [(ranks[:end], names[:end]) for (ranks, names), end in zip(parts, ends, strict=True)]
    return Pool(kept, order[0], high, whole=horizon == inf and high == order[-1])


def _taken(reach: Reach, depth: int) -> tuple[list[Ranked], float]:
    """The best of each shelf, and the rank up to which none is missing."""
    parts: list[Ranked] = []
    horizon = inf
    for shelf, share in reach:
        ranks: list[int] = []
        names: list[str] = []
        for some in shelf.ranked(share, depth + 1):
            ranks += some[0]
            names += some[1]
            if len(ranks) > depth:
                horizon = min(horizon, ranks[depth - 1])
                break
        parts.append((ranks[:depth], names[:depth]))
    return parts, horizon


def all_ranked(reach: Reach, names: Collection[str]) -> Iterator[str]:
    """Those of the names that fit, best first, once for each rank; no more is worked out than is taken."""
    return (name for _, name in merge(*(_pairs(shelf.ranked(share), names) for shelf, share in reach)))


def _pairs(pieces: Iterable[Ranked], names: Collection[str]) -> Iterator[tuple[int, str]]:
    for piece in pieces:
        yield from [pair for pair in zip(*piece, strict=True) if pair[1] in names]


def with_room(reach: Reach) -> set[str]:
    """All nodes that fit."""
    return set[str]().union(*(part for shelf, share in reach for part in shelf.with_room(share)))


def left_over(names: Collection[str], reach: Reach) -> dict[str, int]:
    """The best rank of each of the names that fits."""
    best: dict[str, int] = {}
    for shelf, share in reach:
        more, fewer = shelf.ranks(names, share), best
        best, fewer = (more, fewer) if len(more) > len(fewer) else (fewer, more)
        for name, rank in fewer.items():
            if rank < best.get(name, inf):
                best[name] = rank
    return best

"""Best totals of all partitions of a machine's devices into sets of one size, by dynamic programming.

A partition of a free mask has full sets of `size` devices and at most one left-over set. Whether the left-over set
is still to be placed follows from the number of devices left, so one table keyed by mask alone serves every free
mask of a machine. The next set is always one that holds the lowest free device: that names every partition once
and keeps the masks that can occur few.
"""

from __future__ import annotations

from array import array
from functools import cache
from itertools import combinations, islice
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import MAX_DEVICES
from linkwise.topology.device_sets import bit_values, positions, products, sets_with, with_lowest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PartitionTable"]

_UNKNOWN: Final = -1.0


class PartitionTable:
    """`total(mask)`: the best total of a partition of the mask; filled where and when it is asked for."""

    __slots__ = ("_totals", "scores", "size")

    def __init__(self, scores: list[float], size: int) -> None:
        self.size: Final = size
        self.scores: Final = scores
        self._totals = array("d", [_UNKNOWN]) * len(scores)

    def total(self, mask: int) -> float:
        """The best total over all partitions of the mask, the left-over set included."""
        # rule 000.padding: the left-over set counts in the total.
        if mask.bit_count() <= self.size:
            return self.scores[mask]
        if self._totals[mask] == _UNKNOWN:
            self._fill(mask)
        return self._totals[mask]

    def first(self, mask: int) -> list[int]:
        """The first of the partitions with the best total, in the order of sorted positions."""
        sets = []
        while mask.bit_count() > self.size:
            chosen = self._first_set(mask)
            sets.append(chosen)
            mask ^= chosen
        return [*sets, mask]

    def first_with(self, mask: int, required: int) -> list[int]:
        """The same among the partitions in which one full set holds all of the required devices."""
        # rule 000.required: of all full sets that hold them, those that leave the best total.
        values = [(self.scores[full] + self.total(mask ^ full), full) for full in sets_with(mask, required, self.size)]
        best = max(values)[0]
        homes = {full for value, full in values if value == best}
        sets = []
        while homes:
            chosen, homes = self._first_set_beside(mask, homes)
            sets.append(chosen)
            mask ^= chosen
        return [*sets, *(self.first(mask) if mask else ())]

    def best_set(self, mask: int, required: int) -> int:
        """The set with the best score that holds the required devices, whatever it leaves."""
        return max(sets_with(mask, required, self.size), key=self.scores.__getitem__)

    def _first_set(self, mask: int) -> int:
        # rule 000.ties: a partition's sets are the first, by sorted positions, that keep the best total.
        best, scores = self.total(mask), self.scores
        found: list[int] = []
        for size in self._first_sizes(mask.bit_count()):
            rests = self._rests(mask.bit_count() - size)
            found += islice((s for s in with_lowest(mask, size) if scores[s] + rests[mask ^ s] == best), 1)
        return min(found, key=self._order)

    def _first_set_beside(self, mask: int, homes: set[int]) -> tuple[int, set[int]]:
        """The next set of a partition that keeps one of the homes, and the homes it leaves; none once it is one."""
        candidates = [found for size in self._first_sizes(mask.bit_count()) for found in with_lowest(mask, size)]
        for found in sorted(candidates, key=self._order):
            if found in homes:
                return found, set()
            kept = {home for home in homes if not home & found and self._keeps_best(found, mask ^ home)}
            if kept:
                return found, kept
        raise AssertionError(f"no partition of {mask:b} keeps any of {homes}")  # a home is a candidate at last

    def _keeps_best(self, found: int, mask: int) -> bool:
        return self.scores[found] + self.total(mask ^ found) == self.total(mask)

    def _first_sizes(self, count: int) -> tuple[int, ...]:
        """How many devices the next set may have: a full set's, or the left-over set's if that is to be placed."""
        left_over = count % self.size
        if count < self.size:
            return (left_over,)
        return (self.size, left_over) if left_over else (self.size,)

    def _order(self, found: int) -> tuple[int, ...]:
        """Sorted positions; a left-over set is padded at its end with positions after all others."""
        places = positions(found)
        return places + (MAX_DEVICES,) * (self.size - len(places))

    def _fill(self, free: int) -> None:
        """Work out the totals of all masks that can occur below this one, the smallest first."""
        scores, totals, bits = self.scores, self._totals, bit_values(free)
        for gone, count in _layers(len(bits), self.size):
            firsts = [(size, self._rests(count - size)) for size in self._first_sizes(count)]
            for mask in map(sum, combinations(bits[gone:], count)):  # bits are disjoint: their sum is their union
                if totals[mask] == _UNKNOWN:
                    found: list[float] = []
                    for size, rests in firsts:
                        for xs, ys in products(mask, size):
                            found += [scores[s] + rests[mask ^ s] for x in xs for y in ys for s in (x | y,)]
                    totals[mask] = max(found)

    def _rests(self, count: int) -> Sequence[float]:
        """Where the best total of `count` devices is read: that of one set is its score."""
        return self.scores if count <= self.size else self._totals


@cache
def _layers(count: int, size: int) -> tuple[tuple[int, int], ...]:
    """Which masks occur below one of `count` bits: (lowest bits gone, bits left), the smallest first.

    After j sets the j lowest devices are gone, whatever else is: each set took the lowest of its time.
    """
    left_over = count % size
    found = [(gone, count - gone * size) for gone in range(count // size)]
    if left_over:
        found += [(gone + 1, count - left_over - gone * size) for gone in range(count // size)]
    return tuple(sorted(((gone, left) for gone, left in found if left > size), key=lambda layer: layer[1]))

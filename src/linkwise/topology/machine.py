"""Machine: the pair scores of one machine, with tables of the score of every set and of the best partitions.

Bound: a table has one entry per set of devices, built with one addition each and cached by matrix.
"""

from __future__ import annotations

from array import array
from functools import cache
from itertools import chain, combinations, islice
from operator import add
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import MAX_DEVICES, matrix_key, whole_matrix
from linkwise.speed.caches import CachedMachine, recall
from linkwise.topology.device_sets import bit_values, positions, products, sets_with, with_lowest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.topology import Matrix

__all__ = ["LARGEST_EXACT", "Machine", "PartitionTable", "machine_of", "machine_with", "pair_scores", "set_scores"]


LARGEST_EXACT: Final = 16
"""The most devices for which tables are built; they have an entry per set of devices."""

_SCORE: Final = 32  # bytes of a float in a list
_TOTAL: Final = 8  # bytes of a float in an array

_UNKNOWN: Final = -1.0  # no total is negative, because no score is; None would not fit into an array of floats


class Machine(CachedMachine):
    """Symmetric pair scores and the tables computed from them."""

    __slots__ = ("_scores", "_tables", "pairs")

    def __init__(self, pairs: Matrix) -> None:
        super().__init__(len(pairs))
        self.pairs: Final = pairs
        self._scores: list[float] = []
        self._tables: dict[int, PartitionTable] = {}

    def scores(self) -> list[float]:
        """The score of every set, by mask."""
        if not self._scores:
            self._scores = set_scores(self.pairs)
            self.spend(_SCORE << len(self.pairs))
        return self._scores

    def table(self, size: int) -> PartitionTable:
        """The best totals of partitions into sets of this size."""
        if size not in self._tables:
            scores = pair_scores(self.pairs) if size == 2 else self.scores()
            self._tables[size] = PartitionTable(scores, size)
            self.spend((_TOTAL + 8 * (size == 2)) << len(self.pairs))
        return self._tables[size]


def machine_of(rows: Sequence[Sequence[object]], what: str = "scores") -> Machine:
    """The machine with these pair scores; TopologyError, naming row and column, if one is invalid."""
    return recall(Machine, matrix_key(rows, what), lambda: Machine(_slower_direction(_plain(whole_matrix(rows, what)))))


def machine_with(pairs: Matrix) -> Machine:
    """`machine_of` for a matrix that is known to be valid, which is not checked again: scores that we computed."""
    return recall(Machine, pairs, lambda: Machine(_slower_direction(_plain(pairs))))


def _plain(matrix: Matrix) -> Matrix:
    """The matrix with numbers of one type, int if all are integers: equal matrices must give equal answers."""
    kinds = set(map(type, chain.from_iterable(matrix)))
    if kinds <= {int}:
        return matrix
    whole = all(float(value).is_integer() for value in chain.from_iterable(matrix))
    return tuple(tuple(map(int if whole else float, row)) for row in matrix)


def _slower_direction(matrix: Matrix) -> Matrix:
    """The matrix with the smaller value of both directions for every pair."""
    columns = tuple(zip(*matrix, strict=True))
    if columns == matrix:
        return matrix
    return tuple(tuple(map(min, row, column)) for row, column in zip(matrix, columns, strict=True))


def set_scores(pairs: Matrix) -> list[float]:
    """Score of mask m at index m, for all 2^n masks, with one addition per mask.

    The score of a set with last device i is the set's without i plus what i adds, for which a table is built by doubling
    with every device before i.
    """
    scores = [0.0]
    for i, row in enumerate(pairs):
        added = [0.0]
        for value in row[:i]:
            added += [total + value for total in added]
        scores += map(add, scores, added)
    return scores


def pair_scores(pairs: Matrix) -> list[float]:
    """`set_scores` for sets of at most two devices, 0 for all others: all that partitions into pairs need."""
    scores = [0.0] * (1 << len(pairs))
    for i, row in enumerate(pairs):
        for j, value in enumerate(row[:i]):
            scores[1 << i | 1 << j] = value
    return scores


class PartitionTable:
    """The best total of all partitions into sets of one size, by mask, filled on demand by dynamic programming.

    A partition of a free mask has full sets of `size` devices and at most one left-over set. Whether the left-over set is
    still to be placed follows from the number of devices left, so one table keyed by mask serves every free mask of a
    machine. Bound: the next set always contains the lowest free device, which enumerates every partition once and keeps
    the number of masks small.
    """

    __slots__ = ("_totals", "scores", "size")

    def __init__(self, scores: list[float], size: int) -> None:
        self.size: Final = size
        self.scores: Final = scores
        self._totals = array("d", [_UNKNOWN]) * len(scores)

    def total(self, mask: int) -> float:
        """The best total of all partitions of the mask, including the left-over set."""
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
        """The first partition with the best total in which one full set contains all required devices."""
        # rule 000.required: of all full sets that contain them, those that leave the best total.
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
        """The set with the best score that contains the required devices, regardless of the rest."""
        return max(sets_with(mask, required, self.size), key=self.scores.__getitem__)

    def _first_set(self, mask: int) -> int:
        # rule 000.ties: of partitions with the best total the first by sorted positions.
        best, scores = self.total(mask), self.scores
        firsts: list[int] = []
        for size in self._first_sizes(mask.bit_count()):
            rests = self._rests(mask.bit_count() - size)
            firsts += islice((s for s in with_lowest(mask, size) if scores[s] + rests[mask ^ s] == best), 1)
        return min(firsts, key=self._order)

    def _first_set_beside(self, mask: int, homes: set[int]) -> tuple[int, set[int]]:
        """The next set of a best partition with one of the homes, and the homes still possible; none if it is one."""
        candidates = [chosen for size in self._first_sizes(mask.bit_count()) for chosen in with_lowest(mask, size)]
        for chosen in sorted(candidates, key=self._order):
            if chosen in homes:
                return chosen, set()
            possible = {home for home in homes if not home & chosen and self._keeps_best(chosen, mask ^ home)}
            if possible:
                return chosen, possible
        raise AssertionError(f"no partition of {mask:b} contains any of {homes}")  # a home is always a candidate

    def _keeps_best(self, chosen: int, mask: int) -> bool:
        return self.scores[chosen] + self.total(mask ^ chosen) == self.total(mask)

    def _first_sizes(self, count: int) -> tuple[int, ...]:
        """The possible sizes of the next set: a full set, or the left-over set if it is still to be placed."""
        left_over = count % self.size
        if count < self.size:
            return (left_over,)
        return (self.size, left_over) if left_over else (self.size,)

    def _order(self, chosen: int) -> tuple[int, ...]:
        """Sort key: sorted positions; a left-over set is padded with positions after all others."""
        members = positions(chosen)
        return members + (MAX_DEVICES,) * (self.size - len(members))

    def _fill(self, free: int) -> None:
        """Compute the totals of all masks that can occur below this one, the smallest first."""
        scores, totals, bits = self.scores, self._totals, bit_values(free)
        for gone, count in _layers(len(bits), self.size):
            firsts = [(size, self._rests(count - size)) for size in self._first_sizes(count)]
            for mask in map(sum, combinations(bits[gone:], count)):  # bits are disjoint: their sum is their union
                if totals[mask] == _UNKNOWN:
                    candidates: list[float] = []
                    for size, rests in firsts:
                        for xs, ys in products(mask, size):
                            candidates += [scores[s] + rests[mask ^ s] for x in xs for y in ys for s in (x | y,)]
                    totals[mask] = max(candidates)

    def _rests(self, count: int) -> Sequence[float]:
        """The table with the best totals of `count` devices: a single set's total is its score."""
        return self.scores if count <= self.size else self._totals


@cache
def _layers(count: int, size: int) -> tuple[tuple[int, int], ...]:
    """The masks that occur below one of `count` bits, as (lowest bits gone, bits left), the smallest first.

    After j sets at least the j lowest devices are gone, because each set took the lowest that was left.
    """
    left_over = count % size
    layers = [(gone, count - gone * size) for gone in range(count // size)]
    if left_over:
        layers += [(gone + 1, count - left_over - gone * size) for gone in range(count // size)]
    return tuple(sorted(((gone, left) for gone, left in layers if left > size), key=lambda layer: layer[1]))

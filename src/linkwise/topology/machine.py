"""Machine: the pair scores of one machine, with tables of the score of every set and of the best partitions.

Bound: a table has one entry per set of devices, built with one addition each and cached by matrix.
"""

from __future__ import annotations

from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import matrix_key, whole_matrix
from linkwise.speed.caches import CachedMachine, recall
from linkwise.topology.partition_table import PartitionTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.topology import Matrix

__all__ = ["LARGEST_EXACT", "Machine", "machine_of", "pair_scores", "set_scores"]

LARGEST_EXACT: Final = 16
"""The most devices for which tables are built; they have an entry per set of devices."""

_SCORE: Final = 32  # bytes of a float in a list
_TOTAL: Final = 8  # bytes of a float in an array


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

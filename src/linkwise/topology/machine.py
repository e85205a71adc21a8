"""The pair scores of one machine, with the tables that choosing by link kinds needs.

The score of every set of devices at once: the sum over its pairs, by bit mask.
"""
# Joined from machine, set_scores: one docstring for all.

from __future__ import annotations

from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import matrix_key, whole_matrix
from linkwise.speed.caches import Kept, recall
from linkwise.topology.partition_table import PartitionTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.topology import Matrix

__all__ = ["LARGEST_EXACT", "Machine", "machine_of", "pair_scores", "set_scores"]

LARGEST_EXACT: Final = 16
"""Devices up to which tables are made; they have an entry for every set of devices."""

_SCORE: Final = 32  # bytes of a float in a list
_TOTAL: Final = 8  # bytes of a float in an array


class Machine(Kept):
    """Symmetric pair scores, and what was worked out from them."""

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
    """The machine with these pair scores; TopologyError, naming row and column, if they make no sense."""
    return recall(Machine, matrix_key(rows, what), lambda: Machine(_slower_direction(_plain(whole_matrix(rows, what)))))


def _plain(matrix: Matrix) -> Matrix:
    """The same with one type of number, whole where all are: matrices that are equal must give equal answers."""
    kinds = set(map(type, chain.from_iterable(matrix)))
    if kinds <= {int}:
        return matrix
    whole = all(float(value).is_integer() for value in chain.from_iterable(matrix))
    return tuple(tuple(map(int if whole else float, row)) for row in matrix)


def _slower_direction(matrix: Matrix) -> Matrix:
    """The same with the smaller value of both directions for every pair."""
    columns = tuple(zip(*matrix, strict=True))
    if columns == matrix:
        return matrix
    return tuple(tuple(map(min, row, column)) for row, column in zip(matrix, columns, strict=True))


def set_scores(pairs: Matrix) -> list[float]:
    """Score of mask m at index m, for all 2^n masks; one addition a mask.

    Sets whose last device is i are the sets without it, plus what i adds: a sum of its row that
    doubles with every device before i.
    """
    scores = [0.0]
    for i, row in enumerate(pairs):
        added = [0.0]
        for value in row[:i]:
            added += [total + value for total in added]
        scores += map(add, scores, added)
    return scores


def pair_scores(pairs: Matrix) -> list[float]:
    """The same for sets of two devices or fewer, and nothing for others: all that partitions into pairs need."""
    scores = [0.0] * (1 << len(pairs))
    for i, row in enumerate(pairs):
        for j, value in enumerate(row[:i]):
            scores[1 << i | 1 << j] = value
    return scores

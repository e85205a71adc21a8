"""The bandwidths of one machine, mended, with the tables that choosing by bottleneck needs.

The bottleneck of every set of devices at once: its slowest pair, by bit mask.
"""
# Joined from fabric, set_bottlenecks: one docstring for all.

from __future__ import annotations

from array import array
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import matrix_key, square, whole_matrix
from linkwise.speed.caches import Kept, recall
from linkwise.topology.device_sets import positions, sets_with
from linkwise.topology.link_bandwidth import link_value
from linkwise.topology.residual import SIZES, Packing, neighbours
from linkwise.topology.sample_cleaning import CleanSamples, clean_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix

__all__ = ["NEAR", "Fabric", "fabric_of", "set_bottlenecks"]

NEAR: Final = 0.95
"""what is worth at least this part of the best counts as equal to it"""
_BOTTLENECK: Final = 8  # bytes of a float in an array


class Fabric(Kept):
    """Mended pair values of one machine."""

    __slots__ = ("_bottlenecks", "_packings", "suspects", "values")

    def __init__(self, mended: CleanSamples) -> None:
        super().__init__(len(mended.values))
        self.values: Final = mended.values
        self.suspects: Final = mended.suspects
        self._bottlenecks: Sequence[float] = ()
        self._packings: dict[int, Packing] = {}

    def bottleneck(self, mask: int) -> float:
        """The slowest pair of a set; a set without pairs has no slowest one: infinite."""
        # rule 001.bottleneck: a set is as good as its slowest pair.
        return min([self.values[i][j] for i, j in combinations(positions(mask), 2)], default=inf)

    def bottlenecks(self) -> Sequence[float]:
        """The bottleneck of every set, by mask; only for machines small enough for tables."""
        if not self._bottlenecks:
            self._bottlenecks = set_bottlenecks(self.values)
            self.spend(_BOTTLENECK << len(self.values))
        return self._bottlenecks

    def best_bottleneck(self, free: int, size: int, required: int = 0) -> float:
        """The largest bottleneck of any set of `size` free devices that holds the required ones."""
        table = self.bottlenecks()
        return max([table[found] for found in sets_with(free, required, size)])

    def left(self, mask: int) -> tuple[int, ...]:
        """How many good sets of each size in SIZES these devices could still make, side by side."""
        return tuple(self.good_sets(mask, size) for size in SIZES)

    def good_sets(self, mask: int, size: int) -> int:
        """How many good sets of one size these devices could make: within 5 % of the empty machine's best."""
        if size > mask.bit_count():
            return 0
        if size not in self._packings:
            best = self.best_bottleneck((1 << len(self.values)) - 1, size)
            self._packings[size] = Packing(neighbours(self.values, NEAR * best), size)
            self.spend(1 << len(self.values))
        return self._packings[size].count(mask)


def fabric_of(samples: Sequence[Sequence[object]], links: Sequence[Sequence[Link]] = ()) -> Fabric:
    """The fabric of a machine by its samples, or by its link kinds where nothing was measured.

    Raises:
        TopologyError: the samples are not square or hold what is no quantity; the text names row and column.
    """
    key = (matrix_key(samples, "bandwidth"), tuple(map(tuple, links)))
    return recall(Fabric, key, lambda: _fabric(whole_matrix(samples, "bandwidth"), key[1]))


def _fabric(samples: Matrix, links: tuple[tuple[Link, ...], ...]) -> Fabric:
    if links:
        square(links, "links", len(samples) or None)
    if not samples:
        slower = zip(links, zip(*links, strict=True), strict=True)
        samples = tuple(tuple(map(link_value, map(min, row, column))) for row, column in slower)
    return Fabric(clean_samples(tuple(tuple(map(float, row)) for row in samples), links))


def set_bottlenecks(values: Matrix) -> array[float]:
    """Bottleneck of mask m at index m, for all 2^n masks; infinite where there is no pair.

    Sets whose last device is i are the sets without it, or what i has to them at worst: the smallest of its row, which
    is worked out by doubling with every device before i.
    """
    found = [inf]
    for i, row in enumerate(values):
        worst = [inf]
        for value in row[:i]:
            worst += [min(slowest, value) for slowest in worst]
        found += [min(other, one) for one, other in zip(found, worst, strict=True)]
    return array("d", found)

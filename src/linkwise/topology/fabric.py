"""Fabric: the cleaned bandwidths of one machine, with tables of the bottleneck of every set of devices.

Bound: a table has one entry per set, built with one comparison each and cached by matrix.
"""

from __future__ import annotations

from array import array
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import matrix_key, square, whole_matrix
from linkwise.speed.caches import CachedMachine, recall
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
"""values of at least this fraction of the best count as equal to it"""
_BOTTLENECK: Final = 8  # bytes of a float in an array


class Fabric(CachedMachine):
    """Cleaned pair values of one machine."""

    __slots__ = ("_bottlenecks", "_packings", "suspects", "values")

    def __init__(self, samples: CleanSamples) -> None:
        super().__init__(len(samples.values))
        self.values: Final = samples.values
        self.suspects: Final = samples.suspects
        self._bottlenecks: Sequence[float] = ()
        self._packings: dict[int, Packing] = {}

    def bottleneck(self, mask: int) -> float:
        """The value of the slowest pair of a set; infinite for a set without pairs."""
        # rule 001.bottleneck: a set is as fast as its slowest pair.
        return min([self.values[i][j] for i, j in combinations(positions(mask), 2)], default=inf)

    def bottlenecks(self) -> Sequence[float]:
        """The bottleneck of every set, by mask; only for machines of at most LARGEST_EXACT devices."""
        if not self._bottlenecks:
            self._bottlenecks = set_bottlenecks(self.values)
            self.spend(_BOTTLENECK << len(self.values))
        return self._bottlenecks

    def best_bottleneck(self, free: int, size: int, required: int = 0) -> float:
        """The largest bottleneck of any set of `size` free devices with the required ones."""
        table = self.bottlenecks()
        return max([table[chosen] for chosen in sets_with(free, required, size)])

    def left(self, mask: int) -> tuple[int, ...]:
        """The number of disjoint good sets of each size in SIZES that these devices contain."""
        return tuple(self.good_sets(mask, size) for size in SIZES)

    def good_sets(self, mask: int, size: int) -> int:
        """The number of disjoint good sets of one size, each within 5% of the best on the empty machine."""
        if size > mask.bit_count():
            return 0
        if size not in self._packings:
            best = self.best_bottleneck((1 << len(self.values)) - 1, size)
            self._packings[size] = Packing(neighbours(self.values, NEAR * best), size)
            self.spend(1 << len(self.values))
        return self._packings[size].count(mask)


def fabric_of(samples: Sequence[Sequence[object]], links: Sequence[Sequence[Link]] = ()) -> Fabric:
    """The fabric of a machine by its samples, or by its link kinds without samples.

    Raises:
        TopologyError: the samples are not square or have an invalid value; the text names row and column.
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
    """Bottleneck of mask m at index m, for all 2^n masks; infinite for sets without pairs.

    The bottleneck of a set with last device i is the smaller of the set's without i and of i's slowest pair with it,
    for which a table is built by doubling with every device before i.
    """
    bottlenecks = [inf]
    for i, row in enumerate(values):
        slowest_to_i = [inf]
        for value in row[:i]:
            slowest_to_i += [min(slowest, value) for slowest in slowest_to_i]
        bottlenecks += [min(other, one) for one, other in zip(bottlenecks, slowest_to_i, strict=True)]
    return array("d", bottlenecks)

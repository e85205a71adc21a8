"""Fabric: the cleaned bandwidths of one machine, with tables of the bottleneck of every set of devices.

Bound: a table has one entry per set, built with one comparison each and cached by matrix.
"""

from __future__ import annotations

from array import array
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final, cast

from linkwise.model.topology import matrix_key, square, whole_matrix
from linkwise.speed.caches import CachedMachine, recall
from linkwise.topology.device_sets import positions, sets_with
from linkwise.topology.link_bandwidth import link_value
from linkwise.topology.machine import LARGEST_EXACT, set_scores
from linkwise.topology.residual import SIZES, Packing, neighbours
from linkwise.topology.sample_cleaning import CleanSamples, clean_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix

__all__ = ["LARGEST_LOSS", "NEAR", "NO_LOSS", "Fabric", "fabric_of", "set_bottlenecks"]

NEAR: Final = 0.95
"""values of at least this fraction of the best count as equal to it"""
NO_LOSS: Final = (0,) * len(SIZES)
LARGEST_LOSS: Final = (1 << 20) - 1
"""GB/s; more than all pairs of sixteen devices with the fastest links have together"""
WHOLE: Final = 8
"""devices of the smallest set that is worth something without any link data, because it is often a whole machine"""
_BOTTLENECK: Final = 8  # bytes of a float in an array


class Fabric(CachedMachine):
    """Cleaned pair values of one machine."""

    __slots__ = ("_bottlenecks", "_packings", "_worths", "suspects", "values")

    def __init__(self, samples: CleanSamples) -> None:
        super().__init__(len(samples.values))
        self.values: Final = samples.values
        self.suspects: Final = samples.suspects
        self._bottlenecks: Sequence[float] = ()
        self._packings: dict[int, Packing] = {}
        self._worths: dict[int, int] = {}

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

    def lost(self, free: int, taken: int) -> tuple[int, ...]:
        """The GB/s of the good sets of each size in SIZES that are lost with the taken devices; none if there are many."""
        if len(self.values) > LARGEST_EXACT:
            return NO_LOSS
        fewer = zip(SIZES, self.left(free), self.left(free & ~taken), strict=True)
        return tuple(
            [min(LARGEST_LOSS, (was - now) * self._worth(size)) if was > now else 0 for size, was, now in fewer]
        )

    def losses(self, free: int) -> dict[int, tuple[int, ...]]:
        """The loss with each of the free devices, cached by free mask."""
        known = cast("dict[int, tuple[int, ...]] | None", self.remembered(free))
        if known is None:
            known = {one: self.lost(free, 1 << one) for one in positions(free)}
            self.remember(free, known)
        return known

    def _worth(self, size: int) -> int:
        """The sum of the pairs of the best good set of the empty machine, in GB/s; at least 1 of a set that may be a machine."""
        if size not in self._worths:
            sums, table = set_scores(self.values), self.bottlenecks()
            sets = list(sets_with((1 << len(self.values)) - 1, 0, size))
            enough = NEAR * max(map(table.__getitem__, sets))
            self._worths[size] = max(
                int(size >= WHOLE), round(max(sums[chosen] for chosen in sets if table[chosen] >= enough))
            )
        return self._worths[size]


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

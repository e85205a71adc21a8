"""The bandwidths of one machine, mended, with the tables that choosing by bottleneck needs."""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import square, whole_matrix
from linkwise.topology.bits import positions
from linkwise.topology.cliques import has_clique, joined, neighbours
from linkwise.topology.link_value import link_value
from linkwise.topology.memory import Kept, recall
from linkwise.topology.mend import Mended, mend
from linkwise.topology.residual import SIZES, Packing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.link import Link

__all__ = ["NEAR", "Fabric", "fabric_of"]

NEAR: Final = 0.95
"""what is worth at least this part of the best counts as equal to it"""


class Fabric(Kept):
    """Mended pair values of one machine."""

    __slots__ = ("_packings", "suspects", "values")

    def __init__(self, mended: Mended) -> None:
        super().__init__()
        self.values: Final = mended.values
        self.suspects: Final = mended.suspects
        self._packings: dict[int, Packing] = {}

    def bottleneck(self, mask: int) -> float:
        """The slowest pair of a set; a set without pairs has no slowest one: infinite."""
        # rule 001.bottleneck: a set is as good as its slowest pair.
        return min([self.values[i][j] for i, j in combinations(positions(mask), 2)], default=inf)

    def best_bottleneck(self, free: int, size: int, required: int = 0) -> float:
        """The largest bottleneck of any set of `size` free devices that holds the required ones."""
        members, wanted = positions(required), size - required.bit_count()
        values = sorted({self.values[i][j] for i, j in combinations(positions(free), 2)})
        if size < 2:
            return inf
        low, high = (
            0,
            len(values) - 1,
        )  # the smallest value always has a set: all devices are neighbours at it
        while low < high:
            middle = (low + high + 1) // 2
            graph = neighbours(self.values, values[middle])
            near = joined(graph, members, free & ~required)
            if near is not None and has_clique(graph, near, wanted):
                low = middle
            else:
                high = middle - 1
        return values[low]

    def left(self, mask: int) -> tuple[int, ...]:
        """How many good sets of each size in SIZES these devices could still make, side by side."""
        return tuple(self.packing(size).count(mask) if size <= len(self.values) else 0 for size in SIZES)

    def packing(self, size: int) -> Packing:
        """The good sets of one size: those within 5 % of the best on this machine when it is empty."""
        if size not in self._packings:
            best = self.best_bottleneck((1 << len(self.values)) - 1, size)
            self._packings[size] = Packing(neighbours(self.values, NEAR * best), size)
            self.spend(1 << len(self.values))
        return self._packings[size]


def fabric_of(samples: Sequence[Sequence[float]], links: Sequence[Sequence[Link]] = ()) -> Fabric:
    """The fabric of a machine by its samples, or by its link kinds where nothing was measured.

    Raises:
        TopologyError: the samples are not square or hold what is no quantity; the text names row and column.
    """
    key = (tuple(map(tuple, samples)), tuple(map(tuple, links)))
    return recall(Fabric, key, lambda: _fabric(*key))


def _fabric(samples: tuple[tuple[float, ...], ...], links: tuple[tuple[Link, ...], ...]) -> Fabric:
    if links:
        square(links, "links", len(samples) or None)
    if not samples:
        samples = tuple(tuple(map(link_value, row)) for row in links)
    return Fabric(mend(whole_matrix(samples, "bandwidth"), links))

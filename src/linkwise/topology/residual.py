"""Residual: the good sets of 16, 8, 4 and 2 devices that a choice leaves to other pods.

A set is good if its bottleneck is at least 95% of the best such set of the empty machine. A set's bottleneck is at least
t exactly if the set is a clique in the graph of pairs of at least t, so good sets are counted by packing cliques.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.topology.device_sets import positions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.model.topology import Matrix

__all__ = ["SIZES", "Packing", "cliques", "neighbours"]

SIZES: Final = (16, 8, 4, 2)
"""the sizes of sets that other pods may request, the largest first"""

_UNKNOWN: Final = 255
_SMALL: Final = 8  # up to this number of devices a search is as fast as a split into components


class Packing:
    """Counter of disjoint good sets of one size, cached by mask."""

    __slots__ = ("_graph", "_known", "_size", "_twins")

    def __init__(self, graph: Graph, size: int) -> None:
        self._graph = graph
        self._size = size
        self._twins = _twins(graph)
        self._known = bytearray([_UNKNOWN]) * (1 << len(graph))

    def count(self, mask: int) -> int:
        """The largest number of disjoint good sets of these devices."""
        if mask.bit_count() < self._size:
            return 0
        for alike, firsts in self._twins:
            mask = mask & ~alike | firsts[(mask & alike).bit_count()]
        if self._known[mask] == _UNKNOWN:
            core = self._core(mask)
            parts = self._parts(core) if core.bit_count() > _SMALL else [core]
            self._known[mask] = sum(map(self._count_part, parts))
        return self._known[mask]

    def _core(self, mask: int) -> int:
        """The mask without devices that have too few neighbours to be in any good set."""
        graph, fewest = self._graph, self._size - 1
        while True:
            poor = [1 << i for i in positions(mask) if (graph[i] & mask).bit_count() < fewest]
            if not poor:
                return mask
            mask ^= sum(poor)

    def _parts(self, mask: int) -> list[int]:
        """The connected components of the mask, which are packed independently."""
        parts = []
        while mask:
            part, reached = 0, mask & -mask
            while reached != part:
                part = reached
                for bit, near in self._members(mask):
                    if bit & part:
                        reached |= near
            parts.append(part)
            mask &= ~part
        return parts

    def _count_part(self, mask: int) -> int:
        most = mask.bit_count() // self._size
        if not most:
            return 0
        low = mask & -mask
        near = self._graph[low.bit_length() - 1] & mask
        best = 0
        for rest in cliques(self._graph, near, self._size - 1):
            best = max(best, 1 + self.count(mask ^ low ^ rest))
            if best == most:
                return most
        return max(best, self.count(mask ^ low))

    def _members(self, mask: int) -> list[tuple[int, int]]:
        """Every device of the mask with its neighbours in the mask."""
        return [(1 << i, self._graph[i] & mask) for i in positions(mask)]


def _twins(graph: Graph) -> list[tuple[int, tuple[int, ...]]]:
    """Interchangeable devices, which have the same neighbours: their mask, and the first k of them by k."""
    alike: dict[int, list[int]] = {}
    for i, near in enumerate(graph):
        alike.setdefault(near | 1 << i, []).append(1 << i)
    return [
        (sum(bits), tuple(sum(bits[:count]) for count in range(len(bits) + 1)))
        for bits in alike.values()
        if len(bits) > 1
    ]


Graph = tuple[int, ...]


def neighbours(values: Matrix, threshold: float) -> Graph:
    """For every device, the mask of devices whose pair with it reaches the threshold."""
    return tuple(
        sum(1 << j for j, value in enumerate(row) if value >= threshold and j != i) for i, row in enumerate(values)
    )


def cliques(graph: Graph, candidates: int, size: int) -> Iterator[int]:
    """All cliques of `size` candidates, in lexicographic order of positions."""
    if size == 0:
        yield 0
        return
    while candidates.bit_count() >= size:
        low = candidates & -candidates
        candidates ^= low
        for rest in cliques(graph, candidates & graph[low.bit_length() - 1], size - 1):
            yield low | rest

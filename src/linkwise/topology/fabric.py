"""Fabric: the cleaned bandwidths of one machine, the bottleneck of every set of devices, and the loss of good sets.

A set of 16, 8, 4 or 2 devices is good if its bottleneck is at least 95% of the best such set of the empty machine. A set's
bottleneck is at least t exactly if the set is a clique in the graph of pairs of at least t, so the good sets that a choice
leaves to other pods are counted by packing cliques; those that it takes from them are its loss. Bound: a table has one
entry per set, built with one comparison each and cached by matrix.
"""

from __future__ import annotations

from array import array
from functools import cache
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final, cast

from linkwise.model.topology import MAX_DEVICES, matrix_key, square, whole_matrix
from linkwise.speed.caches import CachedMachine, cached_by_identity, recall
from linkwise.topology.canonical import CleanSamples, canonical_of, clean_samples
from linkwise.topology.device_sets import mask_of, positions, sets_with
from linkwise.topology.link_values import link_value
from linkwise.topology.machine import LARGEST_EXACT, set_scores

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from linkwise.model.link import Link
    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix, Topology

__all__ = [
    "LARGEST_LOSS",
    "NEAR",
    "NO_LOSS",
    "SIZES",
    "Fabric",
    "Packing",
    "by_least_loss",
    "cliques",
    "fabric_of",
    "least_lost",
    "loss",
    "losses",
    "neighbours",
    "position_losses",
    "set_bottlenecks",
]


Graph = tuple[int, ...]
"""by device, the mask of its neighbours"""
NEAR: Final = 0.95
"""values of at least this fraction of the best count as equal to it: measurements differ by as much from run to run"""
SIZES: Final = (16, 8, 4, 2)
"""the sizes of sets that other pods may request, the largest first: those are harder to find again"""
NO_LOSS: Final = (0,) * len(SIZES)
LARGEST_LOSS: Final = (1 << 20) - 1
"""GB/s; more than all pairs of sixteen devices with the fastest links have together"""
WHOLE: Final = 8
"""devices of the smallest set that is worth something without any link data, because it is often a whole machine"""
TYPES: Final = 32
"""types of machines that are found without hashing their matrix"""
_BOTTLENECK: Final = 8  # bytes of a float in an array
_UNKNOWN: Final = 255  # in a byte; no count is as large, because machines with tables have at most 16 devices
_SMALL: Final = 8  # up to this number of devices a search is as fast as a split into components


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
            # One mask stands for all that differ by twins only: a switched machine has a handful instead of 65,536.
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


def loss(node: Node, devices: Iterable[str]) -> tuple[int, ...]:
    """The loss of other pods if some of the node's free devices are taken, per size, the largest first.

    In GB/s of good sets. A set is worth the sum of its pairs, by link kind or by class of measured bandwidths, so losses
    compare between machines: a device of a PCIe machine costs other pods less than one of an NVLink machine, a device
    without a good partner less than half a pair, and a device of a machine in use less than the first one of an empty
    machine. Without link data small sets are worth nothing, because any others serve as well; sets of 8 and 16 are worth
    next to nothing, but they count, because they are often a whole machine. A machine with too many devices for an exact
    search has nothing measurable to lose.
    """
    values, places = _links_of(node)
    free = mask_of(places[device.id] for device in node.free() if device.id in places)
    return _fabric_of(values).lost(free, mask_of(places[device] for device in devices if device in places))


def losses(node: Node) -> dict[str, tuple[int, ...]]:
    """The loss of other pods for each of the node's free devices."""
    values, places = _links_of(node)
    free = {places[device.id]: device.id for device in node.free() if device.id in places}
    return {free[place]: lost for place, lost in _fabric_of(values).losses(mask_of(free)).items()}


def least_lost(topology: Topology, scores: Matrix, free: Collection[int], nics: int = 0) -> int:
    """The free device that a request for one takes; of equal losses one of `nics`, the mask of those with a NIC."""
    # rule 000.one, 002.pack: the least loss of good sets, then the smallest sum of link scores to the other free devices.
    lost = position_losses(topology, free)
    least = min(lost.values())
    equals = [one for one in sorted(free) if lost[one] == least]
    if nics:
        equals = [one for one in equals if nics >> one & 1] or equals
    if len(equals) == 1:
        return equals[0]
    return min(equals, key=lambda one: sum([scores[one][other] for other in free if other != one]))


def by_least_loss(topology: Topology, scores: Matrix, free: Collection[int]) -> list[int]:
    """The free devices in the order in which `least_lost` prefers them."""
    lost = position_losses(topology, free)
    links = {one: sum([scores[one][other] for other in free if other != one]) for one in free}
    return sorted(free, key=lambda one: (lost[one], links[one], one))


def position_losses(topology: Topology, free: Collection[int]) -> Mapping[int, tuple[int, ...]]:
    """The loss of other pods for each of the free positions of a machine."""
    return _fabric_of(canonical_of(topology)).losses(mask_of(free))


def _links_of(node: Node) -> tuple[Matrix, dict[str, int]]:
    """The values of all pairs, and the position of every device that they tell of."""
    values = canonical_of(node.topology) if node.topology is not None else ()
    if values:
        return values, node.positions()
    # A plugin that serves each device several times may count more than a machine has; the rest has nothing to lose.
    places = {device.id: place for place, device in enumerate(node.devices[:MAX_DEVICES])}
    return _unknown(len(places)), places


_fabric_of: Final = cached_by_identity(fabric_of, TYPES)


@cache
def _unknown(count: int) -> Matrix:
    return ((0.0,) * count,) * count

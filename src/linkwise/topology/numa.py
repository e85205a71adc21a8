"""NUMA nodes that the kubelet's Topology Manager aligns a request with, and locality as a tie-break between sets.

The kubelet merges the hints of all resources and takes the narrowest set of NUMA nodes, of equally narrow ones the lowest
(pkg/kubelet/cm/topologymanager). Devices outside of it are not even offered to a device plugin, so a choice that is to be
honoured must lie within it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.topology.device_sets import positions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.model.node import TopologyPolicy
    from linkwise.model.topology import Matrix

    Demand = tuple[Mapping[int, int], Mapping[int, int], int]
    """the amounts of a resource by NUMA node, all and free ones, and the amount requested"""

__all__ = [
    "MOST_NODES",
    "NO_LOCALITY",
    "Locality",
    "aligned_nodes",
    "devices_by_node",
    "locality_of",
    "numa_count",
    "on_fewest_nodes",
    "with_locality",
]

MOST_NODES: Final = 8
"""NUMA nodes with devices; with more NUMA nodes the Topology Manager does not start unless an option allows it"""
_STEP: Final = 1 << 12
"""more than the pairs of any machine, so that link scores always decide first"""


def aligned_nodes(
    policy: TopologyPolicy,
    demands: Sequence[Demand],
) -> tuple[int, ...] | None:
    """The NUMA nodes that the kubelet aligns a container with, or a pod; None if it rejects it.

    Args:
        policy: of the Topology Manager; with `none` and `best-effort` nothing is rejected, and all nodes are returned
            where no alignment exists.
        demands: of each resource that has NUMA nodes.
    """
    nodes = sorted({node for totals, _, _ in demands for node in totals})
    if policy == "none" or not nodes:
        return tuple(nodes)
    # A resource prefers as few NUMA nodes as it needs on an idle machine, and is refused on more of them.
    fewest = [_fewest(totals, size) for totals, _, size in demands]
    for count in range(1, len(nodes) + 1):
        if policy == "single-numa-node" and count > 1:
            return None
        # The kubelet prefers the narrowest set that each resource could ever have; `restricted` takes no other.
        if policy == "restricted" and fewest != [count] * len(fewest):
            continue
        for chosen in _lowest_first(nodes, count):
            if all(sum([free.get(node, 0) for node in chosen]) >= size for _, free, size in demands):
                return chosen
    return tuple(nodes) if policy == "best-effort" else None


def _fewest(totals: Mapping[int, int], size: int) -> int:
    """The least number of NUMA nodes with that amount; all of them if they have less together."""
    amount = 0
    for count, total in enumerate(sorted(totals.values(), reverse=True), 1):
        amount += total
        if amount >= size:
            return count
    return len(totals)


def _lowest_first(nodes: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """The sets of that many NUMA nodes in the order of their bit masks."""
    # Of two masks, the one whose highest node is lower is the lower number, so sets compare from their last node.
    return iter(sorted(combinations(nodes, count), key=lambda chosen: chosen[::-1]))


@dataclass(frozen=True, slots=True)
class Locality:
    """NUMA nodes and NICs of a machine, by position; what is not known makes no difference."""

    numa: tuple[int | None, ...] = ()
    """empty if all devices are on one node"""
    nics: int = 0
    """mask of the devices that have a NIC under their own PCIe switch"""

    def cost(self, mask: int) -> tuple[int, int]:
        """The NUMA nodes of a set beyond the first, and its devices without a NIC: less is better."""
        span = numa_count([self.numa[place] for place in positions(mask)]) if self.numa else 1
        return max(0, span - 1), (mask & ~self.nics).bit_count() if self.nics else 0

    def __bool__(self) -> bool:
        return bool(self.numa or self.nics)


NO_LOCALITY: Final = Locality()


def on_fewest_nodes(nodes: Sequence[int | None], count: int, required: Collection[int] = ()) -> list[int]:
    """That many positions of this list of NUMA nodes, of as few NUMA nodes as possible, in ascending order.

    The required positions come first, then their NUMA nodes; the last NUMA node is the one that is used up most, and the
    lowest positions go first. Without known NUMA nodes, these are the lowest positions.
    """
    chosen = sorted(required)[:count]
    left: dict[int | None, list[int]] = {nodes[place]: [] for place in chosen}
    begun = len(left)
    for place, node in enumerate(nodes):
        if place not in chosen:
            left.setdefault(node, []).append(place)
    groups = [*left.values()]
    begun_groups, others = groups[:begun], groups[begun:]
    while len(chosen) < count and (begun_groups or others):
        among = begun_groups or others
        lack = count - len(chosen)
        enough = [group for group in among if len(group) >= lack]
        group = min(enough, key=len) if enough else max(among, key=len)
        among.remove(group)
        chosen += group[:lack]
    return sorted(chosen)


def numa_count(nodes: Iterable[int | None]) -> int:
    """The number of different known NUMA nodes."""
    return len({node for node in nodes if node is not None})


def locality_of(devices: Iterable[Device], places: Mapping[str, int], count: int, *, nics: bool) -> Locality:
    """The locality of a machine with `count` positions; `nics` is whether NICs matter."""
    numa: list[int | None] = [None] * count
    near = 0
    for device in devices:
        place = places.get(device.id)
        if place is not None:
            numa[place] = device.numa
            near |= bool(nics and device.nics) << place
    everywhere = near == (1 << count) - 1
    return Locality(tuple(numa) if numa_count(numa) > 1 else (), 0 if everywhere else near)


def with_locality(scores: Matrix, locality: Locality) -> Matrix:
    """Pair scores in which equal sums are decided by pairs on one NUMA node, then by devices with a NIC.

    The terms are digits of one number: a set or a partition with the larger sum is better in the first digit in which
    it differs.
    """
    # rule 002.affinity: NUMA nodes and NICs decide only between sets with equal links.
    count = len(scores)
    nics = [locality.nics >> place & 1 for place in range(count)]
    numa = locality.numa or (None,) * count
    return tuple(
        tuple(
            (scores[i][j] * _STEP + (numa[i] is not None and numa[i] == numa[j])) * _STEP + nics[i] + nics[j]
            for j in range(count)
        )
        for i in range(count)
    )


def devices_by_node(devices: Iterable[Device]) -> Counter[int]:
    """The number of devices on each NUMA node; those whose node is not known are left out, as the kubelet does."""
    return Counter(device.numa for device in devices if device.numa is not None)

"""Baseline of the demo: a topology-unaware scheduler, with which the stories compare Linkwise.

It counts free devices and ignores how they are connected. It takes the node with the largest free fraction, as
kube-scheduler's LeastAllocated scoring does, and of equal nodes the first by name, where kube-scheduler chooses at random. On
that node it takes the free devices with the lowest numbers. It starts from the same nodes as Linkwise and remembers its own
placements. Device plugins that prefer connected devices inside a node are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of
from linkwise.views.nodes import rings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from linkwise.explain.inspect import NodeInspection
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.topology import Topology

__all__ = [
    "Placement",
    "TopologyUnawareScheduler",
    "bottleneck",
    "fewest_nvlinks",
    "is_in_one_ring",
    "link_kind",
    "link_text",
    "most_nvlinks",
    "nodes_by_free_memory",
]


@dataclass(frozen=True, slots=True)
class Placement:
    """Node and devices that a pod would have got."""

    node: str = ""
    """empty if the pod would be pending"""
    devices: tuple[int, ...] = ()
    tied: tuple[str, ...] = ()
    """all nodes with the same free fraction, the chosen one first"""


class TopologyUnawareScheduler:
    """Places pods that request whole devices, one after the other."""

    def __init__(self, nodes: Iterable[NodeInspection], ignoring: Collection[str] = ()) -> None:
        """Start from the healthy devices of nodes; devices of pods named in `ignoring` count as free."""
        self.free: dict[str, list[int]] = {}
        self._total: dict[str, int] = {}
        for node in nodes:
            healthy = [device for device in node.devices if device.usable]
            self.free[node.name] = [
                device.index for device in healthy if all(pod.name in ignoring for pod in device.pods)
            ]
            self._total[node.name] = len(healthy)

    def place(self, count: int) -> Placement:
        """Place a pod that requests `count` devices; the placement is empty if no node has them."""
        fractions = {
            name: (len(free) - count) / self._total[name] for name, free in self.free.items() if len(free) >= count
        }
        if not fractions:
            return Placement()
        tied = sorted(name for name, fraction in fractions.items() if fraction == max(fractions.values()))
        node = tied[0]
        self.free[node], taken = self.free[node][count:], self.free[node][:count]
        return Placement(node, tuple(taken), tuple(tied))


def nodes_by_free_memory(nodes: Sequence[NodeInspection], amount: int) -> list[NodeInspection]:
    """Candidate nodes for a pod that requests device memory, unranked: only node totals are compared."""
    enough = sorted((node for node in nodes if _free(node) >= amount), key=lambda node: node.name)
    most = max((_free(node) / node.memory for node in enough), default=0.0)
    return [node for node in enough if _free(node) / node.memory == most]


def bottleneck(topology: Topology, devices: Sequence[int]) -> float:
    """Bandwidth of the slowest pair of a set, in GB/s."""
    return fabric_of(topology.bandwidth, topology.links).bottleneck(mask_of(devices))


def fewest_nvlinks(topology: Topology, devices: Sequence[int]) -> int:
    """NVLinks of the pair of a set that has the fewest."""
    return min(topology.links[i][j].direct for i, j in combinations(devices, 2))


def most_nvlinks(topology: Topology) -> int:
    """NVLinks of the best pair of a machine."""
    return max(topology.links[i][j].direct for i, j in combinations(range(len(topology.devices)), 2))


def link_text(topology: Topology, pair: Sequence[int]) -> str:
    """The link of two devices for people: `2 NVLinks`, `PCIe only`."""
    count = fewest_nvlinks(topology, pair)
    return f"{count} NVLink{'' if count == 1 else 's'}" if count else "PCIe only"


def link_kind(topology: Topology, pair: Sequence[int]) -> str:
    """The link of two devices as `nvidia-smi topo -m` abbreviates it: `NV2`, `PIX`."""
    i, j = pair
    return topology.links[i][j].partition("+")[0]


def is_in_one_ring(inventory: NodeInventory, devices: Collection[int]) -> bool:
    """Whether all devices are in one ring of their node."""
    return any(set(devices) <= set(ring) for ring in rings_of(inventory))


def _free(node: NodeInspection) -> int:
    return node.memory - node.taken

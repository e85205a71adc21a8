"""What a scheduler that knows nothing of links would do: it counts, as Kubernetes does for what it does not understand.

Of the nodes with enough left it takes the one of which the largest part stays free, as kube-scheduler's LeastAllocated
does, and of equal ones the first by name, where kube-scheduler throws dice; a device plugin then hands out the lowest
numbers that are free. It goes on from what it did before, and sees the same nodes as the service.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from linkwise.cli.render.matrix import rings_of
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of
from linkwise.topology.link_score import score_matrix

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from linkwise.explain.inspect import NodeInspection
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.topology import Topology

__all__ = ["Blind", "Chosen", "blind_room", "bottleneck", "is_in_one_ring", "link_names", "points"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a pod would have got."""

    node: str = ""
    """none, if it would have waited"""
    devices: tuple[int, ...] = ()
    equals: tuple[str, ...] = ()
    """all nodes that were as good to the scheduler"""


class Blind:
    """Places pods that want whole devices on a few nodes, one after the other."""

    def __init__(self, nodes: Iterable[NodeInspection], without: Collection[str] = ()) -> None:
        """Nodes as they are now, less the pods `without` which: devices that do not work count as none."""
        self.free: dict[str, list[int]] = {}
        self._total: dict[str, int] = {}
        for node in nodes:
            sound = [device for device in node.devices if device.healthy]
            self.free[node.name] = [device.index for device in sound if all(pod.name in without for pod in device.pods)]
            self._total[node.name] = len(sound)

    def place(self, count: int) -> Chosen:
        """Where a pod that wants so many goes; nowhere if no node has them."""
        parts = {
            name: (len(free) - count) / self._total[name] for name, free in self.free.items() if len(free) >= count
        }
        if not parts:
            return Chosen()
        equals = sorted(name for name, part in parts.items() if part == max(parts.values()))
        node = equals[0]
        self.free[node], taken = self.free[node][count:], self.free[node][:count]
        return Chosen(node, tuple(taken), tuple(equals))


def blind_room(nodes: Sequence[NodeInspection], amount: int) -> NodeInspection | None:
    """The node that a pod goes to which wants so much memory: what counts is a node's sum; None if none has so much."""
    enough = [node for node in nodes if _left(node) >= amount]
    return min(enough, key=lambda node: (-_left(node) / node.memory, node.name), default=None)


def _left(node: NodeInspection) -> int:
    return node.memory - node.taken


def points(topology: Topology, devices: Sequence[int]) -> int:
    """What the links of a set are worth, by kind."""
    scores = score_matrix(topology)
    return int(sum(scores[i][j] for i, j in combinations(devices, 2)))


def link_names(topology: Topology, devices: Sequence[int]) -> str:
    """The links of all its pairs."""
    return ", ".join(topology.links[i][j] for i, j in combinations(devices, 2))


def bottleneck(topology: Topology, devices: Sequence[int]) -> float:
    """The slowest pair of a set, GB/s."""
    return fabric_of(topology.bandwidth, topology.links).bottleneck(mask_of(devices))


def is_in_one_ring(stock: NodeInventory, devices: Collection[int]) -> bool:
    """Whether devices can talk to each other where rings can't be crossed."""
    return any(set(devices) <= set(ring) for ring in rings_of(stock))

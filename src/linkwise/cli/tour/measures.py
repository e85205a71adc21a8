"""Measures by which the stories compare two sets of devices: slowest pair, link kind, rings."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of
from linkwise.views.links import rings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from linkwise.model.inventory import NodeInventory
    from linkwise.model.topology import Topology

__all__ = ["bottleneck", "fewest_nvlinks", "is_in_one_ring", "link_kind", "link_text", "most_nvlinks"]


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

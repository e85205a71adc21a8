"""Locality terms of a score: the NUMA nodes of a set of devices, and its devices with a NIC under their own PCIe switch.

The terms stand behind those of links, so that they never cost a pod or other pods bandwidth between devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.topology.numa import Locality, locality_of, numa_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.node import Node

__all__ = ["locality", "locality_terms"]


def locality(node: Node, *, nics: bool) -> Locality:
    """NUMA nodes and NICs by the positions of the node's topology."""
    if node.topology is None:
        return Locality()
    return locality_of(node.devices, node.positions(), len(node.topology.devices), nics=nics)


def locality_terms(node: Node, devices: Sequence[str], *, nics: bool) -> tuple[int, int]:
    """Two terms: minus the NUMA nodes beyond the first, and the devices with a NIC; larger is better."""
    # rule 002.affinity: a set on one NUMA node goes before one on several, and NICs count if the administrator says so.
    chosen = [device for device in node.devices if device.id in devices]
    span = numa_count([device.numa for device in chosen])
    return min(0, 1 - span), sum(bool(device.nics) for device in chosen) if nics else 0

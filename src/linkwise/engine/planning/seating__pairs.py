"""How fast devices of a node reach each other, by its own samples: what is shown of a plan that was made by classes."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from linkwise.topology.device_sets__bits import mask_of
from linkwise.topology.fabric import fabric_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.model.node import Node

__all__ = ["slowest_pair"]


def slowest_pair(node: Node, devices: Collection[str]) -> float | None:
    """In GB/s; None for less than two devices, and where nothing is known of their links."""
    topology, places = node.topology, node.positions()
    if topology is None or not (topology.links or topology.bandwidth) or not all(name in places for name in devices):
        return None
    found = fabric_of(topology.bandwidth, topology.links).bottleneck(mask_of(places[name] for name in devices))
    return found if isfinite(found) else None

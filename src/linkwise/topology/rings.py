"""Rings: groups of devices that are connected by direct links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.topology.device_sets import positions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.topology import Topology

__all__ = ["idle_by_ring", "rings"]


def rings(topology: Topology) -> tuple[tuple[int, ...], ...]:
    """The rings that the hardware reports, otherwise the islands of devices connected by direct links."""
    if topology.rings:
        return topology.rings
    near = [
        sum(1 << j for j in range(len(topology.devices)) if i == j or (topology.links and _direct(topology, i, j)))
        for i in range(len(topology.devices))
    ]
    left, islands = (1 << len(near)) - 1, []
    while left:
        island, reached = 0, left & -left
        while island != reached:
            island = reached
            for device in positions(island):
                reached |= near[device]
        islands.append(positions(island))
        left &= ~island
    return tuple(islands)


def idle_by_ring(groups: Iterable[tuple[int, ...]], idle: Iterable[int]) -> tuple[int, ...]:
    """The number of idle devices of each ring."""
    free = set(idle)
    return tuple(len(free.intersection(ring)) for ring in groups)


def _direct(topology: Topology, i: int, j: int) -> bool:
    return min(topology.links[i][j].direct, topology.links[j][i].direct) > 0

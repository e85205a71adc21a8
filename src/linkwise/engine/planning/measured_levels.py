"""Measured levels: bandwidth and loss of the devices that a plan chose, by the samples of its nodes.

Plans are compared by class values, so that equal machines are equal; what people read is measured. Bound: tables of a
node's own samples take a millisecond or two, so only plans on few nodes are measured.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import SIZES, fabric_of
from linkwise.topology.machine import LARGEST_EXACT

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Sequence

    from linkwise.engine.planning.plan import Site
    from linkwise.engine.planning.planner import Level
    from linkwise.model.node import Node
    from linkwise.topology.fabric import Fabric

__all__ = ["MEASURED", "UsedNode", "measured"]

MEASURED: Final = 16
"""nodes of a plan that is measured; the levels of larger plans have class values only"""


class UsedNode(NamedTuple):
    """A node of a plan, with the devices of each member placed there; none on a node that has bound members only."""

    site: Site
    members: Sequence[Collection[str]] = ()


def measured(levels: Iterable[Level], nodes: Sequence[UsedNode]) -> Generator[None, None, tuple[Level, ...]]:
    """The levels with the numbers to show."""
    slowest, inside, lost = inf, inf, [0] * len(SIZES)
    for site, members in nodes:
        yield
        fabric, places = _fabric(site.node), site.node.positions()
        union = {device for own in members for device in own}
        slowest = min(slowest, _bottleneck(fabric, places, union | site.held))
        inside = min([inside, *(_bottleneck(fabric, places, own) for own in members)])
        if fabric and not site.shape.unattributed and len(fabric.values) <= LARGEST_EXACT and union <= places.keys():
            free = mask_of(places[device.id] for device in site.node.free() if device.id in places)
            after = free & ~mask_of(places[device] for device in union)
            pairs = zip(lost, fabric.left(free), fabric.left(after), strict=True)
            lost = [total + before - now for total, before, now in pairs]
    shown = {"bottleneck": (slowest,), "per pod": (inside,), "residual": tuple(map(float, lost))}
    return tuple(replace(level, shown=shown.get(level.name, ())) for level in levels)


def _fabric(node: Node) -> Fabric | None:
    topology = node.topology
    known = topology is not None and (topology.links or topology.bandwidth)
    return fabric_of(topology.bandwidth, topology.links) if topology and known else None


def _bottleneck(fabric: Fabric | None, places: dict[str, int], devices: Collection[str]) -> float:
    """The slowest pair; 0 if it is unknown, infinite for a single device."""
    if len(devices) < 2:
        return inf
    if fabric is None or not all(device in places for device in devices):
        return 0.0
    return fabric.bottleneck(mask_of(places[device] for device in devices))

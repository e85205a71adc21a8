"""Links and bandwidth of one node, merged from several sources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.dialects.dialect import where_node
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.nvidia.dialect import TOPOLOGY
from linkwise.model.link_data import link_data_help
from linkwise.model.topology import Topology
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeFacts
    from linkwise.model.views import NodeView

__all__ = ["topology_of"]

T = TypeVar("T")

KEYS: Final = {"linkwise": KIND, "koordinator": "Device spec.topologies", "nvidia": TOPOLOGY}
"""annotation or object of each source"""


def topology_of(
    sources: Iterable[NodeFacts], devices: Sequence[Device], view: NodeView, problems: list[Problem]
) -> Topology | None:
    """Return the first topology of these devices; links and bandwidth of two sources if none has both."""
    topologies = [
        _named(facts.topology, devices)
        for facts in sources
        if facts.topology is not None and _as_many(facts, devices, view, problems)
    ]
    links = next((topology for topology in topologies if topology.links), None)
    bandwidth = next((topology for topology in topologies if topology.bandwidth), None)
    both = _combined(links, bandwidth, devices) if links and bandwidth and links is not bandwidth else None
    with_data = [topology for topology in topologies if topology.links or topology.bandwidth]
    return both or next(iter(with_data or topologies), None)


def _as_many(facts: NodeFacts, devices: Sequence[Device], view: NodeView, problems: list[Problem]) -> bool:
    rows = len(facts.topology.devices) if facts.topology else 0
    if rows != len(devices):
        covered = f"link data covers {rows} devices, but the node has {len(devices)}"
        sentence = f"{covered}; it is ignored, {link_data_help(view.name)}"
        problems.append(Problem(where_node(view), KEYS.get(facts.source, facts.source), sentence))
    return rows == len(devices)


def _named(topology: Topology, devices: Sequence[Device]) -> Topology:
    """Name the rows by the devices in index order, if the topology uses none of their names."""
    names = set(topology.devices)
    known = any(device.id in names or f"#{device.index}" in names for device in devices)
    return topology if known else replace(topology, devices=tuple(device.id for device in devices))


def _places(topology: Topology, devices: Sequence[Device]) -> list[int | None]:
    known = {name: position for position, name in enumerate(topology.devices)}
    return [known.get(device.id, known.get(f"#{device.index}")) for device in devices]


def _combined(links: Topology, bandwidth: Topology, devices: Sequence[Device]) -> Topology | None:
    """Return the rows in index order; None if a device is missing."""
    first, second = (
        [place for place in _places(topology, devices) if place is not None] for topology in (links, bandwidth)
    )
    if any(sorted(places) != list(range(len(devices))) for places in (first, second)):
        return None
    rings, places = (links.rings, first) if links.rings else (bandwidth.rings, second)
    return Topology(
        tuple(device.id for device in devices),
        _reordered(links.links, first),
        _reordered(bandwidth.bandwidth, second),
        tuple(tuple(places.index(position) for position in ring) for ring in rings),
        tuple(dict.fromkeys((*links.problems, *bandwidth.problems))),
        tuple(dict.fromkeys((*links.warnings, *bandwidth.warnings))),
    )


def _reordered(rows: tuple[tuple[T, ...], ...], places: Sequence[int]) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(rows[i][j] for j in places) for i in places)

"""Links of a node on the page: pairs of devices with their bandwidth, the layout of the machine, and the table of all pairs.

Devices are named by their position among the devices of the node, as in the strip of the cluster.
"""

from __future__ import annotations

from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

from linkwise.model.link import Link
from linkwise.topology.fabric import fabric_of
from linkwise.topology.layout import link_kinds, shape_of_machine, switch_groups
from linkwise.topology.link_values import link_value, score_matrix
from linkwise.views.blocks import bandwidth_forms, link_forms
from linkwise.views.nodes import kind_name, link_names, rings_of
from linkwise.views.page.documents import Layout, LinkKind, Links

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix, Topology
    from linkwise.topology.layout import LinkKind as Kind, Pair

__all__ = ["links_of", "slowest_speed"]


def links_of(inventory: NodeInventory, node: Node) -> Links | None:
    """Return the links between the devices of a node; None without link data."""
    topology = inventory.topology
    if topology is None or not (topology.links or topology.bandwidth):
        return None
    place = _places(inventory, node)
    kinds, speeds = link_kinds(topology), _speeds(topology)
    order = sorted({kind.name: kind for kind in kinds.values()}.values(), key=lambda kind: -kind.speed)
    number = {kind.name: at for at, kind in enumerate(order)}
    pairs = [
        (min(place[i], place[j]), max(place[i], place[j]), number[kind.name], speeds.get((i, j)))
        for (i, j), kind in kinds.items()
        if i in place and j in place
    ]
    texts, worth = _table(topology)
    rows = sorted(place, key=place.__getitem__)
    return Links(
        bool(topology.bandwidth),
        tuple(_kind(topology, kind, kinds, speeds) for kind in order),
        tuple(sorted(pairs)),
        _layout(inventory, topology, kinds, place),
        tuple(tuple(texts[i][j] for j in rows) for i in rows),
        tuple(tuple(worth[i][j] for j in rows) for i in rows),
    )


def slowest_speed(inventory: NodeInventory | None, node: Node | None, devices: Iterable[int]) -> float | None:
    """Return the GB/s of the slowest pair of devices, by index; None without link data, or for one device."""
    topology = inventory.topology if inventory else None
    if inventory is None or node is None or topology is None:
        return None
    positions, chosen = node.positions(), set(devices)
    at = [positions[one.id] for one in inventory.devices if one.index in chosen and one.id in positions]
    speeds = _speeds(topology)
    values = [speeds.get((min(pair), max(pair))) for pair in combinations(at, 2)]
    known = [value for value in values if value]
    return min(known) if known and len(known) == len(values) else None


def _places(inventory: NodeInventory, node: Node) -> dict[int, int]:
    """Return the place of each position of the topology among the devices of the node."""
    positions = node.positions()
    return {positions[device.id]: place for place, device in enumerate(inventory.devices) if device.id in positions}


def _speeds(topology: Topology) -> dict[Pair, float]:
    """Return the GB/s of each pair: the cleaned sample, or what is typical for its kind."""
    pairs = combinations(range(len(topology.devices)), 2)
    if topology.bandwidth:
        values = fabric_of(topology.bandwidth, topology.links).values
        return {(i, j): round(values[i][j], 2) for i, j in pairs}
    return {(i, j): link_value(min(topology.links[i][j], topology.links[j][i])) for i, j in pairs}


def _kind(topology: Topology, kind: Kind, kinds: dict[Pair, Kind], speeds: dict[Pair, float]) -> LinkKind:
    own = [speeds[pair] for pair, other in kinds.items() if other.name == kind.name and speeds.get(pair)]
    name = kind_name(Link(kind.name), link_names()) if topology.links else ""
    return LinkKind(kind.name, name, round(median(own), 1) if own else None, kind.direct)


def _table(topology: Topology) -> tuple[Sequence[Sequence[str]], Matrix]:
    """Return the texts and values of all pairs, as `linkwise describe node` prints them."""
    if topology.bandwidth:
        fabric = fabric_of(topology.bandwidth, topology.links)
        return bandwidth_forms(fabric.values, fabric.suspects)[1], fabric.values
    return link_forms(topology)[0], score_matrix(topology)


def _layout(inventory: NodeInventory, topology: Topology, kinds: dict[Pair, Kind], place: dict[int, int]) -> Layout:
    shape, groups = shape_of_machine(topology, kinds)
    reported = rings_of(inventory) if inventory.profile else ()
    if len(reported) > 1 and len(groups) < 2:
        shape, groups = "rings", list(reported)
    fastest = max(kinds.values(), key=lambda kind: kind.speed, default=None)
    hub = "" if shape != "hub" or fastest is None else "NVSwitch" if fastest.name.startswith("NV") else "switch"
    numa: dict[int, list[int]] = {}
    for number, device in enumerate(inventory.devices):
        if device.numa is not None:
            numa.setdefault(device.numa, []).append(number)
    return Layout(
        shape,
        tuple(_placed(groups, place)),
        hub,
        tuple(tuple(numa[node]) for node in sorted(numa)),
        tuple(_placed(switch_groups(topology), place)),
    )


def _placed(groups: Iterable[Sequence[int]], place: dict[int, int]) -> list[tuple[int, ...]]:
    return [tuple(place[position] for position in group if position in place) for group in groups]

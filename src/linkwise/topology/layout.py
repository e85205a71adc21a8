"""Layout: how a machine is built, as its link kinds show: quads, rings, a switch, bridged pairs, devices below one CPU.

Devices that are closer to each other than to the rest form a group: the quads of a DGX-1, the rings of an Atlas, the devices
below one CPU. Drawings show the groups; nothing is decided by them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal

from linkwise.model.link import Pcie
from linkwise.topology.canonical import classes, clean_samples
from linkwise.topology.rings import rings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Topology

__all__ = ["LinkKind", "Pair", "Shape", "groups_of", "is_switched", "link_kinds", "shape_of_machine", "switch_groups"]

MOST_NVLINKS: Final = 18
"""of a device; links that would need more of them to reach all others go through a switch"""
SWITCHED: Final = re.compile(r"NV([0-9]+)|HCCS_SW")
FEWEST_IN_RING: Final = 4  # in a ring of three each is linked to each, which is drawn as a clique
FEWEST_IN_CLIQUE: Final = 3  # two are a pair

Pair = tuple[int, int]
Shape = Literal["hub", "rings", "quads", "pairs", "islands", "tree"]
"""how the fastest links connect devices:

hub      through a switch
rings    each with two neighbours, or as the hardware reports it
quads    groups that are linked to each other, too
pairs    by bridges
islands  groups without direct links to each other, or one group
tree     no direct links: PCIe only
"""


@dataclass(frozen=True, slots=True)
class LinkKind:
    """A kind of link, by its name."""

    name: str
    speed: float
    """relative to other links of the machine"""
    direct: bool = False


def link_kinds(topology: Topology) -> dict[Pair, LinkKind]:
    """Return the kind of link of every pair with link data."""
    pairs = list(combinations(range(len(topology.devices)), 2))
    if topology.links:
        links = {pair: min(topology.links[pair[0]][pair[1]], topology.links[pair[1]][pair[0]]) for pair in pairs}
        return {
            pair: LinkKind(_name(link), 100 * link.direct + link.pcie, link.direct > 0)
            for pair, link in links.items()
            if link != "?"
        }
    if topology.bandwidth:
        values = clean_samples(topology.bandwidth).values
        class_of = classes([values[i][j] for i, j in pairs])
        speeds = {(i, j): class_of[values[i][j]] for i, j in pairs}
        return {pair: LinkKind(f"about {speed:.3g} GB/s", speed) for pair, speed in speeds.items() if speed}
    return {}


def groups_of(topology: Topology, kinds: dict[Pair, LinkKind]) -> list[tuple[int, ...]]:
    """Return the groups of devices, each in the order in which it is drawn."""
    devices = tuple(range(len(topology.devices)))
    slowest = min((kinds[pair].speed if pair in kinds else 0.0 for pair in combinations(devices, 2)), default=0.0)
    if len(topology.rings) > 1:
        groups = [tuple(ring) for ring in topology.rings if len(ring) > 1]
    elif any(kind.speed == slowest and kind.direct for kind in kinds.values()):
        return [_in_order(devices, _near(kinds, slowest))]
    else:
        near = _near(kinds, slowest)
        groups = [group for island in _islands(devices, near) for group in _split(island, near)]
    near = _near(kinds, slowest)
    placed = {device for group in groups for device in group}
    alone = tuple(device for device in devices if device not in placed)
    ordered = [_in_order(group, near) for group in groups]
    return [*ordered[:1], *(_opposite(ordered[0], group, near) for group in ordered[1:]), *([alone] if alone else [])]


def is_switched(group: Sequence[int], kinds: dict[Pair, LinkKind]) -> bool:
    """Return whether the devices of a group reach each other through a switch."""
    within = {kinds[pair] for pair in combinations(sorted(group), 2) if pair in kinds}
    if len(group) < FEWEST_IN_CLIQUE or len({kind.name for kind in within}) != 1:
        return False
    code = SWITCHED.fullmatch(next(iter(within)).name)
    return code is not None and (code[1] is None or int(code[1]) * (len(group) - 1) > MOST_NVLINKS)


def shape_of_machine(topology: Topology, kinds: dict[Pair, LinkKind]) -> tuple[Shape, list[tuple[int, ...]]]:
    """Return the shape of a machine, and its groups in the order in which they are drawn."""
    groups = groups_of(topology, kinds)
    slowest = min((kind.speed for kind in kinds.values()), default=0.0)
    # Samples don't say which links are direct: all but the slowest count as such.
    direct = {pair for pair, kind in kinds.items() if (kind.direct if topology.links else kind.speed > slowest)}
    if topology.links and not direct:
        return "tree", groups
    if any(is_switched(group, kinds) for group in groups):
        return "hub", groups
    islands = [tuple(island) for island in rings(topology)] if topology.links else []
    if max(map(len, islands), default=0) == 2:
        return "pairs", islands
    linked = {frozenset(pair) for pair in direct}
    if len(topology.rings) > 1 or (direct and all(_is_ring(group, linked) for group in groups)):
        return "rings", groups
    of = {device: number for number, group in enumerate(groups) for device in group}
    return "quads" if any(of[a] != of[b] for a, b in direct) else "islands", groups


def switch_groups(topology: Topology) -> list[tuple[int, ...]]:
    """Return the devices that share a PCIe switch or a board, two or more each."""
    near: dict[int, set[int]] = {}
    for i, j in combinations(range(len(topology.devices)) if topology.links else (), 2):
        if topology.links[i][j].pcie >= Pcie.PIX:
            near.setdefault(i, set()).add(j)
            near.setdefault(j, set()).add(i)
    return list(_islands(range(len(topology.devices)), near))


def _is_ring(group: Sequence[int], linked: set[frozenset[int]]) -> bool:
    """Return whether the direct links within a group are those between neighbours, in the order of the group."""
    if len(group) < FEWEST_IN_RING:
        return False
    within = {frozenset(pair) for pair in combinations(group, 2)} & linked
    return within == {frozenset((one, group[place - 1])) for place, one in enumerate(group)}


def _near(kinds: dict[Pair, LinkKind], slowest: float) -> dict[int, set[int]]:
    """Return for each device those with a faster link to it than the slowest of the machine."""
    near: dict[int, set[int]] = {}
    for (a, b), kind in kinds.items():
        if kind.speed > slowest:
            near.setdefault(a, set()).add(b)
            near.setdefault(b, set()).add(a)
    return near


def _islands(devices: Sequence[int], near: dict[int, set[int]]) -> Iterator[tuple[int, ...]]:
    """Return the sets of two or more devices that reach each other over near ones."""
    left = set(devices)
    while left:
        reached = [min(left)]
        left.discard(reached[0])
        for device in reached:
            more = near.get(device, set()) & left
            left -= more
            reached += sorted(more)
        if len(reached) > 1:
            yield tuple(sorted(reached))


def _split(island: tuple[int, ...], near: dict[int, set[int]]) -> list[tuple[int, ...]]:
    """Split an island into cliques of one size, as the quads of a DGX-1; others stay as they are."""
    left, cliques = set(island), list[tuple[int, ...]]()
    while left:
        cliques.append(max((_clique(device, left, near) for device in sorted(left)), key=len))
        left -= set(cliques[-1])
    even = len({len(clique) for clique in cliques}) == 1 and len(cliques[0]) >= FEWEST_IN_CLIQUE
    return sorted(cliques) if even else [island]


def _clique(first: int, devices: set[int], near: dict[int, set[int]]) -> tuple[int, ...]:
    members = [first]
    for device in sorted(devices & near.get(first, set())):
        if all(device in near[member] for member in members):
            members.append(device)
    return tuple(sorted(members))


def _in_order(group: Sequence[int], near: dict[int, set[int]]) -> tuple[int, ...]:
    """Return the devices by number, those of a ring in the order of the ring."""
    within = {device: near.get(device, set()) & set(group) for device in group}
    if len(group) < FEWEST_IN_RING or any(len(others) != 2 for others in within.values()):
        return tuple(group)
    ring = [group[0]]
    while after := sorted(within[ring[-1]] - set(ring)):
        ring.append(after[0])
    return tuple(ring) if len(ring) == len(group) else tuple(group)


def _opposite(first: tuple[int, ...], group: tuple[int, ...], near: dict[int, set[int]]) -> tuple[int, ...]:
    """Return the group in the order of its partners in the first one, if each device has one of its own there."""
    partner = {device: near.get(device, set()) & set(first) for device in group}
    one_each = len(group) == len(first) == len(set().union(*partner.values()))
    if not one_each or any(len(devices) != 1 for devices in partner.values()):
        return group
    return tuple(sorted(group, key=lambda device: first.index(next(iter(partner[device])))))


def _name(link: Link) -> str:
    """Return the direct links, or the PCIe path if there are none."""
    return link.split("+")[0]

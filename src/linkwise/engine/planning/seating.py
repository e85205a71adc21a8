"""Seating: the devices of one node for the members that a plan places there, container by container.

Outlines are made by class values; seating uses the node's own samples, by the same levels as the planner.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice
from math import inf, isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from linkwise.engine.planning.hosts import arranged, by_links, in_parts, open_devices, picked
from linkwise.model.verdict import Offer, Part
from linkwise.policies.alignment import may_reject
from linkwise.topology.bottleneck import Bottleneck, best_bottleneck
from linkwise.topology.device_sets import mask_of, positions, sets_with
from linkwise.topology.fabric import NEAR, SIZES, fabric_of
from linkwise.topology.machine import LARGEST_EXACT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.plan import Member
    from linkwise.model.node import Node
    from linkwise.topology.fabric import Fabric


__all__ = ["Room", "Share", "seated", "share_out", "slowest_pair"]


def seated(node: Node, held: Collection[str], members: Sequence[Member], floor: float = 0.0) -> list[Offer | None]:
    """An offer for each member, in their order.

    None for all if there are too few devices, or if those of a member would be slower than the floor, in GB/s.
    """
    asked = [member.wanted for member in members if member.wanted]
    whole = [query for query in asked if not in_parts(query)]
    if asked and (not whole or (by_links(whole[0]) and not may_reject(node))):
        free = [device.id for device in node.free()] if whole else _preferred(node, asked, held)
        sizes = [member.size for member in members]
        if sum(sizes) > len(free):
            return [None for _ in members]
        devices = _by_links(node, free, held, sizes, floor, shares=not whole)
        if floor and any(len(own) > 1 and (slowest_pair(node, own) or 0.0) < floor for own in devices):
            return [None for _ in members]
        return [_offer(node, member, own) for member, own in zip(members, devices, strict=True)]
    return _picked(node, members)


def _preferred(node: Node, asked: Sequence[Query], held: Collection[str]) -> list[str]:
    """The devices that fit a share of each member, in the order in which the policy would pick them for single pods."""
    left, order = open_devices(node, asked, held), list[str]()
    while left:
        order += picked(asked[0], node, left)
        left = [name for name in left if name not in order]
    return order


def _by_links(  # noqa: PLR0913 - the question that a node is asked
    node: Node, names: Sequence[str], held: Collection[str], sizes: Sequence[int], floor: float, *, shares: bool
) -> list[list[str]]:
    """Devices for each member of those names; for shares they are sorted by the policy's preference."""
    if list(sizes) == [len(names)]:
        return [list(names)]  # one member takes all
    places, topology = node.positions(), node.topology
    if topology is None or not (topology.links or topology.bandwidth) or not all(name in places for name in names):
        devices = iter(names)
        return [list(islice(devices, size)) for size in sizes]
    fabric = fabric_of(topology.bandwidth, topology.links)
    taken = mask_of(places[name] for name in held if name in places)
    room = mask_of(places[name] for name in names)
    free = mask_of(places[device.id] for device in node.free() if device.id in places) & room if shares else room
    order = {places[name]: number for number, name in enumerate(names)} if shares else {}
    ids = {place: name for name, place in places.items()}
    found = share_out(fabric, Room(room, taken, free, order), sizes, floor)
    return [[ids[place] for place in share] for share in found]


def _offer(node: Node, member: Member, devices: Collection[str]) -> Offer | None:
    """The member's devices, divided among its containers by its policy."""
    if member.wanted is None:
        return None
    asking = [container for container in member.wanted.ask.containers if container.devices]
    if len(asking) == 1:
        return Offer(node.name, (Part(asking[0].container, tuple(devices)),))
    alone = node.with_only(devices)
    if member.wanted.ask.devices:  # unattributed usage was subtracted when the node was chosen
        alone = replace(alone, unattributed=0, unattributed_share=0, unattributed_core=0)
    offer = member.wanted.pick(alone)
    return offer if isinstance(offer, Offer) else None


def _picked(node: Node, members: Sequence[Member]) -> list[Offer | None]:
    """Offers by the policy's own layouts, the largest member first."""
    order = sorted((member for member in members if member.wanted), key=lambda member: -member.size)
    offers, _ = arranged(node, [member.wanted for member in order if member.wanted])
    by_pod = dict(zip([member.pod for member in order], offers, strict=True)) if offers is not None else {}
    return [by_pod.get(member.pod) for member in members]


Share = tuple[int, ...]
"""a member's devices, as positions"""


class Room(NamedTuple):
    """The devices of a node for a group, as masks."""

    open: int
    """those that members can get"""
    held: int = 0
    """those of bound members"""
    free: int = -1
    """the unused ones: not all of the open ones if members get shares"""
    order: Mapping[int, int] = MappingProxyType({})
    """the policy's order of the open ones, by position; by position if empty"""


def share_out(fabric: Fabric, room: Room, sizes: Sequence[int], floor: float = 0.0) -> list[Share]:
    """Devices for members of these sizes, in their order; there must be enough open devices.

    If possible, no member's devices are slower than the floor, in GB/s.
    """
    if len(fabric.values) > LARGEST_EXACT:
        return _one_by_one(fabric, room.open, sizes)
    return _Sharing(fabric, room, tuple(sizes), floor).shares()


class _Sharing:
    """Division of one node's devices among members, by tables of all sets."""

    def __init__(self, fabric: Fabric, room: Room, sizes: tuple[int, ...], floor: float) -> None:
        self._fabric = fabric
        self._open = room.open
        self._free = room.open & room.free
        self._order = room.order
        self._sizes = sizes
        self._sorted = tuple(sorted(sizes, reverse=True))
        self._table = fabric.bottlenecks()
        self._held = room.held
        self._floor = floor
        self._known: dict[tuple[int, tuple[int, ...], float], bool] = {}

    def shares(self) -> list[Share]:
        unions = self._fastest()
        speed = self._fastest_inside(unions)
        enough = max(NEAR * speed, min(speed, self._floor))
        fitting = [union for union in unions if self._divides(union, self._sorted, enough)]
        # rule 001.split: inside a node the bottlenecks of the members are as large as possible.
        return [positions(part) for part in self._split(self._most_left(fitting), self._sizes, enough)]

    def _fastest(self) -> list[int]:
        """All sets within 5% of the largest bottleneck including held devices, by sorted positions."""
        unions = list(sets_with(self._open, 0, sum(self._sizes)))
        if self._floor:
            unions = [union for union in unions if self._divides(union, self._sorted, self._floor)] or unions
        speeds = [self._table[union | self._held] for union in unions]
        enough = NEAR * max(speeds)
        return [union for union, speed in zip(unions, speeds, strict=True) if speed >= enough]

    def _fastest_inside(self, unions: list[int]) -> float:
        """The largest speed that every member can have in at least one of the sets."""
        members = positions(self._open)
        values = self._fabric.values
        speeds = sorted({values[i][j] for i, j in combinations(members, 2)} | {inf})
        low, high = 0, len(speeds) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if any(self._divides(union, self._sorted, speeds[middle]) for union in unions):
                low = middle
            else:
                high = middle - 1
        return speeds[low]

    def _most_left(self, unions: list[int]) -> int:
        """The first of the sets that leave the most good sets to other pods, compared by the largest sets first.

        Shares go to used devices first, and of equal ones to those that the policy would pick for a single pod.
        """
        for size in SIZES:
            if len(unions) == 1:
                break
            left = [self._fabric.good_sets(self._free & ~union, size) for union in unions]
            most = max(left)
            unions = [union for union, count in zip(unions, left, strict=True) if count == most]
        if not self._order:
            return unions[0]
        return min(unions, key=self._preference)

    def _preference(self, union: int) -> tuple[int, list[int]]:
        return (self._free & union).bit_count(), sorted(self._order[place] for place in positions(union))

    def _divides(self, union: int, sizes: tuple[int, ...], speed: float) -> bool:
        """Whether a set can be divided into sets of these sizes, each fast enough."""
        if not sizes or self._table[union] >= speed:
            return True
        key = (union, sizes, speed)
        if key not in self._known:
            low = union & -union
            self._known[key] = any(
                self._table[part] >= speed and self._divides(union & ~part, _without(sizes, size), speed)
                for size in dict.fromkeys(sizes)
                for part in sets_with(union, low, size)
            )
        return self._known[key]

    def _split(self, union: int, sizes: tuple[int, ...], speed: float) -> list[int]:
        """The first division of a set among the members, in their order."""
        if not sizes:
            return []
        rest = tuple(sorted(sizes[1:], reverse=True))
        part = next(
            part
            for part in sets_with(union, 0, sizes[0])
            if self._table[part] >= speed and self._divides(union & ~part, rest, speed)
        )
        return [part, *self._split(union & ~part, sizes[1:], speed)]


def _without(sizes: tuple[int, ...], size: int) -> tuple[int, ...]:
    place = sizes.index(size)
    return sizes[:place] + sizes[place + 1 :]


def _one_by_one(fabric: Fabric, free: int, sizes: Sequence[int]) -> list[Share]:
    """Devices on a machine too large for tables: member by member, the largest first."""
    shares: dict[int, Share] = {}
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        best = best_bottleneck(fabric.values, sizes[number], positions(free))
        devices = best.devices if isinstance(best, Bottleneck) else positions(free)[: sizes[number]]
        shares[number] = devices
        for device in devices:
            free &= ~(1 << device)
    return [shares[number] for number in range(len(sizes))]


def slowest_pair(node: Node, devices: Collection[str]) -> float | None:
    """Bandwidth of the slowest pair of devices, in GB/s; None for a single device or without link data."""
    topology, places = node.topology, node.positions()
    if topology is None or not (topology.links or topology.bandwidth) or not all(name in places for name in devices):
        return None
    bottleneck = fabric_of(topology.bandwidth, topology.links).bottleneck(mask_of(places[name] for name in devices))
    return bottleneck if isfinite(bottleneck) else None

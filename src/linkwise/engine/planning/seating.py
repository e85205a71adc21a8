"""Seating: the members that an outline counts on each node by name, and the devices of each, container by container.

Outlines are made by class values; seating uses the node's own samples, by the same levels as the planner. Which members are
equal, and which a node can host in one way, by links, by shares or by a policy's own rules, is decided here too.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice
from math import inf, isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import PartSize, among, arranged, by_links, in_parts, picked
from linkwise.engine.planning.parts import PartsHost, cards_of, divided
from linkwise.engine.planning.plan import Filling, Placement
from linkwise.engine.usage import node_after
from linkwise.model.verdict import Offer, Part
from linkwise.policies.alignment import may_reject
from linkwise.topology.bottleneck import Bottleneck, best_bottleneck
from linkwise.topology.device_sets import mask_of, positions, sets_with
from linkwise.topology.fabric import NEAR, SIZES, fabric_of
from linkwise.topology.machine import LARGEST_EXACT

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Hashable, Mapping, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.hosts import LinkedHost, Size
    from linkwise.engine.planning.parts import Counts
    from linkwise.engine.planning.plan import Member, Site, Task
    from linkwise.engine.planning.problem import Counts as MemberCounts
    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix
    from linkwise.topology.fabric import Fabric

__all__ = ["Room", "Share", "Way", "alike", "assigned", "seated", "share_out", "slowest_pair", "way_of", "with_others"]

OFFERS_PER_STEP: Final = 8
"""members whose offers are made between two yields"""
SETS_PER_STEP: Final = 100
"""sets of devices compared between two yields"""
Share = tuple[int, ...]
"""a member's devices, as positions"""
NODES_PER_STEP: Final = 8
"""nodes whose devices are assigned between two yields"""


def seated(  # noqa: PLR0913 - a node and the settings of a group
    node: Node,
    held: Collection[str],
    members: Sequence[Member],
    floor: float = 0.0,
    *,
    distinct: bool = False,
    seed_order: bool = False,
) -> Generator[None, None, list[Offer | None]]:
    """An offer for each member, in their order.

    None for all if there are too few devices, or if those of a member would be slower than the floor, in GB/s; with
    `distinct`, if two members would be on one device. With `seed_order`, fewer unused devices go before bandwidth.
    """
    asked = [member.wanted for member in members if member.wanted]
    whole = [query for query in asked if not in_parts(query)]
    if whole and (not by_links(whole[0]) or may_reject(node)):
        return _picked(node, members)
    if len(whole) < len(asked):
        seating = _Seating(node, held, members, distinct=distinct, seed_order=seed_order)
        yield
        devices = yield from seating.devices(floor)
    else:
        free = [device.id for device in node.free()]
        sizes = [member.size for member in members]
        devices = _by_links(node, free, held, sizes, floor) if sum(sizes) <= len(free) else []
    if not devices or (floor and any(len(own) > 1 and (slowest_pair(node, own) or 0.0) < floor for own in devices)):
        return [None for _ in members]
    return (yield from _offers(node, members, devices))


class _Seating:
    """Devices of one node for members of which some get parts, by the levels of the planner and the node's own samples."""

    def __init__(
        self, node: Node, held: Collection[str], members: Sequence[Member], *, distinct: bool, seed_order: bool
    ) -> None:
        self._seed_order = seed_order
        queries = [member.wanted for member in members if member.wanted]
        self._node = node
        self._parts = list({query.table_key(): query for query in queries if in_parts(query)}.values())
        kinds = {query.table_key(): PartSize(number) for number, query in enumerate(self._parts)}
        self._sizes: list[Size] = [kinds.get(query.table_key(), query.ask.devices) for query in queries]
        self._whole, self._counts = divided(tuple(self._sizes), len(self._parts))
        self._avoided = held if distinct else ()
        taken = mask_of(place for place, device in enumerate(node.devices) if device.id in held)
        cards, domains = cards_of(node, self._parts, self._avoided), [query.ask.domain for query in self._parts]
        self._host = PartsHost(_samples(node), cards, domains, taken, distinct=distinct, fewest_first=seed_order)

    def devices(self, floor: float) -> Generator[None, None, list[list[str]]]:
        """Devices for each member, in their order; none if there are too few."""
        seats = yield from self._host.search_seats(tuple(self._sizes))
        yield
        if not seats:
            return []
        enough, order = floor, (yield from self._order())
        if links := self._host.links:
            if self._whole:
                seats = [seat for seat in seats if links.divides(seat[1], self._whole, floor)] or seats
                yield
            if self._seed_order:
                fewest = min(self._host.unused(union) for union, _ in seats)
                seats = [seat for seat in seats if self._host.unused(seat[0]) == fewest]
            fastest = max(links.speed(union) for union, _ in seats)
            seats = [seat for seat in seats if links.speed(seat[0]) >= NEAR * fastest]
            inside = yield from self._fastest_inside(links, seats)
            enough = max(NEAR * inside, min(inside, floor))
            seats = [seat for seat in seats if links.divides(seat[1], self._whole, enough)]
        losses = []
        for number, (union, _) in enumerate(seats):
            if number % SETS_PER_STEP == 0:
                yield
            losses.append(self._host.loss_of(union))
        least = min(losses, key=self._host.order_of)
        union, own = min(
            (seat for seat, loss in zip(seats, losses, strict=True) if loss == least),
            key=lambda seat: (sorted(order[place] for place in positions(seat[0] & ~seat[1])), seat[1]),
        )
        on_parts = yield from self._host.shared_out(
            sorted(positions(union & ~own), key=order.__getitem__), self._counts
        )
        return self._named(own, on_parts, enough) if on_parts else []

    def _fastest_inside(self, links: LinkedHost, seats: Sequence[tuple[int, int]]) -> Generator[None, None, float]:
        """The largest speed that every member with whole devices can have in at least one of the sets."""
        if not self._whole:
            return inf
        speeds = sorted(links.speeds())
        low, high = 0, len(speeds) - 1
        while low < high:
            yield
            middle = (low + high + 1) // 2
            fast = any(links.divides(own, self._whole, speeds[middle]) for _, own in seats)
            low, high = (middle, high) if fast else (low, middle - 1)
        return speeds[low]

    def _order(self) -> Generator[None, None, Mapping[int, int]]:
        """The positions of devices, in the order in which the policy would pick them for single pods."""
        number_of = {self._name(place): place for place in self._host.open()}
        left, order = list(number_of), list[str]()
        for query in self._parts:
            while own := picked(query, self._node, left):
                yield
                order += own
                left = [name for name in left if name not in own]
        return {number_of[name]: number for number, name in enumerate((*order, *left))}

    def _name(self, place: int) -> str:
        places = self._host.places
        return self._node.devices[places[place] if places else place].id

    def _named(self, own: int, on_parts: Mapping[int, Counts], enough: float) -> list[list[str]]:
        """The devices of each member: whole ones as fast as can be, and parts by the number of each kind per device."""
        if self._host.links:
            shares = iter(share_out(self._host.links.fabric, Room(own), self._whole, enough) if own else ())
        else:
            devices = iter(positions(own))
            shares = iter([tuple(islice(devices, size)) for size in self._whole])
        seats = [
            [place for place, counts in on_parts.items() for _ in range(counts[number])]
            for number in range(len(self._parts))
        ]
        places = [(seats[size.number].pop(0),) if isinstance(size, PartSize) else next(shares) for size in self._sizes]
        return [[self._name(place) for place in each] for each in places]


class Room(NamedTuple):
    """The devices of a node for a group, as masks."""

    open: int
    """those that members can get"""
    held: int = 0
    """those of bound members"""


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
        """The first of the sets that leave the most good sets to other pods, compared by the largest sets first."""
        for size in SIZES:
            if len(unions) == 1:
                break
            left = [self._fabric.good_sets(self._open & ~union, size) for union in unions]
            most = max(left)
            unions = [union for union, count in zip(unions, left, strict=True) if count == most]
        return unions[0]

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


def slowest_pair(node: Node, devices: Collection[str]) -> float | None:
    """Bandwidth of the slowest pair of devices, in GB/s; None for a single device or without link data."""
    topology, places = node.topology, node.positions()
    if topology is None or not (topology.links or topology.bandwidth) or not all(name in places for name in devices):
        return None
    bottleneck = fabric_of(topology.bandwidth, topology.links).bottleneck(mask_of(places[name] for name in devices))
    return bottleneck if isfinite(bottleneck) else None


def assigned(
    sites: Mapping[str, Site], kinds: Sequence[Sequence[Member]], counts: Mapping[str, MemberCounts], task: Task
) -> Generator[None, None, dict[str, Placement] | str]:
    """Members by rank on nodes by domain and name, so that consecutive ranks are close; or a node that can't seat its own."""
    remaining = [list(members) for members in kinds]
    placements: dict[str, Placement] = {}
    parts = any(member.wanted and in_parts(member.wanted) for members in kinds for member in members[:1])
    per_step = 1 if parts else NODES_PER_STEP  # parts are searched for
    for number, name in enumerate(homes_of(sites, counts)):
        if number % per_step == 0:
            yield
        own: list[Member] = []
        for line, count in zip(remaining, counts[name], strict=True):
            own += line[:count]
            del line[:count]
        own.sort(key=lambda member: member.order)
        node, held = sites[name].node, sites[name].held
        offers = yield from seated(node, held, own, task.floor, distinct=task.distinct, seed_order=task.seed_order)
        if None in offers:
            return name
        placements |= {member.pod: Placement(name, offer) for member, offer in zip(own, offers, strict=True)}
    return placements


def homes_of(sites: Mapping[str, Site], counts: Mapping[str, MemberCounts]) -> list[str]:
    """The nodes of a plan, by domain and name."""
    return sorted(counts, key=lambda name: (sites[name].path, name))


def with_others(
    sites: Mapping[str, Site],
    placements: dict[str, Placement],
    members: Sequence[Member],
    others: Sequence[Member],
) -> dict[str, Placement]:
    """The placements with members that request no devices, on the group's own nodes where they fit."""
    if not others:
        return placements
    bound = {name for name, site in sites.items() if site.held}
    nodes = {placement.node for placement in placements.values()} | bound
    homes = sorted(nodes, key=lambda name: (sites[name].path, name))
    filling = {name: Filling(sites[name].ground) for name in homes}
    for member in members:
        if member.pod in placements:
            filling[placements[member.pod].node].join(member.demand)
    complete = dict(placements)
    for member in others:
        home = next((name for name in homes if filling[name].takes(member.demand)), None)
        if home is not None:
            complete[member.pod] = Placement(home)
    return complete


class Way(NamedTuple):
    """How a node hosts members, and which of them: one host can't serve two ways."""

    asked: Mapping[int, Query]
    """by the number of the kind of members"""
    in_parts: bool
    """whether some of them get parts of devices"""
    by_links: bool
    """whether members with whole devices are placed by the bandwidth of their links"""


def way_of(asked: Mapping[int, Query], *, certain: bool = True) -> Way | None:
    """The way of the first query for whole devices, otherwise of the first query, with all queries it can serve.

    Args:
        asked: the queries that the node could serve on their own, by the number of the kind of members.
        certain: whether it is known which of its devices are in use.
    """
    if not asked:
        return None
    first = next((query for query in asked.values() if not in_parts(query)), next(iter(asked.values())))
    sharing = {number: query for number, query in asked.items() if _share_a_node(first, query, certain=certain)}
    return Way(sharing, any(map(in_parts, sharing.values())), in_parts(first) or by_links(first))


def alike(member: Member) -> Hashable:
    """Key of equal members, which differ only in their name."""
    demand = member.demand
    company = demand.apart or demand.together or demand.crowd
    pods = (demand.apart, demand.together, demand.crowd) if company else ()
    labels = tuple(sorted(demand.labels.items())) if pods else ()
    return (
        member.wanted.table_key() if member.wanted else (),
        demand.cpu,
        demand.memory,
        demand.ephemeral,
        tuple(sorted(demand.selector.items())) if demand.selector else (),
        demand.affinity,
        demand.only,
        demand.tolerations,
        demand.ports,
        str(pods) if pods else "",
        labels,
    )


def _picked(node: Node, members: Sequence[Member]) -> list[Offer | None]:
    """Offers by the policy's own layouts, the largest member first."""
    order = sorted((member for member in members if member.wanted), key=lambda member: -member.size)
    offers, _ = arranged(node, [member.wanted for member in order if member.wanted])
    by_pod = dict(zip([member.pod for member in order], offers, strict=True)) if offers is not None else {}
    return [by_pod.get(member.pod) for member in members]


def _by_links(
    node: Node, names: Sequence[str], held: Collection[str], sizes: Sequence[int], floor: float
) -> list[list[str]]:
    """Devices for each member, of those names."""
    if list(sizes) == [len(names)]:
        return [list(names)]  # one member takes all
    places, topology = node.positions(), node.topology
    if topology is None or not (topology.links or topology.bandwidth) or not all(name in places for name in names):
        devices = iter(names)
        return [list(islice(devices, size)) for size in sizes]
    fabric = fabric_of(topology.bandwidth, topology.links)
    taken = mask_of(places[name] for name in held if name in places)
    ids = {place: name for name, place in places.items()}
    found = share_out(fabric, Room(mask_of(places[name] for name in names), taken), sizes, floor)
    return [[ids[place] for place in share] for share in found]


def _offers(
    node: Node, members: Sequence[Member], devices: Sequence[Collection[str]]
) -> Generator[None, None, list[Offer | None]]:
    """The offers of these devices; none if one of them is refused."""
    offers: list[Offer | None] = []
    left = node
    for number, (member, own) in enumerate(zip(members, devices, strict=True), 1):
        if number % OFFERS_PER_STEP == 0:
            yield
        query = member.wanted
        offer = _offer(node if query and query.ask.devices else left, member, own)
        if offer and query and in_parts(query):
            left = node_after(left, offer, query.ask.domain, query.ask.mode)  # the next one may be on the same device
        offers.append(offer)
    return [None for _ in members] if None in offers else offers


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


def _samples(node: Node) -> Matrix | None:
    """The bandwidths of the node's own devices, in their order; None unless they are known for all."""
    topology, places = node.topology, node.positions()
    if topology is None or not (topology.links or topology.bandwidth):
        return None
    if any(device.id not in places for device in node.devices):
        return None
    return among(fabric_of(topology.bandwidth, topology.links).values, [places[device.id] for device in node.devices])


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


def _without(sizes: tuple[int, ...], size: int) -> tuple[int, ...]:
    place = sizes.index(size)
    return sizes[:place] + sizes[place + 1 :]


def _share_a_node(first: Query, query: Query, *, certain: bool) -> bool:
    """Whether both are placed in one way, or are parts beside whole devices in one sharing mode."""
    same = (query.policy.name, in_parts(query)) == (first.policy.name, in_parts(first))
    # Whole devices can be counted if it is unknown which are in use; a part needs a device known to have room.
    return same or (certain and by_links(first) and in_parts(query) and query.ask.mode == first.ask.mode)

"""Plan construction: members and nodes become an outline, and the outline a node and devices for each member.

Plans are compared by class values, so that equal machines are equal; the levels that people read are measured. Bound: tables
of a node's own samples take a millisecond or two, so only plans on few nodes are measured.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import (
    NO_FLOORS,
    CountedHost,
    PartSize,
    PickedHost,
    Size,
    UncertainHost,
    by_links,
    in_parts,
)
from linkwise.engine.planning.parts import PartsHost, cards_of, weight_on
from linkwise.engine.planning.plan import Placement, Plan, likeness, model_of, most, plain, together
from linkwise.engine.planning.planner import fits, most_members, outline
from linkwise.engine.planning.problem import BoundSpot, GroupProblem, MemberKind, Spot
from linkwise.engine.planning.seating import alike, assigned, seated, way_of, with_others
from linkwise.engine.requirements import facts_key
from linkwise.model.node import FREE
from linkwise.model.verdict import Offer
from linkwise.policies.alignment import may_reject
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import SIZES, fabric_of
from linkwise.topology.machine import LARGEST_EXACT

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Hashable, Iterable, Sequence

    from linkwise.engine.index.score_table import Shape
    from linkwise.engine.planning.hosts import Arranged, Host, Hosts, Size
    from linkwise.engine.planning.parts import Cards
    from linkwise.engine.planning.plan import Member, Site, Task
    from linkwise.engine.planning.planner import Level, Outline
    from linkwise.engine.planning.problem import Counts
    from linkwise.engine.planning.seating import Way
    from linkwise.model.node import Mode, Node
    from linkwise.topology.fabric import Fabric

__all__ = ["MEASURED", "Making", "UsedNode", "make_plan", "measured"]

NODES_PER_STEP: Final = 200
"""nodes evaluated between two yields"""
PARTS_PER_STEP: Final = 1
"""the same for members with parts of devices: their nodes are seldom equal"""
HOSTS_RELEASED_PER_STEP: Final = 100
"""hosts of members with parts of devices that are released between two yields"""
RETRIES: Final = 8
"""nodes that may fail to seat their members: outlines use class values, which are coarser than what policies check"""
MEASURED: Final = 16
"""nodes of a plan that is measured; the levels of larger plans have class values only"""


def make_plan(task: Task, sites: Sequence[Site], hosts: Hosts) -> Generator[None, None, Plan | None]:
    """The plan; None if too few members fit."""
    making = Making(task, sites, hosts)
    plan = yield from making.run()
    yield from making.release()
    return plan


class Making:
    """Planner of one group; caches per node, so that `all_fit` is cheap when most nodes stay the same."""

    def __init__(self, task: Task, sites: Sequence[Site], hosts: Hosts) -> None:
        self._task = task
        self._hosts = hosts
        self._sites = {site.node.name: site for site in sites}
        members = sorted(task.members, key=lambda member: member.order)
        self._asking = [member for member in members if member.wanted]
        self._others = [member for member in members if not member.wanted]
        self._kinds: dict[Hashable, list[Member]] = {}
        for member in self._asking:
            self._kinds.setdefault(alike(member), []).append(member)
        self._order = sorted(self._kinds, key=lambda kind: _largest_first(self._kinds[kind][0]))
        first = [self._kinds[kind][0] for kind in self._order]
        self._asked = [member.wanted for member in first if member.wanted]
        self._demands = [member.demand for member in first]
        self._parts = [number for number, query in enumerate(self._asked) if in_parts(query)]
        """the kinds of members that get parts of devices"""
        self._domains = [self._asked[number].ask.domain for number in self._parts]
        self._sizes: list[Size] = []
        """what members of each kind get"""
        self._models = {model_of(node.site.node) for node in task.bound if node.site}
        self._bound_names = {node.name for node in task.bound}
        self._bound: tuple[BoundSpot, ...] = ()
        self._smallest = min((query.ask.devices for query in self._asked if query.ask.devices), default=0)
        self._plain = all(plain(member.demand) for member in first)
        # Caches of what is equal for many nodes.
        self._ways: dict[tuple[frozenset[str] | None, Mode, bool, bool], Way | None] = {}
        self._arranged: dict[tuple[Shape, int], Arranged] = {}
        self._parts_hosts: dict[Hashable, PartsHost] = {}
        self._cards: Cards = {}
        self._caps: dict[Hashable, Counts] = {}
        self._beside: dict[Hashable, bool] = {}
        self._known: dict[str, tuple[Site, Spot | None]] = {}

    @property
    def _wanted(self) -> Counts:
        return tuple(len(self._kinds[kind]) for kind in self._order)

    def run(self) -> Generator[None, None, Plan | None]:
        """The plan; None if too few members fit."""
        if self._task.minimum > len(self._task.members):
            return None
        spots = yield from self._spots()
        self._bound = yield from self._bound_spots()
        plan = yield from self._planned(spots, [self._wanted])
        if plan is None and self._task.minimum < len(self._task.members):
            fewer, proven = yield from self._most_that_fit(spots)
            enough = sum(fewer[0]) + len(self._others) >= max(1, self._task.minimum)
            plan = (yield from self._planned(spots, fewer, certain=proven)) if enough and any(fewer[0]) else None
        return plan

    def release(self) -> Generator[None, None, None]:
        """Release the hosts of differently used nodes in steps: thousands at once take longer than a step may."""
        self._known.clear()
        while self._parts_hosts:
            yield
            for _ in range(min(HOSTS_RELEASED_PER_STEP, len(self._parts_hosts))):
                self._parts_hosts.popitem()

    def all_fit(self, sites: Sequence[Site]) -> Generator[None, None, bool]:
        """Whether all members fit on these nodes by class values, without assigning devices."""
        self._sites = {site.node.name: site for site in sites}
        spots = yield from self._spots()
        self._bound = yield from self._bound_spots()
        if not self._asking:
            return True
        fit, _ = yield from fits(self._problem(spots, self._wanted))
        return fit

    def _planned(
        self, spots: tuple[Spot, ...], choices: Sequence[Counts], *, certain: bool = True
    ) -> Generator[None, None, Plan | None]:
        """The best plan for one of these choices of members; `certain` if no more of them can be placed."""
        if not any(choices[0]):
            return None if self._asking else (yield from self._finished({}, None))
        if self._is_single():
            return (yield from self._single(spots))
        for _ in range(RETRIES):
            best = yield from outline([self._problem(spots, counts) for counts in choices], certain=certain)
            if best is None:
                return None
            kinds = [self._kinds[kind][:count] for kind, count in zip(self._order, best.placed, strict=True)]
            placements = yield from assigned(self._sites, kinds, best.counts, self._task)
            if not isinstance(placements, str):
                return (yield from self._finished(placements, best))
            spots = tuple(spot for spot in spots if spot.name != placements)
        return None

    def _is_single(self) -> bool:
        """Whether one member is to be placed whose policy has an order of nodes of its own, and no other member matters."""
        task, first = self._task, self._asked[0]
        return len(self._asking) == 1 and not (task.bound or task.required or by_links(first) or in_parts(first))

    def _single(self, spots: tuple[Spot, ...]) -> Generator[None, None, Plan | None]:
        """The plan of one member: the node that its policy prefers, as for a pod without a group."""
        # rule 003.groups: a job of up to eight chips is one pod, which goes to the first node by the priority groups.
        (member,), query = self._asking, self._asked[0]
        scores: dict[Hashable, tuple[int, ...] | None] = {}
        best: dict[tuple[int, ...], str] = {}
        for number, spot in enumerate(sorted(spots, key=lambda spot: spot.name)):
            if number % NODES_PER_STEP == 0:
                yield
            site = self._sites[spot.name]
            if site.shape not in scores:
                offer = query.pick(site.node)
                scores[site.shape] = query.score(site.node, offer) if isinstance(offer, Offer) else None
            score = scores[site.shape]
            if score is not None:
                best.setdefault(score, spot.name)
        if not best:
            return None
        name = best[max(best)]
        (own,) = yield from seated(self._sites[name].node, frozenset(), [member], self._task.floor)
        return None if own is None else (yield from self._finished({member.pod: Placement(name, own)}, None))

    def _problem(self, spots: tuple[Spot, ...], counts: Counts) -> GroupProblem:
        kinds = tuple(map(MemberKind, self._sizes, counts))
        return GroupProblem(
            kinds,
            spots,
            self._task.levels,
            self._task.required,
            self._task.mixed,
            self._task.seed_order,
            self._task.floor,
            self._side_by_side,
            self._bound,
        )

    def _spots(self) -> Generator[None, None, tuple[Spot, ...]]:
        """The nodes that fit at least one member."""
        yield from self._set_sizes()
        spots, at_once = [], PARTS_PER_STEP if self._parts else NODES_PER_STEP
        for number, site in enumerate(self._sites.values()):
            if number % at_once == 0:
                yield
            known = self._known.get(site.node.name)
            if known is None or known[0] is not site:
                known = self._known[site.node.name] = (site, self._spot(site))
            spots.append(known[1])
        return tuple(spot for spot in spots if spot)

    def _set_sizes(self) -> Generator[None, None, None]:
        """Determine what members of each kind get; parts as the least fraction of any device."""
        memory = size = 0
        for number, site in enumerate(self._sites.values() if self._parts else ()):
            if number % NODES_PER_STEP == 0:
                yield
            memory = max([memory, *(device.memory for device in site.node.devices)])
            size = max([size, *(device.bytes for device in site.node.devices)])
        order = {number: place for place, number in enumerate(self._parts)}
        sizes: list[Size] = [
            PartSize(order[number], weight_on(query.ask, memory, size)) if number in order else query.ask.devices
            for number, query in enumerate(self._asked)
        ]
        if sizes != self._sizes:  # a larger device has come, or the largest has gone
            self._known.clear()
            self._sizes = sizes

    def _bound_spots(self) -> Generator[None, None, tuple[BoundSpot, ...]]:
        """The nodes of bound members, with what their devices mean for every plan."""
        spots = []
        for number, node in enumerate(sorted(self._task.bound)):
            if number % NODES_PER_STEP == 0:
                yield
            site = self._sites.get(node.name, node.site)
            free = max(0, len(site.node.free()) - site.node.unattributed) if site else 0
            speed = self._hosts.slowest(site.node, site.shape, site.held) if site else inf
            spots.append(BoundSpot(node.name, node.path, node.members, free, speed))
        return tuple(spots)

    def _spot(self, site: Site) -> Spot | None:
        """The node as a host; if members are placed in different ways, it takes those placed as the largest is."""
        if self._models and not self._task.mixed and site.model not in self._models:
            return None
        fits_whole = site.shape.free.bit_count() >= self._smallest
        service = (site.served, site.node.mode, fits_whole, not site.shape.unattributed)
        if service not in self._ways:
            able = {
                number: query
                for number, query in enumerate(self._asked)
                if site.serves(query) and (fits_whole or in_parts(query))
            }
            self._ways[service] = way_of(able, certain=not site.shape.unattributed)
        way = self._ways[service]
        if way is None:
            return None
        host = self._host(site, way)
        like = self._like(site)
        limits = tuple(
            min(count, host.at_most(size, NO_FLOORS)) if number in way.asked else 0
            for number, (size, count) in enumerate(zip(self._sizes, self._wanted, strict=True))
        )
        caps = None if like is None else self._caps.get((like, limits))
        if caps is None:
            # The number of members of each kind that fit by all but links, if only that kind is placed there.
            pairs = zip(self._demands, limits, strict=True)
            caps = self._caps[like, limits] = tuple(most(demand, site.ground, limit) for demand, limit in pairs)
        fresh = site.node.name not in self._bound_names
        return Spot(site.node.name, host, caps, site.path, site.model, fresh, like) if any(caps) else None

    def _host(self, site: Site, way: Way) -> Host:
        whole = any(not in_parts(query) for query in way.asked.values())
        asks = {self._sizes[number]: query for number, query in reversed(tuple(way.asked.items()))}
        if not way.by_links or (whole and may_reject(site.node)):
            # What a policy gives of used devices is not part of a shape.
            known = {} if way.in_parts else self._arranged.setdefault((site.shape, id(way)), {})
            return PickedHost(site.node, asks, known)
        held = site.held
        host = self._parts_host(site, way) if way.in_parts else self._hosts.linked(site.node, site.shape, held)
        unlinked = isinstance(host, CountedHost) or (isinstance(host, PartsHost) and not host.links)
        return UncertainHost(site.node, asks, self._task.floor) if self._task.floor and whole and unlinked else host

    def _parts_host(self, site: Site, way: Way) -> PartsHost:
        """The host of members with parts of devices, one for all nodes with equal devices in equal use."""
        node, held = site.node, site.held
        # All that a policy may consider, except for the use of each device.
        unattributed = (node.unattributed, node.unattributed_share, node.unattributed_core)
        like = (site.shape.build, node.mode, unattributed, facts_key(node), id(way))
        uses = tuple(node.used.get(device.id, FREE) for device in node.devices)
        taken = mask_of(place for place, device in enumerate(node.devices) if device.id in held) if held else 0
        if (like, uses, taken) not in self._parts_hosts:
            asked = [way.asked.get(number) for number in self._parts]
            cards = cards_of(node, asked, held if self._task.distinct else (), self._cards, like)
            values = self._hosts.values(node, site.shape)
            host = PartsHost(
                values,
                cards,
                self._domains,
                taken,
                distinct=self._task.distinct,
                fewest_first=self._task.seed_order,
            )
            self._parts_hosts[like, uses, taken] = host
        return self._parts_hosts[like, uses, taken]

    def _side_by_side(self, name: str, counts: Counts) -> bool:
        site = self._sites[name]
        like = self._like(site)
        fit = None if like is None else self._beside.get((like, counts))
        if fit is None:
            fit = self._beside[like, counts] = together(zip(self._demands, counts, strict=True), site.ground)
        return fit

    def _like(self, site: Site) -> Hashable:
        return likeness(site.ground) if self._plain else None

    def _most_that_fit(self, spots: tuple[Spot, ...]) -> Generator[None, None, tuple[list[Counts], bool]]:
        """The members that fit if not all do, and whether it is proven that no others can be placed in their stead.

        Of a gang as many as possible, which may be several choices, those with the first ranks first; otherwise greedily
        by rank.
        """
        if self._task.gang or len(self._order) == 1:
            choices, proven = yield from most_members(self._problem(spots, self._wanted))
            return sorted(choices, key=self._ranks) or [tuple(0 for _ in self._order)], proven
        # rule 001.tolerant: without a gang, members that fit run first.
        chosen: Counter[Hashable] = Counter()
        full: set[Hashable] = set()
        certain = True
        for member in self._asking:
            kind = alike(member)
            if kind in full:
                continue
            chosen[kind] += 1
            counts = tuple(chosen[kind] for kind in self._order)
            fit, proven = yield from fits(self._problem(spots, counts))
            if not fit:
                certain &= proven
                chosen[kind] -= 1
                full.add(kind)
        return [tuple(chosen[kind] for kind in self._order)], certain

    def _ranks(self, counts: Counts) -> list[tuple[object, ...]]:
        """The ranks of the members that these counts place."""
        placed = [self._kinds[kind][:count] for kind, count in zip(self._order, counts, strict=True)]
        return sorted(member.order for members in placed for member in members)

    def _finished(self, placements: dict[str, Placement], best: Outline | None) -> Generator[None, None, Plan]:
        levels = best.levels if best else ()
        if all(by_links(query) or in_parts(query) for query in self._asked):
            used = self._used_nodes(placements)
            levels = (yield from measured(levels, used)) if len(used) <= MEASURED else levels
        placements = with_others(self._sites, placements, self._asking, self._others)
        missing = tuple(member.pod for member in self._asking if member.pod not in placements)
        return Plan(placements, levels, best.region if best else (), missing)

    def _used_nodes(self, placements: dict[str, Placement]) -> list[UsedNode]:
        """The nodes of a plan and of bound members whose devices are known."""
        members: dict[str, list[tuple[str, ...]]] = {node.name: [] for node in self._task.bound}
        for placement in placements.values():
            if placement.offer:
                members.setdefault(placement.node, []).append(placement.offer.devices)
        sites = {node.name: node.site for node in self._task.bound} | self._sites
        return [UsedNode(site, own) for name, own in members.items() if (site := sites.get(name))]


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


def _largest_first(member: Member) -> tuple[int, ...]:
    """Sort key of members: whole devices before parts, the largest first."""
    ask = member.wanted.ask if member.wanted else None
    return (-ask.devices, -ask.share, -ask.core) if ask else ()


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

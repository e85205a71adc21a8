"""Making a plan: from members and nodes to an outline, and from the outline to a node and devices for each member."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.engine.planning.assign_members import alike, assigned, way_of, with_others
from linkwise.engine.planning.hosts import CountedHost, PickedHost, UncertainHost, in_parts
from linkwise.engine.planning.node_capacity import likeness, most, plain, together
from linkwise.engine.planning.plan import Plan
from linkwise.engine.planning.planner import fits, outline
from linkwise.engine.planning.problem import GroupProblem, MemberKind, Spot

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.assign_members import Way
    from linkwise.engine.planning.hosts import Host, Hosts
    from linkwise.engine.planning.plan import Member, Placement
    from linkwise.engine.planning.planner import Outline
    from linkwise.engine.planning.problem import Counts
    from linkwise.engine.planning.task import Site, Task
    from linkwise.model.node import Mode

__all__ = ["Making", "make_plan"]

AT_ONCE: Final = 200
"""nodes looked at between two steps"""
RETRIES: Final = 8
"""nodes that may turn out not to seat what they were chosen for: classes are coarser than what policies look at"""


def make_plan(task: Task, sites: Sequence[Site], hosts: Hosts) -> Generator[None, None, Plan | None]:
    """The plan; None if too few members fit."""
    return (yield from Making(task, sites, hosts).run())


class Making:
    """A group that is planned once, or asked again and again whether it fits where most of the nodes stay the same."""

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
        self._order = sorted(self._kinds, key=lambda kind: -self._kinds[kind][0].size)
        first = [self._kinds[kind][0] for kind in self._order]
        self._asked = [member.wanted for member in first if member.wanted]
        self._sizes = [
            (member.size, member.demand, len(self._kinds[kind]))
            for kind, member in zip(self._order, first, strict=True)
        ]
        self._smallest = min((wanted.ask.devices for wanted in self._asked if wanted.ask.devices), default=0)
        self._plain = all(plain(member.demand) for member in first)
        # What is the same for many nodes is worked out once.
        self._ways: dict[tuple[frozenset[str] | None, Mode, bool, bool], Way | None] = {}
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
        plan = yield from self._planned(spots, self._wanted)
        if plan is None and self._task.minimum < len(self._task.members):
            fewer = yield from self._those_that_fit(spots)
            enough = sum(fewer) + len(self._others) >= max(1, self._task.minimum)
            plan = (yield from self._planned(spots, fewer)) if enough and any(fewer) else None
        return plan

    def all_fit(self, sites: Sequence[Site]) -> Generator[None, None, bool]:
        """Whether all members fit on these nodes by all but their own samples of links; who gets what is left open."""
        self._sites = {site.node.name: site for site in sites}
        spots = yield from self._spots()
        return not self._asking or (yield from fits(self._problem(spots, self._wanted)))

    def _planned(self, spots: tuple[Spot, ...], counts: Counts) -> Generator[None, None, Plan | None]:
        if not any(counts):
            return None if self._asking else self._finished({}, None)
        kinds = [self._kinds[kind][:count] for kind, count in zip(self._order, counts, strict=True)]
        for _ in range(RETRIES):
            found = yield from outline(self._problem(spots, counts))
            if found is None:
                return None
            placements = yield from assigned(self._sites, kinds, found.counts, self._task.floor)
            if not isinstance(placements, str):
                return self._finished(placements, found)
            spots = tuple(spot for spot in spots if spot.name != placements)
        return None

    def _problem(self, spots: tuple[Spot, ...], counts: Counts) -> GroupProblem:
        kinds = tuple(
            MemberKind(self._kinds[kind][0].size, count) for kind, count in zip(self._order, counts, strict=True)
        )
        return GroupProblem(
            kinds,
            spots,
            self._task.levels,
            self._task.required,
            self._task.mixed,
            self._task.seed_order,
            self._task.floor,
            self._side_by_side,
        )

    def _spots(self) -> Generator[None, None, tuple[Spot, ...]]:
        """The nodes that could take any member at all."""
        found = []
        for number, site in enumerate(self._sites.values()):
            if number % AT_ONCE == 0:
                yield
            known = self._known.get(site.node.name)
            if known is None or known[0] is not site:
                known = self._known[site.node.name] = (site, self._spot(site))
            found.append(known[1])
        return tuple(spot for spot in found if spot)

    def _spot(self, site: Site) -> Spot | None:
        """The node as a host; of members that are placed in different ways it takes those that are like the largest."""
        if self._task.fixed and not self._task.mixed and site.model not in self._task.fixed:
            return None
        roomy = site.shape.free.bit_count() >= self._smallest
        asked = (site.served, site.node.mode, roomy, not site.shape.unattributed)
        if asked not in self._ways:
            able = [wanted for wanted in self._asked if site.serves(wanted) and (roomy or in_parts(wanted))]
            self._ways[asked] = way_of(able, certain=not site.shape.unattributed)
        way = self._ways[asked]
        if way is None:
            return None
        host = self._host(site, way)
        like = self._like(site)
        key = (like, host.room, asked)
        caps = None if like is None else self._caps.get(key)
        if caps is None:
            caps = self._caps[key] = self._caps_of(site, host, way.asked)
        return Spot(site.node.name, host, caps, site.path, site.model, not site.held, like) if any(caps) else None

    def _caps_of(self, site: Site, host: Host, asked: Sequence[Query]) -> Counts:
        """How many members of each kind the node could take by all but links, if they came alone."""
        caps = []
        for wanted, (size, demand, count) in zip(self._asked, self._sizes, strict=True):
            limit = min(count, max(0, host.room) // size) if wanted in asked else 0
            caps.append(most(demand, site.ground, limit))
        return tuple(caps)

    def _host(self, site: Site, way: Way) -> Host:
        if way.in_parts:
            return self._hosts.in_parts(site.node, site.shape, site.held, way.asked)
        asks = {wanted.ask.devices or 1: wanted for wanted in reversed(way.asked)}
        if not way.by_links:
            return PickedHost(site.node, asks)
        host = self._hosts.linked(site.node, site.shape, site.held)
        if self._task.floor and isinstance(host, CountedHost):
            return UncertainHost(site.node, asks, self._task.floor)
        return host

    def _side_by_side(self, name: str, counts: Counts) -> bool:
        site = self._sites[name]
        like = self._like(site)
        found = None if like is None else self._beside.get((like, counts))
        if found is None:
            demands = [(demand, count) for (_, demand, _), count in zip(self._sizes, counts, strict=True)]
            found = self._beside[like, counts] = together(demands, site.ground)
        return found

    def _like(self, site: Site) -> Hashable:
        return likeness(site.ground) if self._plain else None

    def _those_that_fit(self, spots: tuple[Spot, ...]) -> Generator[None, None, Counts]:
        """In the order of ranks, each that still fits beside those kept."""
        # rule 001.tolerant: without a gang, members that fit run first.
        if len(self._order) == 1:
            return (yield from self._first_that_fit(spots))
        kept: Counter[Hashable] = Counter()
        full: set[Hashable] = set()
        for member in self._asking:
            kind = alike(member)
            if kind in full:
                continue
            kept[kind] += 1
            counts = tuple(kept[kind] for kind in self._order)
            if not (yield from fits(self._problem(spots, counts))):
                kept[kind] -= 1
                full.add(kind)
        return tuple(kept[kind] for kind in self._order)

    def _first_that_fit(self, spots: tuple[Spot, ...]) -> Generator[None, None, Counts]:
        """How many of equal members fit, by bisection: fewer always do."""
        low, high = 0, len(self._asking)
        while low < high:
            middle = (low + high + 1) // 2
            found = yield from fits(self._problem(spots, (middle,)))
            low, high = (middle, high) if found else (low, middle - 1)
        return (low,)

    def _finished(self, placements: dict[str, Placement], found: Outline | None) -> Plan:
        placements = with_others(self._sites, placements, self._asking, self._others)
        missing = tuple(member.pod for member in self._asking if member.pod not in placements)
        return Plan(placements, found.levels if found else (), found.region if found else (), missing)

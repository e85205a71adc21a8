"""Input of the group planner: members by kind, the nodes that could host some of them, and the network regions they form.

A region is the narrowest domain that a group fits in, or the fewest of the narrowest domains. Bound: nodes that are equal
as hosts are one `Case`, so that thousands of nodes are a few cases with counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb, inf
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import weight_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Sequence

    from linkwise.engine.planning.hosts import Host, Loss, Size, Sizes

__all__ = [
    "SUBSETS",
    "BoundSpot",
    "Case",
    "Cost",
    "Counts",
    "Domain",
    "GroupProblem",
    "MemberKind",
    "Options",
    "Rack",
    "Region",
    "Spot",
    "bound_domains",
    "children",
    "several",
    "start_regions",
]


Counts = tuple[int, ...]
"""members of each kind"""
Place = tuple[tuple[str, ...], str]
"""network domains and name of a node"""
Cost = tuple[int, ...]
"""good sets that other pods lose, the largest first, free devices taken and left over; compared in order"""
Domain = tuple[str, str]
"""the domain of a node at a level; a node without the level's label is a domain of its own, by its name"""

NODES_PER_STEP: Final = 1000
"""nodes grouped between two yields"""
SUBSETS: Final = 3000
"""sets of domains that are tried; beyond them the largest domains go first, and the level is not proven"""


@dataclass(frozen=True, slots=True)
class MemberKind:
    """Members that are equal except for their name."""

    size: Size
    """what each member gets"""
    count: int

    @property
    def weight(self) -> float:
        """The number of devices that each member takes at least."""
        return weight_of(self.size)


class Spot(NamedTuple):
    """A node as a host of members."""

    name: str
    host: Host
    caps: Counts
    """members of each kind that fit by CPU, memory and all other constraints, if only that kind is placed there"""
    path: tuple[str, ...] = ()
    """its network domains, the broadest first"""
    model: str = ""
    """of its devices"""
    fresh: bool = True
    """whether no member is bound there yet; only such nodes increase the number of nodes"""
    like: Hashable = None
    """nodes with an equal value fit the same combinations of members; None if that is unknown"""


class BoundSpot(NamedTuple):
    """A node where members are bound, with room for others or without."""

    name: str
    path: tuple[str, ...] = ()
    members: int = 1
    free: int = 0
    """free devices"""
    speed: float = inf  # GB/s
    """the class value of the slowest pair of the group's devices there"""


class Case(NamedTuple):
    """Nodes that are equal as hosts."""

    host: Host
    caps: Counts
    fresh: bool


@dataclass(slots=True)
class Options:
    """Combinations of members that equal nodes could take, and what is known of them."""

    possible: list[tuple[Counts, float]]
    """those that are not refused, with the number of devices that they need at least"""
    fitting: dict[Counts, bool] = field(default_factory=dict)
    """whether they fit, of those for which that was needed"""
    costs: dict[Counts, Cost | None] = field(default_factory=dict)
    """the cost of those for which that was needed; None if they don't fit"""


class Rack:
    """Nodes of one network path, grouped by case."""

    __slots__ = ("_firsts", "cases", "path")

    def __init__(self, path: tuple[str, ...], spots: Iterable[Spot] = ()) -> None:
        self.path = path
        self.cases: dict[Case, list[Spot]] = {}
        self._firsts: dict[Case, Place] = {}
        for spot in spots:
            self.put(spot)

    def put(self, spot: Spot) -> None:
        """Add a node; all nodes must be added before a region reads the rack."""
        case = Case(spot.host, spot.caps, spot.fresh)
        alike = self.cases.get(case)
        if alike is None:
            self.cases[case] = [spot]
        else:
            alike.append(spot)

    def spots(self) -> list[Spot]:
        """All nodes, by name."""
        return sorted((spot for alike in self.cases.values() for spot in alike), key=_name)

    def counts(self) -> Iterable[tuple[Case, int]]:
        """The number of nodes of each case."""
        return ((case, len(alike)) for case, alike in self.cases.items())

    def firsts(self) -> dict[Case, Place]:
        """The first node of each case."""
        if not self._firsts:
            self._firsts = {case: (self.path, min(alike, key=_name).name) for case, alike in self.cases.items()}
        return self._firsts


class Region:
    """The nodes that a plan may use: some racks, or the union of other regions."""

    def __init__(self, path: tuple[str, ...], racks: Sequence[Rack] = (), parts: Sequence[Region] = ()) -> None:
        self.path = path
        self._racks = racks
        self._parts = parts
        self._spots: tuple[Spot, ...] = ()
        self._cases: Counter[Case] = Counter()
        self._firsts: dict[Case, Place] = {}
        self._largest: tuple[list[Spot], list[Spot]] | None = None

    @property
    def racks(self) -> Sequence[Rack]:
        """The racks of its nodes."""
        if self._parts and not self._racks:
            self._racks = [rack for part in self._parts for rack in part.racks]
        return self._racks

    @property
    def spots(self) -> tuple[Spot, ...]:
        """All nodes, rack by rack and by name."""
        if not self._spots:
            self._spots = tuple(spot for rack in self.racks for spot in rack.spots())
        return self._spots

    @property
    def cases(self) -> Counter[Case]:
        """The number of nodes of each case."""
        if not self._cases:
            for part in self._parts or self._racks:
                for case, count in part.counts():
                    self._cases[case] += count
        return self._cases

    def counts(self) -> Iterable[tuple[Case, int]]:
        """The items of `cases`."""
        return self.cases.items()

    def firsts(self) -> dict[Case, Place]:
        """The first node of each case, by domain and name."""
        if not self._firsts:
            for part in self._parts or self._racks:
                for case, place in part.firsts().items():
                    known = self._firsts.get(case)
                    if known is None or place < known:
                        self._firsts[case] = place
        return self._firsts

    def names(self, case: Case) -> Iterator[str]:
        """The nodes of one case, by domain and name."""
        by_path: dict[tuple[str, ...], list[str]] = {}
        for rack in self.racks:
            if case in rack.cases:
                by_path.setdefault(rack.path, []).extend(spot.name for spot in rack.cases[case])
        for path in sorted(by_path):
            yield from sorted(by_path[path])

    def largest(self, count: int) -> list[Spot]:
        """All nodes with bound members, then the `count` fresh nodes with the most free devices."""
        if not self._largest:
            fresh = [spot for spot in self.spots if spot.fresh]
            fresh.sort(key=lambda spot: (-spot.host.room, spot.path, spot.name))
            self._largest = ([spot for spot in self.spots if not spot.fresh], fresh)
        bound, fresh = self._largest
        return [*bound, *fresh[:count]]

    def devices(self) -> float:
        """The number of devices that members can get, those of which they can get a part in part."""
        return sum(case.host.room * count for case, count in self.cases.items())

    def __len__(self) -> int:
        return self.cases.total()


def _name(spot: Spot) -> str:
    return spot.name


def _always(name: str, counts: Counts) -> bool:
    del name, counts
    return True


@dataclass(frozen=True, slots=True)
class GroupProblem:
    """The members to place, the candidate nodes and the constraints."""

    kinds: tuple[MemberKind, ...]
    """the largest first"""
    spots: tuple[Spot, ...]
    levels: tuple[str, ...] = ()
    """names of the network levels, the broadest first, one per element of a spot's path"""
    required: int = 0
    """the number of levels, from the broadest, at which the group must be in one domain"""
    mixed: bool = False
    """whether devices of different models may serve one group"""
    seed_order: bool = False
    """whether fewer left-over devices go before bandwidth, as in the original design"""
    floor: float = 0.0  # GB/s
    """the least bandwidth between the devices of a member"""
    together: Callable[[str, Counts], bool] = field(default=_always)
    """whether a node fits members of several kinds at once by CPU, memory and all other constraints"""
    bound: tuple[BoundSpot, ...] = ()
    """the nodes of bound members, by name"""
    options: dict[Hashable, Options] = field(default_factory=dict, repr=False, compare=False)
    """cache of the combinations of members that nodes fit"""
    _sizes: dict[Counts, Sizes] = field(default_factory=dict, repr=False, compare=False)
    _devices: dict[Counts, float] = field(default_factory=dict, repr=False, compare=False)

    @property
    def wanted(self) -> Counts:
        """The number of members of each kind."""
        return tuple(kind.count for kind in self.kinds)

    @property
    def speed(self) -> float:
        """The bottleneck of the bound members' devices on a node, which no plan can exceed, in GB/s."""
        return min((node.speed for node in self.bound), default=inf)

    @property
    def left(self) -> int:
        """Free devices on the nodes of bound members."""
        return sum(node.free for node in self.bound)

    def home(self) -> tuple[str, ...]:
        """The domains of required levels in which members are bound, as far down as their nodes have labels.

        Bound members that are in several can't be moved, so the others join most of them: level by level the domain
        with the most bound members, of equal ones the first.
        """
        home: tuple[str, ...] = ()
        nodes = self.bound
        for level in range(self.required):
            nodes = tuple(node for node in nodes if node.path[level])
            members: Counter[str] = Counter()
            for node in nodes:
                members[node.path[level]] += node.members
            if not members:
                break
            home = (*home, min(members, key=lambda domain: (-members[domain], domain)))
            nodes = tuple(node for node in nodes if node.path[level] == home[-1])
        return home

    def cost(self, loss: Loss, free: int) -> Cost:
        """The cost of a choice, in the order of comparison; `free` are the devices of a node that it begins to use."""
        # rule 001.left-over: among equals the nodes with fewer devices left over; in seed order before bandwidth.
        *sets, taken = loss
        return (taken, free - taken, *sets) if self.seed_order else (*sets, taken, free - taken)

    def residual(self, cost: Cost) -> Loss:
        """The good sets lost, as part of a cost."""
        return cost[2:] if self.seed_order else cost[:-2]

    def left_over(self, cost: Cost) -> int:
        """The free devices on the nodes of a plan, the bound ones included, as part of its cost."""
        return self.left + (cost[1] if self.seed_order else cost[-1])

    def devices(self, counts: Counts) -> float:
        """The number of devices that these members need at least."""
        known = self._devices.get(counts)
        if known is None:
            known = self._devices[counts] = sum(
                [count * weight_of(kind.size) for kind, count in zip(self.kinds, counts, strict=True) if count]
            )
        return known

    def sizes(self, counts: Counts) -> Sizes:
        """What each of these members gets, the largest first."""
        known = self._sizes.get(counts)  # cached: called very often with few different counts
        if known is None:
            pairs = zip(self.kinds, counts, strict=True)
            known = self._sizes[counts] = tuple(kind.size for kind, count in pairs for _ in range(count))
        return known


def start_regions(problem: GroupProblem) -> Generator[None, None, list[Region]]:
    """The allowed regions: one device model, and one domain at every required level, that of bound members."""
    racks = yield from _racks(problem)
    home = problem.home()
    regions: dict[tuple[str, ...], list[Rack]] = {}
    for model, path in sorted(racks):  # sorted, so that ties do not depend on the order of nodes
        if path[: len(home)] == home:
            regions.setdefault((model, *path[: problem.required]), []).append(racks[model, path])
    return [Region(key[1:], own) for key, own in sorted(regions.items(), key=itemgetter(0))]


def _racks(problem: GroupProblem) -> Generator[None, None, dict[tuple[str, tuple[str, ...]], Rack]]:
    """The nodes that fit at least one member, by model and path."""
    smallest, required, mixed = min(kind.weight for kind in problem.kinds), problem.required, problem.mixed
    racks: dict[tuple[str, tuple[str, ...]], Rack] = {}
    for number, spot in enumerate(problem.spots):
        if number % NODES_PER_STEP == 0:
            yield
        path = spot.path
        if not any(spot.caps) or spot.host.room < smallest:
            continue
        if "" in path[:required]:
            continue  # the node lacks the label of a required level
        key = ("" if mixed else spot.model, path)
        if key not in racks:
            racks[key] = Rack(path)
        racks[key].put(spot)
    return racks


def bound_domains(problem: GroupProblem, level: int) -> set[Domain]:
    """The domains of bound members at a level."""
    return {(node.path[level], "" if node.path[level] else node.name) for node in problem.bound}


def children(region: Region, level: int, bound: Collection[Domain] = ()) -> dict[Domain, Region]:
    """The domains of a region at a level, and those of bound members, which may have no room."""
    domains: dict[Domain, list[Rack]] = {domain: [] for domain in bound}
    for rack in region.racks:
        domain = rack.path[level]
        if domain:
            domains.setdefault((domain, ""), []).append(rack)
        else:
            domains |= {("", spot.name): [Rack(rack.path, [spot])] for spot in rack.spots()}
    return {
        (domain, name): Region((*region.path, domain or name), racks)
        for (domain, name), racks in sorted(domains.items(), key=itemgetter(0))
    }


def several(domains: dict[Domain, Region], bound: Collection[Domain], count: int) -> tuple[Iterator[Region], bool]:
    """All unions of `count` domains with the bound ones, and whether these are all; at most SUBSETS are returned."""
    own = [domains[domain] for domain in sorted(bound)]
    others = [region for domain, region in domains.items() if domain not in bound]
    more = count - len(own)
    complete = comb(len(others), more) <= SUBSETS
    order = others if complete else sorted(others, key=lambda region: -len(region))
    chosen = combinations(order, more) if complete else islice(combinations(order, more), SUBSETS)
    return (_union([*own, *rest]) for rest in chosen), complete


def _union(regions: Sequence[Region]) -> Region:
    path = tuple(sorted("+".join(region.path[-1:]) for region in regions))
    return Region((*regions[0].path[:-1], "+".join(path)), parts=regions)

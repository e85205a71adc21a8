"""Group planner: a sequence of levels, each of which keeps the best plans for the levels after it.

Plans are never compared in pairs: values within 5% count as equal, and "nearly equal" is not transitive. If not all
members fit, several choices of members may be equally many; they go through the levels together, one branch each. Every
`yield` lets the caller interrupt the planning. Source: seed 001, "Pick GPUs of Node"; the order of bandwidth and left-over
devices is corrected, `seed_order` restores the original.

A branch answers groups of equal members exactly by slots, small unequal ones by a table, and large unequal ones by packing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import NOTHING_LOST, CountedHost, Floors, LinkedHost
from linkwise.engine.planning.problem import MemberKind, bound_domains, children, several, start_regions
from linkwise.engine.planning.spread import (
    equal_fewest,
    equal_most,
    equal_spread,
    exact_fewest,
    exact_spread,
    largest_counts,
)
from linkwise.engine.planning.spread_packed import Budget, fewest_bound, packed_fewest, packed_on, packed_spread
from linkwise.topology.fabric import NEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from linkwise.engine.planning.hosts import Host
    from linkwise.engine.planning.problem import Cost, Counts, Domain, GroupProblem, Region
    from linkwise.engine.planning.spread import Spread

__all__ = ["LEVELS", "TABLE", "Branch", "Fewest", "Level", "Outline", "fits", "most_members", "outline"]

LEVELS: Final = ("placed", "nodes", "network", "bottleneck", "per pod", "residual", "left-over")
TABLE: Final = 20_000
"""the exact table is built up to this product of nodes and combinations of members"""
MOST_CHOICES: Final = 64
"""choices of equally many members that are compared"""


@dataclass(frozen=True, slots=True)
class Level:
    """The value of a plan at one level, and whether it is proven to be the best by class values.

    A level is proven only if no better plan can have been lost at a level before it.
    """

    name: str
    value: tuple[float, ...]
    proven: bool = True
    shown: tuple[float, ...] = ()
    """the same of the devices chosen, by the samples of their nodes, where that was measured"""


@dataclass(frozen=True, slots=True)
class Outline:
    """The number of members of each kind per node; devices are chosen later, by the node's own samples."""

    counts: dict[str, Counts]
    levels: tuple[Level, ...]
    region: tuple[str, ...] = ()
    floors: Floors = field(default_factory=Floors)
    placed: Counts = ()
    """the number of members of each kind"""


def outline(
    problems: Sequence[GroupProblem], table: int = TABLE, *, certain: bool = True
) -> Generator[None, None, Outline | None]:
    """The best outline of any of these problems, which differ in the members to place; None if none of them fits.

    Args:
        problems: choices of equally many members, the preferred first.
        table: the limit of the exact table.
        certain: whether it is proven that no more members can be placed.
    """
    return (yield from _Planning(problems, table, certain=certain).run())


def fits(problem: GroupProblem, table: int = TABLE) -> Generator[None, None, tuple[bool, bool]]:
    """Whether all members fit, in any way, and whether that is proven."""
    branch, floors = Branch(problem, table), Floors(member=problem.floor)
    proven = True
    for region in (yield from start_regions(problem)):
        fewest = yield from branch.fewest(region, floors)
        if fewest.nodes is not None:
            return True, True
        proven &= fewest.least is None
    return False, proven


def most_members(problem: GroupProblem, table: int = TABLE) -> Generator[None, None, tuple[list[Counts], bool]]:
    """The choices of the most members that fit at once, and whether that is proven; the problem has all members."""
    regions, floors = (yield from start_regions(problem)), Floors(member=problem.floor)
    branch = Branch(problem, table)
    if len(problem.kinds) == 1:
        equal = 0
        for region in regions:
            equal = max(equal, (yield from equal_most(problem, region, floors)))
        return [(equal,)], branch.exact()
    if not all(map(branch.small, regions)):
        return (yield from _most_small_members(problem, table))
    fronts: set[Counts] = set()
    for region in regions:
        fronts |= yield from largest_counts(problem, region, floors)
    most = max(map(sum, fronts), default=0)
    choices = sorted((counts for counts in fronts if sum(counts) == most), reverse=True)
    return choices[:MOST_CHOICES], branch.exact() and len(choices) <= MOST_CHOICES


class _Choice(NamedTuple):
    """Members to place, and where."""

    branch: Branch
    region: Region


class _Planning:
    """One run through the levels."""

    def __init__(self, problems: Sequence[GroupProblem], table: int, *, certain: bool) -> None:
        self._problem = problems[0]
        """for everything that does not depend on the members"""
        self._branches = [Branch(problem, table) for problem in problems]
        self._floors = Floors(member=self._problem.floor)
        """the bandwidth that every plan must have"""
        self._levels: list[Level] = []
        self._certain = certain
        """whether no better plan can have been lost so far"""
        self._around: list[_Choice] = []
        """supersets of all regions in question: a group that does not fit there fits nowhere"""

    def run(self) -> Generator[None, None, Outline | None]:
        certain = self._certain
        choices, nodes = yield from self._fewest_nodes()
        if nodes is None:
            return None
        choices = yield from self._closest(choices, nodes)
        left = (yield from self._least_left(choices, nodes)) if self._problem.seed_order else None
        floors = yield from self._speeds(choices, nodes, left)
        best, proven = yield from self._cheapest(choices, nodes, floors)
        if best is None:
            return None
        (branch, region), spread = best
        self._note("residual", branch.problem.residual(spread.cost), proven=proven)
        if not self._problem.seed_order:
            self._note("left-over", (branch.problem.left_over(spread.cost),), proven=proven)
        placed = branch.problem.wanted
        levels = (Level("placed", tuple(map(float, placed)), certain), *self._levels)
        return Outline(spread.named(region), levels, region.path, floors, placed)

    def _note(self, name: str, value: tuple[float, ...], *, proven: bool = True, lost: bool = False) -> None:
        """Record a level; `lost` if an equally good plan was dropped without proof that it does not fit."""
        self._levels.append(Level(name, value, proven and self._certain))
        self._certain &= proven and not lost

    def _fewest_nodes(self) -> Generator[None, None, tuple[list[_Choice], int | None]]:
        """The choices with the fewest nodes, and that number."""
        answers = []
        for branch in self._branches:
            for region in (yield from start_regions(branch.problem)):
                fewest = yield from branch.fewest(region, self._floors)
                answers.append((_Choice(branch, region), fewest))
        # rule 001.fewest-nodes: one node, otherwise two, up to one per pod.
        least = min((fewest.nodes for _, fewest in answers if fewest.nodes is not None), default=None)
        if least is None:
            return [], None
        bounds = [fewest.least for _, fewest in answers if fewest.nodes != least and fewest.least is not None]
        proven = all(fewest.least is None or fewest.least >= least for _, fewest in answers)
        self._note("nodes", (least + len(self._problem.bound),), proven=proven, lost=any(b <= least for b in bounds))
        return [choice for choice, fewest in answers if fewest.nodes == least], least

    def _closest(self, choices: list[_Choice], nodes: int) -> Generator[None, None, list[_Choice]]:
        """The narrowest domains, level by level, down to the first level at which more than one is needed.

        Those of bound members count at every level, also where they have no room.
        """
        counts: list[float] = []
        proven, lost = True, False
        for level in range(len(self._problem.levels)):
            bound = bound_domains(self._problem, level)
            if level < self._problem.required:
                counts.append(float(max(len(bound | {(choice.region.path[level], "")}) for choice in choices)))
                if counts[-1] > 1:
                    break
                continue
            domains = [(branch, children(region, level, bound)) for branch, region in choices]
            single = [
                _Choice(branch, siblings[key])
                for branch, siblings in domains
                for key in (bound or siblings if len(bound) <= 1 else ())
            ]
            fitting, doubt = yield from self._that_fit(single, nodes)
            counts.append(1.0)
            if not fitting:
                self._around = choices
                fitting, counts[-1], sure, dropped = yield from self._fewest_domains(domains, bound, nodes)
                choices, proven, lost = fitting or choices, sure and not doubt, lost or dropped
                break
            choices, lost = fitting, lost or doubt
        self._note("network", tuple(counts), proven=proven, lost=lost)
        return choices

    def _fewest_domains(
        self, domains: list[tuple[Branch, dict[Domain, Region]]], bound: set[Domain], nodes: int
    ) -> Generator[None, None, tuple[list[_Choice], float, bool, bool]]:
        """The unions of the fewest domains that fit, their number, whether it is proven, and whether some may be lost."""
        proven = True
        most = max((len(siblings) for _, siblings in domains), default=1)
        free = [sorted((part.devices() for part in siblings.values()), reverse=True) for _, siblings in domains]
        for count in range(max(2, len(bound)), most + 1):
            unions, complete = [], True
            for (branch, siblings), largest in zip(domains, free, strict=True):
                if len(siblings) < count or sum(largest[:count]) < branch.problem.devices(branch.problem.wanted):
                    continue  # even the largest domains together have too few devices
                some, all_of_them = several(siblings, bound, count)
                unions.append((branch, some))
                complete &= all_of_them
            choices = (_Choice(branch, union) for branch, some in unions for union in some)
            fitting, doubt = yield from self._that_fit(choices, nodes)
            if fitting:
                return fitting, float(count), proven, doubt or not complete
            proven &= complete and not doubt
        return [], float(most), False, True

    def _that_fit(self, choices: Iterable[_Choice], nodes: int) -> Generator[None, None, tuple[list[_Choice], bool]]:
        """The choices that fit, and whether others may fit too."""
        fitting, doubt = [], False
        for choice in choices:
            choice.branch.doubt = False
            if (yield from choice.branch.hosts(choice.region, nodes, self._floors)):
                fitting.append(choice)
            else:
                doubt |= choice.branch.doubt
        return fitting, doubt

    def _least_left(self, choices: list[_Choice], nodes: int) -> Generator[None, None, Cost]:
        """The least cost in devices, taken and left over, regardless of bandwidth."""
        best, proven = yield from self._cheapest(choices, nodes, self._floors)
        cost = best[1].cost if best else self._problem.cost(NOTHING_LOST, 0)
        self._note("left-over", (self._problem.left_over(cost),), proven=best is not None and proven)
        return cost[:2]

    def _speeds(self, choices: list[_Choice], nodes: int, left: Cost | None) -> Generator[None, None, Floors]:
        """The largest bottleneck of the group, then of its members, each less the 5% within which values are equal."""
        hosts = {case.host for choice in choices for case in choice.region.cases}
        speeds = sorted({speed for host in hosts for speed in host.speeds()})
        slowest = self._problem.speed  # the bound members' own, which nothing makes faster
        least = self._problem.floor
        possible = sorted({min(speed, slowest) for speed in speeds})
        where = (choices, nodes, left)
        best, proven = yield from self._largest(possible, lambda speed: Floors(speed, least), where)
        self._note("bottleneck", (best,), proven=proven)
        node = NEAR * best
        inside, proven = yield from self._largest(speeds, lambda speed: Floors(node, max(speed, least)), where)
        self._note("per pod", (inside,), proven=proven)
        return Floors(node, max(NEAR * inside, least))

    def _largest(
        self, speeds: Sequence[float], floors: Callable[[float], Floors], where: tuple[list[_Choice], int, Cost | None]
    ) -> Generator[None, None, tuple[float, bool]]:
        """The largest speed at which the group fits and whether it is proven, by bisection: slower never means unfit."""
        low, high, proven = 0, len(speeds) - 1, True
        while low < high:
            middle = (low + high + 1) // 2
            fit, sure = yield from self._fits(*where, floors(speeds[middle]))
            low, high = (middle, high) if fit else (low, middle - 1)
            proven &= fit or sure
        return (speeds[low] if speeds else 0.0), proven

    def _fits(
        self, choices: list[_Choice], nodes: int, left: Cost | None, floors: Floors
    ) -> Generator[None, None, tuple[bool, bool]]:
        """Whether the group fits at these speeds with no more devices taken and left over than `left`; and the proof."""
        for branch in self._branches:
            branch.doubt = False
        if self._around:
            around = yield from self._any_hosts(self._around, nodes, floors)
            if not around:
                return False, not self._doubt()
            for branch in self._branches:
                branch.doubt = False
        if left is None:
            fit = yield from self._any_hosts(choices, nodes, floors)
            return fit, not self._doubt()
        proven = True
        for branch, region in choices:
            spread = yield from branch.spread(region, nodes, floors)
            if spread is not None and spread.cost[:2] <= left:
                return True, True
            proven &= branch.small(region) or (spread is not None and spread.proven)
        return False, proven

    def _doubt(self) -> bool:
        return any(branch.doubt for branch in self._branches)

    def _any_hosts(self, choices: list[_Choice], nodes: int, floors: Floors) -> Generator[None, None, bool]:
        for branch, region in choices:
            if (yield from branch.hosts(region, nodes, floors)):
                return True
        return False

    def _cheapest(
        self, choices: list[_Choice], nodes: int, floors: Floors
    ) -> Generator[None, None, tuple[tuple[_Choice, Spread] | None, bool]]:
        """The cheapest spread found, and whether it is proven to be."""
        best: tuple[_Choice, Spread] | None = None
        proven = True
        least = yield from self._least(nodes, floors)
        for choice in choices:
            spread = yield from choice.branch.spread(choice.region, nodes, floors)
            proven &= choice.branch.exact()
            proven &= choice.branch.small(choice.region) or (spread is not None and spread.proven)
            if spread is not None and (best is None or spread.cost < best[1].cost):
                best = (choice, spread)
                if least is not None and spread.cost <= least:
                    return best, choice.branch.exact()
        return best, proven

    def _least(self, nodes: int, floors: Floors) -> Generator[None, None, Cost | None]:
        """Lower bound of the cost in any region: that of their supersets; None if unknown."""
        costs = []
        for branch, region in self._around:
            spread = yield from branch.spread(region, nodes, floors)
            if spread is None or not spread.proven:
                return None
            costs.append(spread.cost)
        return min(costs, default=None)


class Fewest(NamedTuple):
    """The fewest fresh nodes that a plan was found on, None if there is none, and the fewest that are possible."""

    nodes: int | None
    least: int | None

    @property
    def proven(self) -> bool:
        """Whether fewer are impossible."""
        return self.nodes == self.least


class Branch:
    """The search for places of one choice of members.

    Args:
        problem: the members and the nodes.
        table: the exact table is used up to this product of nodes and combinations of members.
    """

    def __init__(self, problem: GroupProblem, table: int) -> None:
        self.problem = problem
        self.doubt = False
        """whether a refusal was not proven; the caller resets it"""
        self._equal = len(problem.kinds) == 1
        self._table = table
        self._combinations = 1
        for kind in problem.kinds:
            self._combinations *= kind.count + 1
        self._bounds: dict[tuple[Region, Floors], int | None] = {}
        self._budget = Budget()
        self._uncertain = list(
            {id(spot.host): spot.host for spot in problem.spots if _may_be_inexact(spot.host)}.values()
        )

    def small(self, region: Region) -> bool:
        """Whether the exact table is small enough."""
        return len(region) * self._combinations <= self._table

    def fewest(self, region: Region, floors: Floors) -> Generator[None, None, Fewest]:
        """The fewest fresh nodes for all members."""
        if self._equal:
            nodes = yield from equal_fewest(self.problem, region, floors)
            return self._result(nodes, nodes)
        bound = yield from self._bound(region, floors)
        if bound is None:
            return Fewest(None, None)
        nodes, proven = yield from packed_fewest(
            self.problem, region, floors, bound, Budget(0) if self.small(region) else self._budget
        )
        if nodes == bound:
            return Fewest(nodes, bound)
        if not self.small(region):
            return self._result(nodes, nodes if proven else bound)
        # The exact table is expensive: it is only searched for something better than the packed solution.
        most = sum(self.problem.wanted) if nodes is None else nodes - 1
        fewer = yield from exact_fewest(self.problem, region, floors, most)
        nodes = nodes if fewer is None else fewer
        return self._result(nodes, nodes)

    def hosts(self, region: Region, nodes: int, floors: Floors) -> Generator[None, None, bool]:
        """Whether the members fit into a region on at most `nodes` fresh nodes."""
        if self._equal:
            fewest = yield from equal_fewest(self.problem, region, floors)
            fit = fewest is not None and fewest <= nodes
            self.doubt |= not fit and not self.exact()
            return fit
        bound = yield from self._bound(region, floors)
        if bound is None or bound > nodes:
            return False
        small = self.small(region)
        packed = yield from packed_on(self.problem, region, nodes, floors, Budget(0) if small else self._budget)
        if packed.counts is not None:
            return True
        if small and (yield from exact_fewest(self.problem, region, floors, nodes)) is not None:
            return True
        self.doubt |= not (small or packed.proven) or not self.exact()
        return False

    def spread(self, region: Region, nodes: int, floors: Floors) -> Generator[None, None, Spread | None]:
        """A cheap spread on the fresh nodes, the cheapest if it is proven."""
        if self.small(region):
            return (yield from exact_spread(self.problem, region, nodes, floors))
        if self._equal:
            return (yield from equal_spread(self.problem, region, nodes, floors))
        return (yield from packed_spread(self.problem, region, nodes, floors, self._budget))

    def _result(self, nodes: int | None, least: int | None) -> Fewest:
        return Fewest(nodes, least if self.exact() else 0)

    def exact(self) -> bool:
        """Whether all refusals of nodes so far are proven."""
        return all(host.exact for host in self._uncertain)

    def _bound(self, region: Region, floors: Floors) -> Generator[None, None, int | None]:
        """Lower bound of the fresh nodes of any plan in the region; None if there is no plan."""
        if (region, floors) not in self._bounds:
            self._bounds[region, floors] = yield from fewest_bound(self.problem, region, floors)
        return self._bounds[region, floors]


def _most_small_members(problem: GroupProblem, table: int) -> Generator[None, None, tuple[list[Counts], bool]]:
    """As many members as fit, the smallest first, by bisection; a group too large to try all choices."""
    order = [number for number, kind in reversed(list(enumerate(problem.kinds))) for _ in range(kind.count)]
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        fit, _ = yield from fits(_with_counts(problem, order[:middle]), table)
        low, high = (middle, high) if fit else (low, middle - 1)
    return [_with_counts(problem, order[:low]).wanted], False


def _with_counts(problem: GroupProblem, members: Sequence[int]) -> GroupProblem:
    """The problem with only these members, by the number of their kind."""
    kinds = tuple(MemberKind(kind.size, members.count(number)) for number, kind in enumerate(problem.kinds))
    return replace(problem, kinds=kinds, options={}, _sizes={}, _devices={})


def _may_be_inexact(host: Host) -> bool:
    return not isinstance(host, CountedHost | LinkedHost)

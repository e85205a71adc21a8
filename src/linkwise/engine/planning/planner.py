"""Group planner: a sequence of levels, each of which keeps the best plans for the levels after it.

Plans are never compared in pairs: values within 5% count as equal, and "nearly equal" is not transitive. Every `yield`
lets the caller interrupt the planning. Source: seed 001, "Pick GPUs of Node"; the order of bandwidth and left-over
devices is corrected, `seed_order` restores the original.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from linkwise.engine.planning.hosts import NOTHING_LOST, Floors
from linkwise.engine.planning.network_regions import bound_domains, children, several, start_regions
from linkwise.engine.planning.spread_equal import equal_fewest, equal_spread
from linkwise.engine.planning.spread_exact import exact_fewest, exact_spread
from linkwise.engine.planning.spread_packed import fewest_bound, packed_fewest, packed_fits, packed_spread
from linkwise.topology.fabric import NEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from linkwise.engine.planning.network_regions import Domain
    from linkwise.engine.planning.problem import Cost, Counts, GroupProblem, Region
    from linkwise.engine.planning.spread_exact import Spread

__all__ = ["LEVELS", "Level", "Outline", "fits", "outline"]

LEVELS: Final = ("placed", "nodes", "network", "bottleneck", "per pod", "residual", "left-over")
TABLE: Final = 20_000
"""the exact table is built up to this product of nodes and combinations of members"""


@dataclass(frozen=True, slots=True)
class Level:
    """The value of a plan at one level, and whether it is proven to be the best."""

    name: str
    value: tuple[float, ...]
    proven: bool = True


@dataclass(frozen=True, slots=True)
class Outline:
    """The number of members of each kind per node; devices are chosen later, by the node's own samples."""

    counts: dict[str, Counts]
    levels: tuple[Level, ...]
    region: tuple[str, ...] = ()
    floors: Floors = field(default_factory=Floors)


def outline(problem: GroupProblem, table: int = TABLE) -> Generator[None, None, Outline | None]:
    """The best outline; None if not all members fit."""
    return (yield from _Planning(problem, table).run())


def fits(problem: GroupProblem) -> Generator[None, None, bool]:
    """Whether all members fit, in any way."""
    return (yield from _Planning(problem).fits())


class _Planning:
    """One run through the levels."""

    def __init__(self, problem: GroupProblem, table: int = TABLE) -> None:
        self._problem = problem
        self._table = table
        combinations = 1
        for kind in problem.kinds:
            combinations *= kind.count + 1
        self._combinations = combinations
        self._floors = Floors(member=problem.floor)
        """the bandwidth that every plan must have"""
        self._levels: list[Level] = []
        self._bounds: dict[tuple[Region, Floors], int | None] = {}
        self._around: list[Region] = []
        """supersets of all regions in question: a group that does not fit there fits nowhere"""

    def fits(self) -> Generator[None, None, bool]:
        """Whether there is any plan."""
        _, nodes = yield from self._fewest_nodes((yield from start_regions(self._problem)))
        return nodes is not None

    def run(self) -> Generator[None, None, Outline | None]:
        regions, nodes = yield from self._fewest_nodes((yield from start_regions(self._problem)))
        if nodes is None:
            return None
        self._note("placed", tuple(map(float, self._problem.wanted)))
        self._note("nodes", (nodes + len(self._problem.bound),), proven=self._proven(regions))
        regions = yield from self._closest(regions, nodes)
        left = (yield from self._least_left(regions, nodes)) if self._problem.seed_order else None
        floors = yield from self._speeds(regions, nodes, left)
        best = yield from self._cheapest(regions, nodes, floors)
        if best is None:
            return None
        region, spread = best
        self._note_cost(spread)
        return Outline(spread.named(region), tuple(self._levels), region.path, floors)

    def _note_cost(self, spread: Spread) -> None:
        self._note("residual", self._problem.residual(spread.cost), proven=spread.proven)
        if not self._problem.seed_order:
            self._note("left-over", (self._problem.left_over(spread.cost),), proven=spread.proven)

    def _note(self, name: str, value: tuple[float, ...], *, proven: bool = True) -> None:
        self._levels.append(Level(name, value, proven))

    def _least_left(self, regions: list[Region], nodes: int) -> Generator[None, None, Cost]:
        """The least cost in devices, taken and left over, regardless of bandwidth."""
        best = yield from self._cheapest(regions, nodes, self._floors)
        cost = best[1].cost if best else self._problem.cost(NOTHING_LOST, 0)
        self._note("left-over", (self._problem.left_over(cost),), proven=best is not None and best[1].proven)
        return cost[:2]

    def _fewest_nodes(self, regions: list[Region]) -> Generator[None, None, tuple[list[Region], int | None]]:
        """The regions in which the group needs the fewest nodes, and that number."""
        nodes_by_region = []
        for region in regions:
            nodes = yield from self._fewest(region, self._floors)
            nodes_by_region.append((region, nodes))
        # rule 001.fewest-nodes: one node, otherwise two, up to one per pod.
        least = min((nodes for _, nodes in nodes_by_region if nodes is not None), default=None)
        return [region for region, nodes in nodes_by_region if nodes == least and least is not None], least

    def _closest(self, regions: list[Region], nodes: int) -> Generator[None, None, list[Region]]:
        """The narrowest domains, level by level, down to the first level at which more than one is needed.

        Those of bound members count at every level, also where they have no room.
        """
        counts: list[float] = []
        proven = True
        for level in range(len(self._problem.levels)):
            bound = bound_domains(self._problem, level)
            if level < self._problem.required:
                counts.append(float(max(len(bound | {(region.path[level], "")}) for region in regions)))
                if counts[-1] > 1:
                    break
                continue
            domains = [children(region, level, bound) for region in regions]
            single = [] if len(bound) > 1 else [siblings[key] for siblings in domains for key in bound or siblings]
            fitting = yield from self._that_fit(single, nodes)
            counts.append(1.0)
            if not fitting:
                self._around = regions
                fitting, counts[-1], proven = yield from self._fewest_domains(domains, bound, nodes)
                regions = fitting or regions
                break
            regions = fitting
        self._note("network", tuple(counts), proven=proven)
        return regions

    def _fewest_domains(
        self, domains: list[dict[Domain, Region]], bound: set[Domain], nodes: int
    ) -> Generator[None, None, tuple[list[Region], float, bool]]:
        """The unions of the fewest domains that fit the group, their number, and whether it is proven."""
        free = [sorted((region.devices() for region in siblings.values()), reverse=True) for siblings in domains]
        needed = sum(kind.size * kind.count for kind in self._problem.kinds)
        for count in range(max(2, len(bound)), max(map(len, domains), default=0) + 1):
            if not any(sum(largest[:count]) >= needed for largest in free):
                continue  # even the largest domains together have too few devices
            choices = [several(siblings, bound, count) for siblings in domains if len(siblings) >= count]
            fitting = yield from self._that_fit(chain.from_iterable(unions for unions, _ in choices), nodes)
            complete = all(complete for _, complete in choices)
            if fitting:
                return fitting, float(count), complete
        return [], float(max(map(len, domains), default=1)), False

    def _that_fit(self, regions: Iterable[Region], nodes: int) -> Generator[None, None, list[Region]]:
        fitting = []
        for region in regions:
            if (yield from self._hosts(region, nodes, self._floors)):
                fitting.append(region)  # noqa: PERF401 - a comprehension can't yield
        return fitting

    def _any_hosts(self, regions: list[Region], nodes: int, floors: Floors) -> Generator[None, None, bool]:
        for region in regions:
            if (yield from self._hosts(region, nodes, floors)):
                return True
        return False

    def _hosts(self, region: Region, nodes: int, floors: Floors) -> Generator[None, None, bool]:
        """Whether the group fits into a region on at most `nodes` fresh nodes."""
        if len(self._problem.kinds) == 1:
            fewest = yield from equal_fewest(self._problem, region, floors)
            return fewest is not None and fewest <= nodes
        bound = yield from self._bound(region, floors)
        if bound is None or bound > nodes:
            return False
        if (yield from packed_fits(self._problem, region, nodes, floors)):
            return True
        small = self._small(region)
        return small and (yield from exact_fewest(self._problem, region, floors, nodes)) is not None

    def _bound(self, region: Region, floors: Floors) -> Generator[None, None, int | None]:
        """Lower bound of the fresh nodes of any plan in the region; None if there is no plan."""
        if (region, floors) not in self._bounds:
            self._bounds[region, floors] = yield from fewest_bound(self._problem, region, floors)
        return self._bounds[region, floors]

    def _speeds(self, regions: list[Region], nodes: int, left: Cost | None) -> Generator[None, None, Floors]:
        """The largest bottleneck of the group, then of its members, each less the 5% within which values are equal."""
        hosts = {case.host for region in regions for case in region.cases}
        speeds = sorted({speed for host in hosts for speed in host.speeds()})
        slowest = self._problem.speed  # the bound members' own, which nothing makes faster
        least = self._problem.floor
        possible = sorted({min(speed, slowest) for speed in speeds})
        best = yield from self._largest(possible, lambda speed: Floors(speed, least), (regions, nodes, left))
        self._note("bottleneck", (best,))
        node = NEAR * best
        inside = yield from self._largest(speeds, lambda speed: Floors(node, max(speed, least)), (regions, nodes, left))
        self._note("per pod", (inside,))
        return Floors(node, max(NEAR * inside, least))

    def _largest(
        self, speeds: Sequence[float], floors: Callable[[float], Floors], where: tuple[list[Region], int, Cost | None]
    ) -> Generator[None, None, float]:
        """The largest speed at which the group still fits, by bisection: a lower speed never makes it unfit."""
        low, high = 0, len(speeds) - 1
        while low < high:
            middle = (low + high + 1) // 2
            fits = yield from self._fits(*where, floors(speeds[middle]))
            low, high = (middle, high) if fits else (low, middle - 1)
        return speeds[low] if speeds else 0.0

    def _fits(
        self, regions: list[Region], nodes: int, left: Cost | None, floors: Floors
    ) -> Generator[None, None, bool]:
        """Whether the group fits at these speeds with no more devices taken and left over than `left`."""
        if self._around and not (yield from self._any_hosts(self._around, nodes, floors)):
            return False
        for region in regions:
            if left is not None:
                spread = yield from self._spread(region, nodes, floors)
                if spread is not None and spread.cost[:2] <= left:
                    return True
                continue
            if (yield from self._hosts(region, nodes, floors)):
                return True
        return False

    def _cheapest(
        self, regions: list[Region], nodes: int, floors: Floors
    ) -> Generator[None, None, tuple[Region, Spread] | None]:
        best: tuple[Region, Spread] | None = None
        least = yield from self._least(nodes, floors)
        for region in regions:
            spread = yield from self._spread(region, nodes, floors)
            if spread is not None and (best is None or spread.cost < best[1].cost):
                best = (region, spread)
                if least is not None and spread.cost <= least:
                    break
        return best

    def _least(self, nodes: int, floors: Floors) -> Generator[None, None, Cost | None]:
        """Lower bound of the cost in any region: that of their supersets; None if unknown."""
        costs = []
        for region in self._around:
            spread = yield from self._spread(region, nodes, floors)
            if spread is None or not spread.proven:
                return None
            costs.append(spread.cost)
        return min(costs, default=None)

    def _small(self, region: Region) -> bool:
        return len(region) * self._combinations <= self._table

    def _proven(self, regions: list[Region]) -> bool:
        return len(self._problem.kinds) == 1 or all(map(self._small, regions))

    def _fewest(self, region: Region, floors: Floors) -> Generator[None, None, int | None]:
        if len(self._problem.kinds) == 1:
            return (yield from equal_fewest(self._problem, region, floors))
        bound = yield from self._bound(region, floors)
        if bound is None:
            return None
        packed = yield from packed_fewest(self._problem, region, floors, bound)
        if packed == bound or not self._small(region):
            return packed
        # The exact table is expensive: it is only searched for something better than the packed solution.
        most = sum(self._problem.wanted) if packed is None else packed - 1
        fewest = yield from exact_fewest(self._problem, region, floors, most)
        return packed if fewest is None else fewest

    def _spread(self, region: Region, nodes: int, floors: Floors) -> Generator[None, None, Spread | None]:
        if self._small(region):
            return (yield from exact_spread(self._problem, region, nodes, floors))
        solve = equal_spread if len(self._problem.kinds) == 1 else packed_spread
        return (yield from solve(self._problem, region, nodes, floors))

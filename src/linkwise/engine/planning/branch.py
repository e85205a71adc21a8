"""Branch of a plan: one choice of members to place, whether they fit a region, and how; with the proof or without it.

Groups of equal members are answered exactly by slots, small unequal ones by a table, and large unequal ones by packing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from linkwise.engine.planning.hosts import CountedHost, LinkedHost
from linkwise.engine.planning.spread import equal_fewest, equal_spread, exact_fewest, exact_spread
from linkwise.engine.planning.spread_packed import Budget, fewest_bound, packed_fewest, packed_on, packed_spread

if TYPE_CHECKING:
    from collections.abc import Generator

    from linkwise.engine.planning.hosts import Floors, Host
    from linkwise.engine.planning.problem import GroupProblem, Region
    from linkwise.engine.planning.spread import Spread

__all__ = ["Branch", "Fewest"]


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


def _may_be_inexact(host: Host) -> bool:
    return not isinstance(host, CountedHost | LinkedHost)

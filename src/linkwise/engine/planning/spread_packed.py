"""Spread of many unequal members over nodes by best-fit decreasing: a good solution, rarely a proven one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.engine.planning.hosts import NOTHING_LOST
from linkwise.engine.planning.spread_equal import fewest_with
from linkwise.engine.planning.spread_exact import Spread, begun

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from linkwise.engine.planning.hosts import Floors
    from linkwise.engine.planning.problem import Cost, Counts, GroupProblem, Region, Spot

__all__ = ["fewest_bound", "packed_fewest", "packed_fits", "packed_spread"]

MEMBERS_PER_STEP: Final = 16
"""members placed between two yields"""
CASES_PER_STEP: Final = 32
"""cases evaluated between two yields"""


def fewest_bound(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int | None]:
    """Lower bound of the fresh nodes of any plan: for every member size, the slots must add up.

    None if they don't even on all nodes.
    """
    bound = 0
    for size in {kind.size for kind in problem.kinds}:
        need = sum(kind.count * (kind.size // size) for kind in problem.kinds)
        rooms: Counter[int] = Counter()
        for number, (case, count) in enumerate(region.cases.items()):
            if number % CASES_PER_STEP == 0:
                yield
            room = case.host.at_most(size, floors)
            if case.fresh:
                rooms[room] += count
            else:
                need -= count * room
        used = fewest_with(rooms, need)
        if used is None:
            return None
        bound = max(bound, used)
    return bound


def packed_fewest(problem: GroupProblem, region: Region, floors: Floors, low: int) -> Generator[None, None, int | None]:
    """The fewest fresh nodes, from `low` on, on which best fit places the group; None if it never does."""
    fresh = sum(spot.fresh for spot in region.spots)
    for nodes in _node_counts(low, fresh):
        if (yield from _packed(problem, region, nodes, floors)) is not None:
            return nodes
    return None


def packed_fits(problem: GroupProblem, region: Region, nodes: int, floors: Floors) -> Generator[None, None, bool]:
    """Whether best fit places the group on `nodes` fresh nodes."""
    return (yield from _packed(problem, region, nodes, floors)) is not None


def packed_spread(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, Spread | None]:
    """A spread on at most `nodes` fresh nodes."""
    counts = yield from _packed(problem, region, nodes, floors)
    if counts is None:
        return None
    spots = {spot.name: spot for spot in region.spots}
    total: Cost = problem.cost(NOTHING_LOST, 0)
    for name, taken in counts.items():
        sizes = problem.sizes(taken)
        loss = spots[name].host.loss(sizes, floors) or NOTHING_LOST
        cost = problem.cost(loss, begun(spots[name]))
        total = tuple(map(int.__add__, total, cost))
    return Spread(total, counts, proven=False)


def _node_counts(low: int, high: int) -> list[int]:
    """Numbers of nodes to try: one by one at first, then in growing steps."""
    counts, nodes, step = [], max(1, low), 1
    while nodes < high:
        counts.append(nodes)
        nodes += step
        step = max(1, len(counts) // 4)
    return [*counts, high] if high else [0]


def _packed(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, dict[str, Counts] | None]:
    """The members on the largest nodes, each on the fitting node with the fewest free devices."""
    loads = _Loads(problem, region.largest(nodes), floors)
    for number, kind in enumerate(problem.kinds):
        for place in range(kind.count):
            if place % MEMBERS_PER_STEP == 0:
                yield
            if not loads.put(number):
                return None
    return {name: taken for name, taken in loads.counts.items() if any(taken)}


class _Loads:
    """Members placed on nodes so far."""

    def __init__(self, problem: GroupProblem, spots: Sequence[Spot], floors: Floors) -> None:
        self._problem = problem
        self._floors = floors
        self._spots = {spot.name: spot for spot in spots}
        self._order = sorted((spot.host.room, spot.name) for spot in spots)
        """free devices and name of every node, sorted so that the tightest is found by bisection"""
        self.counts: dict[str, Counts] = dict.fromkeys(self._spots, (0,) * len(problem.kinds))

    def put(self, number: int) -> bool:
        """Place one member of a kind on the tightest node that fits; false if there is none."""
        size, order = self._problem.kinds[number].size, self._order
        for place in range(bisect_left(order, (size, "")), len(order)):
            free, name = order[place]
            taken = self._add_member(name, number)
            if taken is not None:
                self.counts[name] = taken
                del order[place]
                insort(order, (free - size, name))
                return True
        return False

    def _add_member(self, name: str, number: int) -> Counts | None:
        spot, taken = self._spots[name], self.counts[name]
        if taken[number] >= spot.caps[number]:
            return None
        more = (*taken[:number], taken[number] + 1, *taken[number + 1 :])
        several = any(taken[:number]) or any(taken[number + 1 :])
        if several and not self._problem.together(name, more):
            return None
        return None if spot.host.loss(self._problem.sizes(more), self._floors) is None else more

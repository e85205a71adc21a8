"""The spread of many unequal members over nodes: largest first, on the tightest node that fits; good, seldom proven."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.engine.planning.hosts import NOTHING_LOST
from linkwise.engine.planning.spread_equal import fewest_with
from linkwise.engine.planning.spread_exact import Spread, left_over

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from linkwise.engine.planning.hosts import Floors
    from linkwise.engine.planning.problem import Cost, Counts, GroupProblem, Region, Spot

__all__ = ["fewest_bound", "packed_fewest", "packed_fits", "packed_spread"]

AT_ONCE: Final = 16
"""members placed between two steps"""
CASES_AT_ONCE: Final = 32
"""kinds of nodes looked at between two steps"""


def fewest_bound(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int | None]:
    """No plan has fewer fresh nodes than this: their devices must add up, for every size that members have.

    None if they do not, whatever is done.
    """
    bound = 0
    for size in {kind.size for kind in problem.kinds}:
        need = sum(kind.count * (kind.size // size) for kind in problem.kinds)
        rooms: Counter[int] = Counter()
        for number, (case, count) in enumerate(region.cases.items()):
            if number % CASES_AT_ONCE == 0:
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
    """On how few fresh nodes the group was seen to fit, of so many or more; None if it was not."""
    fresh = sum(spot.fresh for spot in region.spots)
    for nodes in _tries(low, fresh):
        if (yield from _packed(problem, region, nodes, floors)) is not None:
            return nodes
    return None


def packed_fits(problem: GroupProblem, region: Region, nodes: int, floors: Floors) -> Generator[None, None, bool]:
    """Whether the group was seen to fit on so many fresh nodes."""
    return (yield from _packed(problem, region, nodes, floors)) is not None


def packed_spread(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, Spread | None]:
    """A way to place the group on at most so many fresh nodes."""
    counts = yield from _packed(problem, region, nodes, floors)
    if counts is None:
        return None
    spots = {spot.name: spot for spot in region.spots}
    total: Cost = problem.cost(NOTHING_LOST, 0)
    for name, taken in counts.items():
        sizes = problem.sizes(taken)
        loss = spots[name].host.loss(sizes, floors) or NOTHING_LOST
        cost = problem.cost(loss, left_over(spots[name]) - sum(sizes))
        total = tuple(map(int.__add__, total, cost))
    return Spread(total, counts, proven=False)


def _tries(low: int, high: int) -> list[int]:
    """Numbers of nodes to try: one by one at first, then in larger steps."""
    found, nodes, step = [], max(1, low), 1
    while nodes < high:
        found.append(nodes)
        nodes += step
        step = max(1, len(found) // 4)
    return [*found, high] if high else [0]


def _packed(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, dict[str, Counts] | None]:
    """The members on the largest nodes, each on the one with the least room that fits."""
    loads = _Loads(problem, region.largest(nodes), floors)
    for number, kind in enumerate(problem.kinds):
        for place in range(kind.count):
            if place % AT_ONCE == 0:
                yield
            if not loads.put(number):
                return None
    return {name: taken for name, taken in loads.counts.items() if any(taken)}


class _Loads:
    """What some nodes were given so far."""

    def __init__(self, problem: GroupProblem, spots: Sequence[Spot], floors: Floors) -> None:
        self._problem = problem
        self._floors = floors
        self._spots = {spot.name: spot for spot in spots}
        self._order = sorted((spot.host.room, spot.name) for spot in spots)
        """room that is left, and whose it is: kept sorted, so that the tightest is found at once"""
        self.counts: dict[str, Counts] = dict.fromkeys(self._spots, (0,) * len(problem.kinds))

    def put(self, number: int) -> bool:
        """Place one member of a kind on the tightest node that fits; false if there is none."""
        size, order = self._problem.kinds[number].size, self._order
        for place in range(bisect_left(order, (size, "")), len(order)):
            room, name = order[place]
            taken = self._with_one_more(name, number)
            if taken is not None:
                self.counts[name] = taken
                del order[place]
                insort(order, (room - size, name))
                return True
        return False

    def _with_one_more(self, name: str, number: int) -> Counts | None:
        spot, taken = self._spots[name], self.counts[name]
        if taken[number] >= spot.caps[number]:
            return None
        more = (*taken[:number], taken[number] + 1, *taken[number + 1 :])
        several = any(taken[:number]) or any(taken[number + 1 :])
        if several and not self._problem.together(name, more):
            return None
        return None if spot.host.loss(self._problem.sizes(more), self._floors) is None else more

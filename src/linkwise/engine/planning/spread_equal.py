"""Spread of equal members over nodes, by slots.

Bound: nodes with equal slots are one case. n members need the fewest nodes whose slots, taken in descending order, add up
to n.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from linkwise.engine.planning.hosts import NOTHING_LOST
from linkwise.engine.planning.spread_exact import Spread

if TYPE_CHECKING:
    from collections.abc import Generator

    from linkwise.engine.planning.hosts import Floors
    from linkwise.engine.planning.problem import Case, Cost, Counts, GroupProblem, Region

__all__ = ["equal_fewest", "equal_most", "equal_spread", "fewest_with"]


def equal_fewest(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int | None]:
    """The fewest fresh nodes for all members; None if they don't fit."""
    yield
    left = problem.kinds[0].count
    fresh: Counter[int] = Counter()
    for case, count in region.cases.items():
        slots = _slots(problem, case, floors)
        if case.fresh:
            fresh[slots] += count
        else:
            left -= slots * count
    return fewest_with(fresh, left)


def equal_most(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int]:
    """The most members that fit the region."""
    yield
    slots = sum(_slots(problem, case, floors) * count for case, count in region.cases.items())
    return min(slots, problem.kinds[0].count)


def fewest_with(slots: Counter[int], left: int) -> int | None:
    """The fewest nodes whose slots add up to `left`; None if all slots are too few."""
    used = 0
    for count in sorted(slots, reverse=True):
        if left <= 0:
            break
        if not count:
            return None
        need = min(slots[count], -(-left // count))
        used += need
        left -= need * count
    return used if left <= 0 else None


def equal_spread(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, Spread | None]:
    """A cheap spread on exactly `nodes` fresh nodes; proven to be the cheapest if it fills every node."""
    yield
    return _Spreading(problem, region, floors).spread(nodes)


def _slots(problem: GroupProblem, case: Case, floors: Floors) -> int:
    return min(case.caps[0], case.host.slots(problem.kinds[0].size, floors))


class _Spreading:
    """Greedy spread over cases of equal nodes."""

    def __init__(self, problem: GroupProblem, region: Region, floors: Floors) -> None:
        self._problem = problem
        self._region = region
        self._floors = floors
        self._size = problem.kinds[0].size
        self._costs: dict[tuple[Case, int], Cost] = {}

    def spread(self, nodes: int) -> Spread | None:
        slots = {case: _slots(self._problem, case, self._floors) for case in self._region.cases}
        able = [case for case in self._region.cases if slots[case]]
        taken: Counter[tuple[Case, int]] = Counter()
        firsts = self._region.firsts()
        for case in sorted((case for case in able if not case.fresh), key=firsts.__getitem__):
            taken[case, slots[case]] += self._region.cases[case]
        bound = bool(taken)
        left = nodes
        for case in sorted((case for case in able if case.fresh), key=lambda case: self._rank(case, slots[case])):
            used = min(left, self._region.cases[case])
            if used:
                taken[case, slots[case]] += used
                left -= used
        spare = sum(count * number for (_, count), number in taken.items()) - self._problem.kinds[0].count
        if spare < 0 or left:
            return None
        for _ in range(spare):
            self._remove_member(taken)
        total = self._problem.cost(NOTHING_LOST, 0)
        for (case, count), number in taken.items():
            total = tuple(sum_ + number * term for sum_, term in zip(total, self._cost(case, count), strict=True))
        chosen: dict[tuple[Case, Counts], int] = {
            (case, (count,)): number for (case, count), number in taken.items() if number and count
        }
        return Spread(total, {}, spare == 0 and not bound, chosen)

    def _rank(self, case: Case, slots: int) -> tuple[object, ...]:
        """Sort key of a case: the most slots first, then the lowest cost, then the first node by domain and name."""
        return (-slots, self._cost(case, slots), self._region.firsts()[case])

    def _cost(self, case: Case, count: int) -> Cost:
        if not count:
            return (0,) * len(self._problem.cost(NOTHING_LOST, 0))
        if (case, count) not in self._costs:
            loss = case.host.loss((self._size,) * count, self._floors) or NOTHING_LOST
            self._costs[case, count] = self._problem.cost(loss, case.host.free if case.fresh else 0)
        return self._costs[case, count]

    def _remove_member(self, taken: Counter[tuple[Case, int]]) -> None:
        """Remove one member from the node where that saves the most cost; a fresh node keeps one member."""
        best: tuple[Cost, int] | None = None
        choices = [key for key, number in taken.items() if number and key[1] > key[0].fresh]
        for place, (case, count) in enumerate(choices):
            pairs = zip(self._cost(case, count - 1), self._cost(case, count), strict=True)
            change = tuple(now - was for now, was in pairs)
            if best is None or change < best[0]:
                best = (change, place)
        if best is not None:
            case, count = choices[best[1]]
            taken[case, count] -= 1
            taken[case, count - 1] += 1

"""Spread of many unequal members over nodes: best-fit decreasing, then backtracking within a step limit.

A good solution, rarely a proven one; a search that ends within its limit proves a refusal.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import NOTHING_LOST, PartSize
from linkwise.engine.planning.spread import Spread, at_once, begun, fewest_with, searched, searched_fit

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Iterator, Sequence

    from linkwise.engine.planning.hosts import Floors, Size
    from linkwise.engine.planning.problem import Cost, Counts, GroupProblem, Region, Spot

__all__ = ["Budget", "Packed", "fewest_bound", "packed_fewest", "packed_on", "packed_spread"]

MEMBERS_PER_STEP: Final = 16
"""members placed between two yields"""
CASES_PER_STEP: Final = 32
"""cases evaluated between two yields"""
SEARCH_STEPS: Final = 10_000
"""nodes tried for members in all searches of one plan"""
STEPS_PER_SEARCH: Final = 1000
"""nodes tried for members in one search"""
STEPS_PER_YIELD: Final = 100
"""nodes tried between two yields"""
PARTS_STEPS_PER_YIELD: Final = 4
"""the same for members with parts of devices"""


def fewest_bound(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int | None]:
    """Lower bound of the fresh nodes of any plan: for every member size, the slots must add up.

    None if they don't even on all nodes.
    """
    bound = 0
    for size in {kind.size for kind in problem.kinds}:
        need = sum(kind.count * _several(kind.size, size) for kind in problem.kinds)
        rooms: Counter[int] = Counter()
        for number, (case, count) in enumerate(region.cases.items()):
            if number % at_once(problem, CASES_PER_STEP) == 0:
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


def _several(size: Size, each: Size) -> int:
    """The number of members of one size that a member of another counts as."""
    if isinstance(size, PartSize) or isinstance(each, PartSize):
        return int(size == each)
    return size // each


class Packed(NamedTuple):
    """Members per node, or a refusal."""

    counts: dict[str, Counts] | None
    proven: bool = True
    """whether a refusal is certain: the search ended before its step limit"""


@dataclass(slots=True)
class Budget:
    """Search steps left for one plan; beyond them only best fit is tried."""

    steps: int = SEARCH_STEPS


def packed_fewest(
    problem: GroupProblem, region: Region, floors: Floors, low: int, budget: Budget
) -> Generator[None, None, tuple[int | None, bool]]:
    """The fewest fresh nodes, from `low` on, on which the group is placed, and whether that is proven; None if none is found."""
    fresh = sum(spot.fresh for spot in region.spots)
    proven, before = True, low - 1
    for nodes in _node_counts(low, fresh):
        packed = yield from packed_on(problem, region, nodes, floors, budget)
        if packed.counts is not None:
            return nodes, proven and nodes <= before + 1
        proven, before = proven and packed.proven and nodes <= before + 1, nodes
    return None, proven


def packed_spread(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors, budget: Budget
) -> Generator[None, None, Spread | None]:
    """A spread on at most `nodes` fresh nodes."""
    counts, _ = yield from packed_on(problem, region, nodes, floors, budget)
    if counts is None:
        return None
    spots = {spot.name: spot for spot in region.spots}
    total: Cost = problem.cost(NOTHING_LOST, 0)
    for name, taken in counts.items():
        yield from searched(spots[name].host, problem.sizes(taken), floors)
        loss = spots[name].host.loss(problem.sizes(taken), floors) or NOTHING_LOST
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


def packed_on(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors, budget: Budget
) -> Generator[None, None, Packed]:
    """The members on at most `nodes` fresh nodes: by best fit on the largest ones, otherwise by a search over all."""
    counts = yield from _best_fit(problem, region, nodes, floors)
    if counts is not None:
        return Packed(counts)
    if budget.steps <= 0:
        return Packed(None, proven=False)
    return (yield from _PackingSearch(problem, region, nodes, floors).run(budget))


def _best_fit(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, dict[str, Counts] | None]:
    """The members on the largest nodes, each on the fitting node with the fewest free devices."""
    loads = _Loads(problem, region.largest(nodes), floors)
    for number, kind in enumerate(problem.kinds):
        for place in range(kind.count):
            if place % at_once(problem, MEMBERS_PER_STEP) == 0:
                yield
            if not (yield from loads.put(number)):
                return None
    return {name: taken for name, taken in loads.counts.items() if any(taken)}


def _more(
    problem: GroupProblem, spot: Spot, taken: Counts, number: int, floors: Floors
) -> Generator[None, None, Counts | None]:
    """The members of a node with one more of a kind; None if it does not fit."""
    if taken[number] >= spot.caps[number]:
        return None
    more = (*taken[:number], taken[number] + 1, *taken[number + 1 :])
    several = any(taken[:number]) or any(taken[number + 1 :])
    if several and not problem.together(spot.name, more):
        return None
    return more if (yield from searched_fit(spot.host, problem.sizes(more), floors)) else None


class _Loads:
    """Members placed on nodes so far."""

    def __init__(self, problem: GroupProblem, spots: Sequence[Spot], floors: Floors) -> None:
        self._problem = problem
        self._floors = floors
        self._per_yield = at_once(problem, STEPS_PER_YIELD, PARTS_STEPS_PER_YIELD)
        self._spots = {spot.name: spot for spot in spots}
        self._order = sorted((spot.host.room, spot.name) for spot in spots)
        """free devices and name of every node, sorted so that the tightest is found by bisection"""
        self.counts: dict[str, Counts] = dict.fromkeys(self._spots, (0,) * len(problem.kinds))

    def put(self, number: int) -> Generator[None, None, bool]:
        """Place one member of a kind on the tightest node that fits; false if there is none."""
        weight, order = self._problem.kinds[number].weight, self._order
        for tried, place in enumerate(range(bisect_left(order, (weight, "")), len(order)), 1):
            if tried % self._per_yield == 0:
                yield
            free, name = order[place]
            taken = yield from _more(self._problem, self._spots[name], self.counts[name], number, self._floors)
            if taken is not None:
                self.counts[name] = taken
                del order[place]
                insort(order, (free - weight, name))
                return True
        return False


class _Opened:
    """A node that the search uses."""

    __slots__ = ("alike", "place", "room", "spot", "taken")

    def __init__(self, spot: Spot, alike: Hashable, place: int, taken: Counts) -> None:
        self.spot = spot
        self.alike = alike
        self.place = place
        self.room = spot.host.room
        self.taken = taken


_Candidate = tuple[_Opened, "Counts"]
"""a node, and the members that it then has"""


class _PackingSearch:
    """Depth-first search with backtracking: the largest member first, used nodes before fresh ones, the tightest first.

    Equal nodes are tried once, and equal members only in the order of their nodes. Bound: candidates tried, not time, so
    that the same question has the same answer.
    """

    def __init__(self, problem: GroupProblem, region: Region, nodes: int, floors: Floors) -> None:
        self._problem = problem
        self._floors = floors
        self._nodes = nodes
        self._per_yield = at_once(problem, STEPS_PER_YIELD, PARTS_STEPS_PER_YIELD)
        self._members = [number for number, kind in enumerate(problem.kinds) for _ in range(kind.count)]
        weights = [problem.kinds[number].weight for number in self._members]
        self._ahead = [sum(weights[place:]) for place in range(len(weights) + 1)]
        nothing = (0,) * len(problem.kinds)
        self._opened = [
            _Opened(spot, self._alike(spot), place, nothing)
            for place, spot in enumerate(spot for spot in region.spots if not spot.fresh)
        ]
        self._bound = len(self._opened)
        fresh = sorted(
            (spot for spot in region.spots if spot.fresh), key=lambda spot: (-spot.host.room, spot.path, spot.name)
        )
        self._classes: dict[Hashable, list[Spot]] = {}
        for spot in fresh:
            self._classes.setdefault(self._alike(spot), []).append(spot)
        self._used: Counter[Hashable] = Counter()
        self._rooms = list(accumulate((spot.host.room for spot in fresh[:nodes]), initial=0))
        self._nothing = nothing

    def run(self, budget: Budget) -> Generator[None, None, Packed]:
        """The members per node."""
        stack = [self._candidates(0, 0)]
        undo: list[tuple[_Opened, Counts]] = []
        steps = min(budget.steps, STEPS_PER_SEARCH)
        budget.steps -= steps
        while stack:
            if steps % self._per_yield == 0:
                yield
            steps -= 1
            if steps < 0:
                return Packed(None, proven=False)
            depth = len(undo)
            chosen = yield from self._next(stack[-1])
            if chosen is None:
                stack.pop()
                if undo:
                    self._take_back(*undo.pop())
                continue
            node, more = chosen
            undo.append((node, node.taken))
            node.taken = more
            node.room -= self._problem.kinds[self._members[depth]].weight
            if len(undo) == len(self._members):
                budget.steps += steps
                return Packed({node.spot.name: node.taken for node in self._opened if any(node.taken)})
            same = self._members[depth] == self._members[depth + 1]
            stack.append(self._candidates(depth + 1, node.place if same else 0))
        budget.steps += steps
        return Packed(None)

    def _next(self, candidates: Iterator[_Candidate | None]) -> Generator[None, None, _Candidate | None]:
        """The next candidate, found in steps; None if there are no more."""
        for number, chosen in enumerate(candidates, 1):
            if chosen is not None:
                return chosen
            if number % self._per_yield == 0:
                yield
        return None

    def _candidates(self, depth: int, first: int) -> Iterator[_Candidate | None]:
        """The nodes for the next member, with the members they then have; equal members go on by `first`.

        None after a part of the search for one, and for a node that does not fit the member.
        """
        problem, number = self._problem, self._members[depth]
        begun = len(self._opened) - self._bound
        if sum(node.room for node in self._opened) + self._rooms[self._nodes_left(begun)] < self._ahead[depth]:
            return
        tried: set[Hashable] = set()
        weight = problem.kinds[number].weight
        used = [node for node in self._opened if node.place >= first and node.room >= weight]
        for node in sorted(used, key=lambda node: (node.room, node.place)):
            key = (node.alike, node.taken)
            if key in tried:
                continue
            tried.add(key)
            more = yield from _more(problem, node.spot, node.taken, number, self._floors)
            yield None if more is None else (node, more)
        if begun >= self._nodes:
            return
        for alike, spots in self._classes.items():
            place = self._used[alike]
            if place == len(spots) or spots[place].host.room < weight:
                continue
            more = yield from _more(problem, spots[place], self._nothing, number, self._floors)
            if more is None:
                yield None
                continue
            self._used[alike] += 1
            opened = _Opened(spots[place], alike, len(self._opened), self._nothing)
            self._opened.append(opened)
            yield opened, more

    def _nodes_left(self, begun: int) -> int:
        return min(self._nodes - begun, len(self._rooms) - 1)

    def _take_back(self, node: _Opened, before: Counts) -> None:
        """Remove the last member; a fresh node without members is closed again."""
        number = next(place for place, (now, was) in enumerate(zip(node.taken, before, strict=True)) if now != was)
        node.room += self._problem.kinds[number].weight
        node.taken = before
        if node.spot.fresh and not any(before):
            self._opened.pop()
            self._used[node.alike] -= 1

    def _alike(self, spot: Spot) -> Hashable:
        """Nodes with an equal value fit the same members; which kinds fit together may depend on the node itself."""
        return (spot.host, spot.caps, spot.name if spot.like is None and len(self._problem.kinds) > 1 else spot.like)

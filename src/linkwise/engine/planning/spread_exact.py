"""The best spread of a group over nodes, by a table of all that is left to place: exact, for groups that are not large.

One node after the other takes some of the members or none. For every number of nodes and every rest of members the
cheapest way there is kept.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from itertools import accumulate, islice, product
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import NOTHING_LOST
from linkwise.engine.planning.problem import Option

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from linkwise.engine.planning.hosts import Floors
    from linkwise.engine.planning.problem import Case, Cost, Counts, GroupProblem, Region, Spot

__all__ = ["Spread", "exact_fewest", "exact_spread", "left_over", "options_of"]

AT_ONCE: Final = 2000
"""ways that are tried between two steps"""


@dataclass(frozen=True, slots=True)
class Spread:
    """How many members of each kind each node takes."""

    cost: Cost
    counts: dict[str, Counts]
    """by node; empty while only kinds of nodes are known"""
    proven: bool = True
    cases: Mapping[tuple[Case, Counts], int] = field(default_factory=dict)
    """how many nodes of a kind take so many"""

    def named(self, region: Region) -> dict[str, Counts]:
        """By node: of nodes that are alike the first ones, by domain and name."""
        if self.counts or not self.cases:
            return self.counts
        found: dict[str, Counts] = {}
        names: dict[Case, Iterator[str]] = {}
        for (case, counts), number in self.cases.items():
            if case not in names:
                names[case] = region.names(case)
            found |= dict.fromkeys(islice(names[case], number), counts)
        return found


class _Way(NamedTuple):
    """What a node took, and how it came to that."""

    name: str
    counts: Counts
    before: _Way | None


def options_of(problem: GroupProblem, spot: Spot, floors: Floors) -> list[Option]:
    """All ways to place some members on a node; worked out once for all nodes that are alike."""
    if spot.like is None and len(problem.kinds) > 1:
        return _options(problem, spot, floors)  # who is side by side with whom may depend on the node itself
    key = (spot.host, spot.caps, spot.fresh, spot.like, floors)
    known = problem.options.get(key)
    if known is None:
        known = problem.options[key] = _options(problem, spot, floors)
    return known


def _options(problem: GroupProblem, spot: Spot, floors: Floors) -> list[Option]:
    host, found = spot.host, []
    most = [min(cap, kind.count, host.room // kind.size) for cap, kind in zip(spot.caps, problem.kinds, strict=True)]
    for counts in product(*(range(limit, -1, -1) for limit in most)):
        devices = problem.devices(counts)
        if not 0 < devices <= host.room:
            continue
        several = sum(1 for count in counts if count) > 1
        if several and not problem.together(spot.name, counts):
            continue
        loss = host.loss(problem.sizes(counts), floors)
        if loss is not None:
            found.append(Option(counts, problem.cost(loss, left_over(spot) - devices), devices))
    return found


def left_over(spot: Spot) -> int:
    """Devices that using the node adds to those left over: a node where members are bound already counts anyway."""
    return spot.host.room if spot.fresh else 0


def exact_fewest(problem: GroupProblem, region: Region, floors: Floors, most: int) -> Generator[None, None, int | None]:
    """On how few fresh nodes the whole group can be placed; None if it takes more than so many."""
    spots = sorted(region.spots, key=lambda spot: -spot.host.room)
    ahead = _room_ahead(spots, most)
    best: dict[Counts, int] = {problem.wanted: 0}
    work = 0
    for spot, room in zip(spots, ahead, strict=True):
        yield
        options = options_of(problem, spot, floors)
        found = {rest: used for rest, used in best.items() if problem.devices(rest) <= room[most - used]}
        for rest, before in best.items():
            used = before + spot.fresh
            if used > most:
                continue
            work += len(options)
            if work > AT_ONCE:
                work = 0
                yield
            least = problem.devices(rest) - room[most - used]
            for option in options:
                if option.devices < least:
                    continue  # the nodes to come can't take what it leaves
                left = _minus(rest, option.counts)
                if left is not None and used < found.get(left, most + 1):
                    found[left] = used
        best = found
    return best.get(tuple(0 for _ in problem.kinds))


def exact_spread(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, Spread | None]:
    """The cheapest way to place the whole group on exactly so many fresh nodes; None if there is none."""
    start = (0, problem.wanted)
    zero = problem.cost(NOTHING_LOST, 0)
    best: dict[tuple[int, Counts], tuple[Cost, _Way | None]] = {start: (zero, None)}
    work = 0
    for spot, room in zip(region.spots, _room_ahead(region.spots, nodes), strict=True):
        yield
        options = options_of(problem, spot, floors)
        found = {state: way for state, way in best.items() if problem.devices(state[1]) <= room[nodes - state[0]]}
        for (before, rest), (cost, way) in best.items():
            used = before + spot.fresh
            if used > nodes:
                continue
            work += len(options)
            if work > AT_ONCE:
                work = 0
                yield
            least = problem.devices(rest) - room[nodes - used]
            for option in options:
                if option.devices < least:
                    continue  # the nodes to come can't take what it leaves
                left = _minus(rest, option.counts)
                if left is None:
                    continue
                state = (used, left)
                total = tuple(map(int.__add__, cost, option.cost))
                if state not in found or total < found[state][0]:
                    found[state] = (total, _Way(spot.name, option.counts, way))
        best = found
    end = best.get((nodes, tuple(0 for _ in problem.kinds)))
    return Spread(end[0], _walked(end[1])) if end else None


def _room_ahead(spots: Sequence[Spot], most: int) -> list[list[int]]:
    """For each node the free devices of those after it: of all that are not fresh, and of the 0, 1, ... largest others."""
    ahead = []
    fresh: list[int] = []
    bound = 0
    for spot in reversed(spots):
        sums = list(accumulate(reversed(fresh), initial=bound))
        ahead.append(sums + sums[-1:] * (most + 1 - len(sums)))
        if not spot.fresh:
            bound += spot.host.room
            continue
        insort(fresh, spot.host.room)
        if len(fresh) > most:
            del fresh[0]
    return ahead[::-1]


def _walked(way: _Way | None) -> dict[str, Counts]:
    counts: dict[str, Counts] = {}
    while way:
        counts[way.name] = way.counts
        way = way.before
    return counts


def _minus(rest: Counts, taken: Counts) -> Counts | None:
    left = tuple(map(int.__sub__, rest, taken))
    return None if min(left) < 0 else left

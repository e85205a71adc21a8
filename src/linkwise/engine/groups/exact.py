"""The best spread of a group over nodes, by a table of all that is left to place: exact, for groups that are not large.

One node after the other takes some of the members or none. For every number of nodes and every rest of members the
cheapest way there is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from linkwise.engine.groups.hosting import NOTHING_LOST

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from linkwise.engine.groups.hosting import Floors
    from linkwise.engine.groups.problem import Case, Cost, Counts, GroupProblem, Region, Spot

__all__ = ["Spread", "exact_fewest", "exact_spread", "left_over", "options_of"]


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
        for (case, counts), number in self.cases.items():
            names = [name for name in region.names(case) if name not in found]
            found |= dict.fromkeys(names[:number], counts)
        return found


class Option(NamedTuple):
    """What one node could take."""

    counts: Counts
    cost: Cost


class _Way(NamedTuple):
    """What a node took, and how it came to that."""

    name: str
    counts: Counts
    before: _Way | None


def options_of(problem: GroupProblem, spot: Spot, floors: Floors) -> list[Option]:
    """All ways to place some members on a node."""
    host, found = spot.host, []
    most = [min(cap, kind.count, host.room // kind.size) for cap, kind in zip(spot.caps, problem.kinds, strict=True)]
    for counts in product(*(range(limit, -1, -1) for limit in most)):
        sizes = problem.sizes(counts)
        if not sizes or sum(sizes) > host.room:
            continue
        several = sum(1 for count in counts if count) > 1
        if several and not problem.together(spot.name, counts):
            continue
        loss = host.loss(sizes, floors)
        if loss is not None:
            found.append(Option(counts, problem.cost(loss, left_over(spot) - sum(sizes))))
    return found


def left_over(spot: Spot) -> int:
    """Devices that using the node adds to those left over: a node where members are bound already counts anyway."""
    return spot.host.room if spot.fresh else 0


def exact_fewest(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int | None]:
    """On how few fresh nodes the whole group can be placed; None if it can't be."""
    best: dict[Counts, int] = {problem.wanted: 0}
    nothing = tuple(0 for _ in problem.kinds)
    for spot in sorted(region.spots, key=lambda spot: -spot.host.room):
        yield
        found = dict(best)
        options = options_of(problem, spot, floors)
        for rest, nodes in best.items():
            for option in options:
                left = _minus(rest, option.counts)
                if left is not None and nodes + spot.fresh < found.get(left, 1 << 30):
                    found[left] = nodes + spot.fresh
        best = found
    return best.get(nothing)


def exact_spread(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, Spread | None]:
    """The cheapest way to place the whole group on exactly so many fresh nodes; None if there is none."""
    start = (0, problem.wanted)
    zero = problem.cost(NOTHING_LOST, 0)
    best: dict[tuple[int, Counts], tuple[Cost, _Way | None]] = {start: (zero, None)}
    for spot in region.spots:
        yield
        found = dict(best)
        options = options_of(problem, spot, floors)
        for (used, rest), (cost, way) in best.items():
            if used + spot.fresh > nodes:
                continue
            for option in options:
                left = _minus(rest, option.counts)
                if left is None:
                    continue
                state = (used + spot.fresh, left)
                total = tuple(map(sum, zip(cost, option.cost, strict=True)))
                if state not in found or total < found[state][0]:
                    found[state] = (total, _Way(spot.name, option.counts, way))
        best = found
    end = best.get((nodes, tuple(0 for _ in problem.kinds)))
    return Spread(end[0], _walked(end[1])) if end else None


def _walked(way: _Way | None) -> dict[str, Counts]:
    counts: dict[str, Counts] = {}
    while way:
        counts[way.name] = way.counts
        way = way.before
    return counts


def _minus(rest: Counts, taken: Counts) -> Counts | None:
    left = tuple(map(int.__sub__, rest, taken))
    return None if min(left) < 0 else left

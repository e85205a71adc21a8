"""Spread of members over nodes: by slots if they are equal, exactly if they are few.

Equal members: nodes with equal slots are one case, and n members need the fewest nodes whose slots, taken in descending
order, add up to n. Few members: by dynamic programming. Node by node, for every number of nodes used and every combination
of members left to place, the table has the cheapest way there. `spread_packed` is for many unequal members.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate, islice, product
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import NO_FLOORS, NOTHING_LOST, PartSize
from linkwise.engine.planning.parts import PartsHost
from linkwise.engine.planning.problem import Options

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from linkwise.engine.planning.hosts import Floors, Host, Sizes
    from linkwise.engine.planning.problem import Case, Cost, Counts, GroupProblem, Region, Spot

__all__ = [
    "Spread",
    "at_once",
    "begun",
    "equal_fewest",
    "equal_most",
    "equal_spread",
    "exact_fewest",
    "exact_spread",
    "fewest_with",
    "largest_counts",
    "searched",
    "searched_fit",
]


CASES_PER_STEP: Final = 8
"""cases of equal nodes evaluated between two yields"""
OPTIONS_PER_STEP: Final = 2000
"""options tried between two yields"""
SEARCHES_PER_STEP: Final = 2
"""searches for parts of devices between two yields"""


@dataclass(frozen=True, slots=True)
class Spread:
    """The number of members of each kind per node, or per case of equal nodes."""

    cost: Cost
    counts: dict[str, Counts]
    """by node; empty if the spread is by case"""
    proven: bool = True
    cases: Mapping[tuple[Case, Counts], int] = field(default_factory=dict)
    """the number of nodes of a case that take these members"""

    def named(self, region: Region) -> dict[str, Counts]:
        """The members by node: of equal nodes the first, by domain and name."""
        if self.counts or not self.cases:
            return self.counts
        by_node: dict[str, Counts] = {}
        names: dict[Case, Iterator[str]] = {}
        for (case, counts), number in self.cases.items():
            if case not in names:
                names[case] = region.names(case)
            by_node |= dict.fromkeys(islice(names[case], number), counts)
        return by_node


class _Way(NamedTuple):
    """The members of one node, linked to the nodes before it."""

    name: str
    counts: Counts
    before: _Way | None


def searched(host: Host, sizes: Sizes, floors: Floors) -> Generator[None, None, None]:
    """Make the loss of these members known in steps, where that takes long: parts of devices are searched for."""
    if isinstance(host, PartsHost):
        yield from host.search(sizes, floors)


def searched_fit(host: Host, sizes: Sizes, floors: Floors) -> Generator[None, None, bool]:
    """Whether these members fit, in steps where that takes long."""
    if isinstance(host, PartsHost):
        yield from host.search_fit(sizes, floors)
    return host.fits(sizes, floors)


def at_once(problem: GroupProblem, number: int, parts: int = 1) -> int:
    """What is evaluated between two yields: fewer if members get parts of devices, which are searched for."""
    return parts if any(isinstance(kind.size, PartSize) for kind in problem.kinds) else number


class _Choices:
    """The combinations of members that a node could take; whether they fit and what they cost is found out when needed."""

    def __init__(self, problem: GroupProblem, spot: Spot, floors: Floors) -> None:
        self._problem = problem
        self._spot = spot
        self._floors = floors
        self._work = 0
        known = self._options()
        self.possible = known.possible = [one for one in known.possible if known.fitting.get(one[0], True)]
        self.fitting, self.costs = known.fitting, known.costs

    def _options(self) -> Options:
        """Cached for equal nodes."""
        problem, spot = self._problem, self._spot
        if spot.like is None and len(problem.kinds) > 1:
            return Options(self._combinations())  # which kinds fit together may depend on the node itself
        key = (spot.host, spot.caps, spot.fresh, spot.like, self._floors)
        if key not in problem.options:
            problem.options[key] = Options(self._combinations())
        return problem.options[key]

    def _combinations(self) -> list[tuple[Counts, float]]:
        problem, host = self._problem, self._spot.host
        kinds = zip(self._spot.caps, problem.kinds, strict=True)
        most = [min(cap, kind.count, host.at_most(kind.size, NO_FLOORS)) for cap, kind in kinds]
        weights, room = [kind.weight for kind in problem.kinds], host.room
        every = product(*(range(limit, -1, -1) for limit in most))
        return [
            (counts, devices) for counts in every if any(counts) and (devices := sum(map(mul, counts, weights))) <= room
        ]

    def fits(self, counts: Counts) -> Generator[None, None, bool]:
        """Whether these members fit."""
        if counts not in self.fitting:
            several = sum(1 for count in counts if count) > 1
            fit = not several or self._problem.together(self._spot.name, counts)
            if fit:
                yield from self._step()
                fit = yield from searched_fit(self._spot.host, self._problem.sizes(counts), self._floors)
            self.fitting[counts] = fit
        return self.fitting[counts]

    def cost(self, counts: Counts) -> Generator[None, None, Cost | None]:
        """What these members cost; None if they don't fit."""
        if counts not in self.costs:
            host, sizes = self._spot.host, self._problem.sizes(counts)
            loss = None
            if (yield from self.fits(counts)):
                yield from self._step()
                yield from searched(host, sizes, self._floors)
                loss = host.loss(sizes, self._floors)
            self.costs[counts] = None if loss is None else self._problem.cost(loss, begun(self._spot))
        return self.costs[counts]

    def all(self) -> Generator[None, None, set[Counts]]:
        """All combinations that fit."""
        fitting = set()
        for counts, _ in self.possible:
            if (yield from self.fits(counts)):
                fitting.add(counts)
        return fitting

    def _step(self) -> Generator[None, None, None]:
        """Pause after a few searches; nothing else takes long."""
        self._work += isinstance(self._spot.host, PartsHost)
        if self._work == SEARCHES_PER_STEP:
            self._work = 0
            yield


def begun(spot: Spot) -> int:
    """Free devices that the node adds to those of the group's nodes; one with bound members is counted already."""
    return spot.host.free if spot.fresh else 0


def exact_fewest(problem: GroupProblem, region: Region, floors: Floors, most: int) -> Generator[None, None, int | None]:
    """The fewest fresh nodes for all members; None if more than `most` are needed."""
    spots = sorted(region.spots, key=lambda spot: -spot.host.room)
    ahead = _free_ahead(spots, most)
    best: dict[Counts, int] = {problem.wanted: 0}
    work = 0
    for spot, free in zip(spots, ahead, strict=True):
        yield
        choices = _Choices(problem, spot, floors)
        reached = {rest: used for rest, used in best.items() if problem.devices(rest) <= free[most - used]}
        for rest, before in best.items():
            used = before + spot.fresh
            if used > most:
                continue
            work += len(choices.possible)
            if work > OPTIONS_PER_STEP:
                work = 0
                yield
            least = problem.devices(rest) - free[most - used]
            for counts, devices in choices.possible:
                if devices < least:
                    continue  # the remaining nodes have too few devices for what it leaves
                left = _minus(rest, counts)
                if left is None or used >= reached.get(left, most + 1):
                    continue
                if choices.fitting.get(counts) or (yield from choices.fits(counts)):
                    reached[left] = used
        best = reached
    return best.get(tuple(0 for _ in problem.kinds))


def largest_counts(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, set[Counts]]:
    """All combinations of members that fit the region at once and to which none can be added."""
    front = {tuple(0 for _ in problem.kinds)}
    for spot in region.spots:
        yield
        options = _maximal((yield from _Choices(problem, spot, floors).all()))
        sums = (tuple(map(int.__add__, before, more)) for before in front for more in options)
        front = _maximal(front | {tuple(map(min, counts, problem.wanted)) for counts in sums})
    return front


def _maximal(combinations: set[Counts]) -> set[Counts]:
    """Those that no other one contains."""
    kept: list[Counts] = []
    for counts in sorted(combinations, key=sum, reverse=True):
        if not any(all(map(int.__ge__, other, counts)) for other in kept):
            kept.append(counts)
    return set(kept)


def exact_spread(
    problem: GroupProblem, region: Region, nodes: int, floors: Floors
) -> Generator[None, None, Spread | None]:
    """The cheapest spread of all members on exactly `nodes` fresh nodes; None if there is none."""
    start = (0, problem.wanted)
    zero = problem.cost(NOTHING_LOST, 0)
    best: dict[tuple[int, Counts], tuple[Cost, _Way | None]] = {start: (zero, None)}
    work = 0
    for spot, free in zip(region.spots, _free_ahead(region.spots, nodes), strict=True):
        yield
        choices = _Choices(problem, spot, floors)
        reached = {state: way for state, way in best.items() if problem.devices(state[1]) <= free[nodes - state[0]]}
        for (before, rest), (cost, way) in best.items():
            used = before + spot.fresh
            if used > nodes:
                continue
            work += len(choices.possible)
            if work > OPTIONS_PER_STEP:
                work = 0
                yield
            least = problem.devices(rest) - free[nodes - used]
            for counts, devices in choices.possible:
                if devices < least:
                    continue  # the remaining nodes have too few devices for what it leaves
                left = _minus(rest, counts)
                if left is None:
                    continue
                more = choices.costs.get(counts) or (yield from choices.cost(counts))
                if more is None:
                    continue
                state = (used, left)
                total = tuple(map(int.__add__, cost, more))
                if state not in reached or total < reached[state][0]:
                    reached[state] = (total, _Way(spot.name, counts, way))
        best = reached
    end = best.get((nodes, tuple(0 for _ in problem.kinds)))
    return Spread(end[0], _counts_of(end[1])) if end else None


def _free_ahead(spots: Sequence[Spot], most: int) -> list[list[float]]:
    """For each node the free devices after it: of all nodes that are not fresh, and of the 0, 1, ... largest fresh ones."""
    ahead = []
    fresh: list[float] = []
    bound: float = 0
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


def _counts_of(way: _Way | None) -> dict[str, Counts]:
    counts: dict[str, Counts] = {}
    while way:
        counts[way.name] = way.counts
        way = way.before
    return counts


def _minus(rest: Counts, taken: Counts) -> Counts | None:
    left = tuple(map(int.__sub__, rest, taken))
    return None if min(left) < 0 else left


def equal_fewest(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int | None]:
    """The fewest fresh nodes for all members; None if they don't fit."""
    left = problem.kinds[0].count
    fresh: Counter[int] = Counter()
    for number, (case, count) in enumerate(region.cases.items()):
        if number % at_once(problem, CASES_PER_STEP) == 0:
            yield
        slots = _slots(problem, case, floors)
        if case.fresh:
            fresh[slots] += count
        else:
            left -= slots * count
    return fewest_with(fresh, left)


def equal_most(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int]:
    """The most members that fit the region."""
    slots = 0
    for number, (case, count) in enumerate(region.cases.items()):
        if number % at_once(problem, CASES_PER_STEP) == 0:
            yield
        slots += _slots(problem, case, floors) * count
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
    return (yield from _Spreading(problem, region, floors).spread(nodes))


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

    def spread(self, nodes: int) -> Generator[None, None, Spread | None]:
        slots = yield from self._slots_of_cases()
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
            yield from self._search_fewer(taken)
            self._remove_member(taken)
        total = self._problem.cost(NOTHING_LOST, 0)
        for (case, count), number in taken.items():
            total = tuple(sum_ + number * term for sum_, term in zip(total, self._cost(case, count), strict=True))
        chosen: dict[tuple[Case, Counts], int] = {
            (case, (count,)): number for (case, count), number in taken.items() if number and count
        }
        return Spread(total, {}, spare == 0 and not bound, chosen)

    def _slots_of_cases(self) -> Generator[None, None, dict[Case, int]]:
        slots: dict[Case, int] = {}
        per_step = at_once(self._problem, CASES_PER_STEP)
        for number, case in enumerate(self._region.cases):
            if number % per_step == 0:
                yield
            slots[case] = _slots(self._problem, case, self._floors)
            if slots[case] and case.fresh:
                yield from searched(case.host, (self._size,) * slots[case], self._floors)
        return slots

    def _search_fewer(self, taken: Counter[tuple[Case, int]]) -> Generator[None, None, None]:
        """Determine in steps the losses that decide where a member is removed."""
        yield
        for case, count in [key for key, number in taken.items() if number and key[1] > key[0].fresh]:
            for kept in (count, count - 1):
                if kept and (case, kept) not in self._costs:
                    yield from searched(case.host, (self._size,) * kept, self._floors)

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

"""The spread of many unequal members over nodes: largest first, on the tightest node that fits; good, seldom proven."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from linkwise.engine.groups.equal import fewest_with
from linkwise.engine.groups.exact import Spread, left_over
from linkwise.engine.groups.hosting import NOTHING_LOST

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from linkwise.engine.groups.hosting import Floors
    from linkwise.engine.groups.problem import Cost, Counts, GroupProblem, Region, Spot

__all__ = ["fewest_bound", "packed_fewest", "packed_fits", "packed_spread"]


def fewest_bound(problem: GroupProblem, region: Region) -> int | None:
    """No plan has fewer fresh nodes than this: their devices must add up, for every size that members have.

    None if they do not, whatever is done.
    """
    bound = 0
    for size in {kind.size for kind in problem.kinds}:
        need = sum(kind.count * (kind.size // size) for kind in problem.kinds)
        rooms: Counter[int] = Counter()
        for case, count in region.cases.items():
            if case.fresh:
                rooms[case.host.room // size] += count
            else:
                need -= count * (case.host.room // size)
        used = fewest_with(rooms, need)
        if used is None:
            return None
        bound = max(bound, used)
    return bound


def packed_fewest(problem: GroupProblem, region: Region, floors: Floors) -> Generator[None, None, int | None]:
    """On how few fresh nodes the group was seen to fit; None if it was not."""
    fresh = sum(spot.fresh for spot in region.spots)
    low = fewest_bound(problem, region)
    if low is None:
        return None
    for nodes in _tries(low, fresh):
        if (yield from _packed(problem, region, nodes, floors)) is not None:
            return nodes
    return None


def packed_fits(problem: GroupProblem, region: Region, nodes: int, floors: Floors) -> Generator[None, None, bool]:
    """Whether the group was seen to fit on so many fresh nodes."""
    low = fewest_bound(problem, region)
    if low is None or low > nodes:
        return False
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
    fresh = sorted(
        (spot for spot in region.spots if spot.fresh), key=lambda spot: (-spot.host.room, spot.path, spot.name)
    )
    spots = [*(spot for spot in region.spots if not spot.fresh), *fresh[:nodes]]
    counts = {spot.name: [0] * len(problem.kinds) for spot in spots}
    room = {spot.name: spot.host.room for spot in spots}
    for number, kind in enumerate(problem.kinds):
        for _ in range(kind.count):
            yield
            home = _tightest(problem, number, spots, (counts, room), floors)
            if home is None:
                return None
            counts[home][number] += 1
            room[home] -= kind.size
    return {name: tuple(taken) for name, taken in counts.items() if any(taken)}


def _tightest(
    problem: GroupProblem,
    number: int,
    spots: Sequence[Spot],
    state: tuple[dict[str, list[int]], dict[str, int]],
    floors: Floors,
) -> str | None:
    counts, room = state
    size = problem.kinds[number].size
    fitting = [spot for spot in spots if room[spot.name] >= size and counts[spot.name][number] < spot.caps[number]]
    for spot in sorted(fitting, key=lambda spot: (room[spot.name], spot.name)):
        taken = list(counts[spot.name])
        taken[number] += 1
        several = sum(1 for count in taken if count) > 1
        if several and not problem.together(spot.name, tuple(taken)):
            continue
        if spot.host.loss(problem.sizes(tuple(taken)), floors) is not None:
            return spot.name
    return None

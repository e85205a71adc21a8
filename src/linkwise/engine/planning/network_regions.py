"""Where in the network a group could be: one domain as narrow as possible, or the fewest of the narrowest that do."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from linkwise.engine.planning.problem import Rack, Region

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from linkwise.engine.planning.problem import GroupProblem

__all__ = ["SUBSETS", "children", "several", "start_regions"]

AT_ONCE: Final = 1000
"""nodes looked at between two steps"""
SUBSETS: Final = 3000
"""sets of domains that are tried; where there are more, the largest domains are taken and that is said"""


def start_regions(problem: GroupProblem) -> Generator[None, None, list[Region]]:
    """The regions that the rules allow: one model of devices, one domain of every level that is required."""
    racks = yield from _racks(problem)
    found: dict[tuple[str, ...], list[Rack]] = {}
    for model, path in sorted(racks):  # so that ties do not depend on arrival
        found.setdefault((model, *path[: problem.required]), []).append(racks[model, path])
    return [Region(key[1:], own) for key, own in sorted(found.items(), key=itemgetter(0))]


def _racks(problem: GroupProblem) -> Generator[None, None, dict[tuple[str, tuple[str, ...]], Rack]]:
    """The nodes that could take any member, by model and path."""
    smallest, required, mixed = problem.kinds[-1].size, problem.required, problem.mixed
    racks: dict[tuple[str, tuple[str, ...]], Rack] = {}
    for number, spot in enumerate(problem.spots):
        if number % AT_ONCE == 0:
            yield
        path = spot.path
        if not any(spot.caps) or spot.host.room < smallest:
            continue
        if "" in path[:required]:
            continue  # a node that does not say where it is can't be where it must
        key = ("" if mixed else spot.model, path)
        if key not in racks:
            racks[key] = Rack(path)
        racks[key].put(spot)
    return racks


def children(region: Region, level: int) -> list[Region]:
    """The domains of the next level in a region; a node that does not say is one of its own."""
    found: dict[tuple[str, str], list[Rack]] = {}
    for rack in region.racks:
        word = rack.path[level]
        if word:
            found.setdefault((word, ""), []).append(rack)
        else:
            found |= {("", spot.name): [Rack(rack.path, [spot])] for spot in rack.spots()}
    return [
        Region((*region.path, word or name), racks) for (word, name), racks in sorted(found.items(), key=itemgetter(0))
    ]


def several(domains: list[Region], count: int) -> tuple[Iterator[Region], bool]:
    """So many of the domains as one region, every choice of them; and whether these are all choices."""
    whole = comb(len(domains), count) <= SUBSETS
    order = domains if whole else sorted(domains, key=lambda region: -len(region))
    chosen = combinations(order, count) if whole else islice(combinations(order, count), SUBSETS)
    return map(_joined, chosen), whole


def _joined(regions: Sequence[Region]) -> Region:
    path = tuple(sorted("+".join(region.path[-1:]) for region in regions))
    return Region((*regions[0].path[:-1], "+".join(path)), parts=regions)

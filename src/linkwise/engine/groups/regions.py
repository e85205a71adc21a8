"""Where in the network a group could be: one domain as narrow as possible, or the fewest of the narrowest that do."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb
from typing import TYPE_CHECKING, Final

from linkwise.engine.groups.problem import Region

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.engine.groups.problem import GroupProblem, Spot

__all__ = ["SUBSETS", "children", "several", "start_regions"]

SUBSETS: Final = 3000
"""sets of domains that are tried; where there are more, the largest domains are taken and that is said"""


def start_regions(problem: GroupProblem) -> list[Region]:
    """The regions that the rules allow: one model of devices, one domain of every level that is required."""
    found: dict[tuple[str, ...], list[Spot]] = {}
    for spot in sorted(problem.spots, key=lambda spot: (spot.path, spot.name)):  # so that ties do not depend on arrival
        if not any(spot.caps) or spot.host.room < problem.kinds[-1].size:
            continue
        if "" in spot.path[: problem.required]:
            continue  # a node that does not say where it is can't be where it must
        model = "" if problem.mixed else spot.model
        found.setdefault((model, *spot.path[: problem.required]), []).append(spot)
    return [Region(key[1:], spots) for key, spots in sorted(found.items())]


def children(region: Region, level: int) -> list[Region]:
    """The domains of the next level in a region; a node that does not say is one of its own."""
    found: dict[tuple[str, str], list[Spot]] = {}
    for spot in region.spots:
        word = spot.path[level]
        found.setdefault((word, "" if word else spot.name), []).append(spot)
    return [Region((*region.path, word or name), spots) for (word, name), spots in sorted(found.items())]


def several(domains: list[Region], count: int) -> tuple[list[Region], bool]:
    """So many of the domains as one region, every choice of them; and whether these are all choices."""
    whole = comb(len(domains), count) <= SUBSETS
    order = domains if whole else sorted(domains, key=lambda region: -len(region))
    chosen = combinations(order, count) if whole else islice(combinations(order, count), SUBSETS)
    return [_joined(parts) for parts in chosen], whole


def _joined(parts: Iterable[Region]) -> Region:
    regions = list(parts)
    path = tuple(sorted("+".join(region.path[-1:]) for region in regions))
    return Region((*regions[0].path[:-1], "+".join(path)), parts=regions)

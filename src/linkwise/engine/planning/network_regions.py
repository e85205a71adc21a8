"""Network regions: the narrowest domain that a group fits in, or the fewest of the narrowest domains."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from linkwise.engine.planning.problem import Rack, Region

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from linkwise.engine.planning.problem import GroupProblem

__all__ = ["SUBSETS", "Domain", "bound_domains", "children", "several", "start_regions"]

Domain = tuple[str, str]
"""the domain of a node at a level; a node without the level's label is a domain of its own, by its name"""

NODES_PER_STEP: Final = 1000
"""nodes grouped between two yields"""
SUBSETS: Final = 3000
"""sets of domains that are tried; beyond them the largest domains go first, and the level is not proven"""


def start_regions(problem: GroupProblem) -> Generator[None, None, list[Region]]:
    """The allowed regions: one device model, and one domain at every required level, that of bound members."""
    racks = yield from _racks(problem)
    home = problem.home()
    regions: dict[tuple[str, ...], list[Rack]] = {}
    for model, path in sorted(racks):  # sorted, so that ties do not depend on the order of nodes
        if path[: len(home)] == home:
            regions.setdefault((model, *path[: problem.required]), []).append(racks[model, path])
    return [Region(key[1:], own) for key, own in sorted(regions.items(), key=itemgetter(0))]


def _racks(problem: GroupProblem) -> Generator[None, None, dict[tuple[str, tuple[str, ...]], Rack]]:
    """The nodes that fit at least one member, by model and path."""
    smallest, required, mixed = problem.kinds[-1].size, problem.required, problem.mixed
    racks: dict[tuple[str, tuple[str, ...]], Rack] = {}
    for number, spot in enumerate(problem.spots):
        if number % NODES_PER_STEP == 0:
            yield
        path = spot.path
        if not any(spot.caps) or spot.host.room < smallest:
            continue
        if "" in path[:required]:
            continue  # the node lacks the label of a required level
        key = ("" if mixed else spot.model, path)
        if key not in racks:
            racks[key] = Rack(path)
        racks[key].put(spot)
    return racks


def bound_domains(problem: GroupProblem, level: int) -> set[Domain]:
    """The domains of bound members at a level."""
    return {(node.path[level], "" if node.path[level] else node.name) for node in problem.bound}


def children(region: Region, level: int, bound: Collection[Domain] = ()) -> dict[Domain, Region]:
    """The domains of a region at a level, and those of bound members, which may have no room."""
    domains: dict[Domain, list[Rack]] = {domain: [] for domain in bound}
    for rack in region.racks:
        domain = rack.path[level]
        if domain:
            domains.setdefault((domain, ""), []).append(rack)
        else:
            domains |= {("", spot.name): [Rack(rack.path, [spot])] for spot in rack.spots()}
    return {
        (domain, name): Region((*region.path, domain or name), racks)
        for (domain, name), racks in sorted(domains.items(), key=itemgetter(0))
    }


def several(domains: dict[Domain, Region], bound: Collection[Domain], count: int) -> tuple[Iterator[Region], bool]:
    """All unions of `count` domains with the bound ones, and whether these are all; at most SUBSETS are returned."""
    own = [domains[domain] for domain in sorted(bound)]
    others = [region for domain, region in domains.items() if domain not in bound]
    more = count - len(own)
    complete = comb(len(others), more) <= SUBSETS
    order = others if complete else sorted(others, key=lambda region: -len(region))
    chosen = combinations(order, more) if complete else islice(combinations(order, more), SUBSETS)
    return (_union([*own, *rest]) for rest in chosen), complete


def _union(regions: Sequence[Region]) -> Region:
    path = tuple(sorted("+".join(region.path[-1:]) for region in regions))
    return Region((*regions[0].path[:-1], "+".join(path)), parts=regions)

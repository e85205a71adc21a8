"""Canonical links: one value per link kind, or per class of measured bandwidths, without the noise of samples.

Bound: thousands of machines measure thousands of different matrices, but have few kinds of links. In canonical form equal
machines compare equal, so that one result serves them all. Link kinds can also be inferred from a bandwidth matrix: their
order is right, their numbers are approximate.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import inf, log, log10
from typing import TYPE_CHECKING, Final

from linkwise.model.link import SELF, UNKNOWN_LINK, Link, Pcie
from linkwise.speed.caches import cached_by_identity
from linkwise.topology.link_bandwidth import link_value
from linkwise.topology.link_score import MAX_NVLINKS
from linkwise.topology.sample_cleaning import clean_pairs, symmetric

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix, Topology

__all__ = ["MACHINES", "canonical", "canonical_of", "canonical_pairs", "class_links", "classes", "inferred_links"]

MACHINES: Final = 2_048
"""topologies whose values are cached; most nodes of one type share one topology object"""

GAP: Final = 0.8
"""a value below this fraction of the next larger one starts a new class"""
STEPS: Final = 12
"""class values per decade"""


def canonical(topology: Topology) -> Matrix:
    """One value per pair, by link kind or by class; empty without links and samples."""
    known = topology.links or topology.bandwidth
    return symmetric(canonical_pairs(topology), len(topology.devices)) if known else ()


@lru_cache(maxsize=MACHINES)
def _shared(values: Matrix) -> Matrix:
    return values


def _shared_canonical(topology: Topology) -> Matrix:
    return _shared(canonical(topology))


canonical_of: Final = cached_by_identity(_shared_canonical, MACHINES)
"""`canonical`, cached; equal machines have one and the same matrix"""


def canonical_pairs(topology: Topology) -> tuple[float, ...]:
    """The values of `canonical` for the pairs above the diagonal, row by row."""
    if topology.links:
        pairs = combinations(range(len(topology.devices)), 2)
        return tuple([link_value(min(topology.links[i][j], topology.links[j][i])) for i, j in pairs])
    values, _ = clean_pairs(topology.bandwidth)
    return tuple(map(classes(values).__getitem__, values))


def classes(values: list[float]) -> dict[float, float]:
    """The class value of every value: the median of its class, rounded to twelve values per decade."""
    groups: list[list[float]] = []
    for value in sorted(values, reverse=True):
        if groups and value >= GAP * groups[-1][-1]:
            groups[-1].append(value)
        else:
            groups.append([value])
    class_of: dict[float, float] = {}
    for group in groups:
        class_of |= dict.fromkeys(group, _rounded(group[len(group) // 2]))
    return class_of


def _rounded(value: float) -> float:
    """The nearest class value, to three digits; 0 stays 0."""
    return float(f"{10 ** (round(STEPS * log10(value)) / STEPS):.3g}") if value > 0 else 0.0


# From slow to fast; a class of bandwidths gets the kind with the nearest typical value.
KINDS: Final = tuple(
    [Link.of(0, kind) for kind in Pcie if kind] + [Link.of(count, Pcie.SYS) for count in range(1, MAX_NVLINKS + 1)]
)


def inferred_links(samples: Matrix) -> tuple[tuple[Link, ...], ...]:
    """A link per pair; a faster class of bandwidths always gets a faster kind."""
    values, _ = clean_pairs(samples)
    return class_links(symmetric(list(map(classes(values).__getitem__, values)), len(samples)))


def class_links(values: Matrix) -> tuple[tuple[Link, ...], ...]:
    """`inferred_links` for a matrix of class values."""
    count = len(values)
    kinds = _kinds(sorted({values[i][j] for i, j in combinations(range(count), 2)}))
    return tuple(tuple(SELF if i == j else kinds[values[i][j]] for j in range(count)) for i in range(count))


def _kinds(levels: list[float]) -> dict[float, Link]:
    """A kind per class value, ascending; two classes share a kind only if there are more classes than kinds."""
    kinds: dict[float, Link] = {}
    lowest = 0
    known = [level for level in levels if level > 0]
    for number, level in enumerate(known):
        highest = max(lowest, len(KINDS) - len(known) + number)
        choice = min(range(lowest, min(highest, len(KINDS) - 1) + 1), key=lambda kind: _distance(level, kind))
        kinds[level] = KINDS[choice]
        lowest = min(choice + 1, len(KINDS) - 1)
    return kinds | {level: UNKNOWN_LINK for level in levels if level <= 0}


def _distance(level: float, kind: int) -> float:
    value = link_value(KINDS[kind])
    return abs(log(level / value)) if value else inf

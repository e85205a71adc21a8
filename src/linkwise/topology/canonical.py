"""A machine's links without the noise: a value a link kind, or a value a class of measured bandwidths.

Thousands of machines measure thousands of different matrices, yet have few kinds of links. In canonical form equal
machines are equal, so that what was worked out for one serves them all.

Link kinds guessed from a bare bandwidth matrix: the order of kinds is right, their numbers are approximate.
"""
# Joined from canonical, inferred: one docstring for all.

from __future__ import annotations

from itertools import combinations
from math import inf, log, log10
from typing import TYPE_CHECKING, Final

from linkwise.model.link import SELF, UNKNOWN_LINK, Link, Pcie
from linkwise.topology.link_bandwidth import link_value
from linkwise.topology.link_score import MAX_NVLINKS
from linkwise.topology.sample_cleaning import clean_samples, mended_pairs, symmetric

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix, Topology

__all__ = ["canonical", "canonical_pairs", "classes", "inferred_links"]

GAP: Final = 0.8
"""a value below this part of the next larger one begins a new class"""
STEPS: Final = 12
"""steps of the ladder in a decade"""


def canonical(topology: Topology) -> Matrix:
    """One value for every pair: its link kind's, or its class's; empty where neither links nor samples are known."""
    known = topology.links or topology.bandwidth
    return symmetric(canonical_pairs(topology), len(topology.devices)) if known else ()


def canonical_pairs(topology: Topology) -> tuple[float, ...]:
    """The same for the pairs alone, row after row."""
    if topology.links:
        pairs = combinations(range(len(topology.devices)), 2)
        return tuple([link_value(min(topology.links[i][j], topology.links[j][i])) for i, j in pairs])
    values, _ = mended_pairs(topology.bandwidth)
    return tuple(map(classes(values).__getitem__, values))


def classes(values: list[float]) -> dict[float, float]:
    """The class value of every value: the middle of its class, on a ladder of twelve steps a decade."""
    groups: list[list[float]] = []
    for value in sorted(values, reverse=True):
        if groups and value >= GAP * groups[-1][-1]:
            groups[-1].append(value)
        else:
            groups.append([value])
    found: dict[float, float] = {}
    for group in groups:
        found |= dict.fromkeys(group, _rung(group[len(group) // 2]))
    return found


def _rung(value: float) -> float:
    """The nearest step of the ladder, to three digits; nothing stays nothing."""
    return float(f"{10 ** (round(STEPS * log10(value)) / STEPS):.3g}") if value > 0 else 0.0


# From slow to fast; a class of bandwidths takes the kind whose usual value is nearest.
KINDS: Final = tuple(
    [Link.of(0, kind) for kind in Pcie if kind] + [Link.of(count, Pcie.SYS) for count in range(1, MAX_NVLINKS + 1)]
)


def inferred_links(samples: Matrix) -> tuple[tuple[Link, ...], ...]:
    """A link for every pair; a faster class of bandwidths always gets a faster kind."""
    values = clean_samples(samples).values
    count = len(values)
    class_of = classes([values[i][j] for i, j in combinations(range(count), 2)])
    kinds = _kinds(sorted(set(class_of.values())))
    return tuple(tuple(SELF if i == j else kinds[class_of[values[i][j]]] for j in range(count)) for i in range(count))


def _kinds(levels: list[float]) -> dict[float, Link]:
    """A kind for every class value, ascending; two classes never share one while there are kinds left."""
    found: dict[float, Link] = {}
    lowest = 0
    known = [level for level in levels if level > 0]
    for number, level in enumerate(known):
        highest = max(lowest, len(KINDS) - len(known) + number)
        choice = min(range(lowest, min(highest, len(KINDS) - 1) + 1), key=lambda kind: _distance(level, kind))
        found[level] = KINDS[choice]
        lowest = min(choice + 1, len(KINDS) - 1)
    return found | {level: UNKNOWN_LINK for level in levels if level <= 0}


def _distance(level: float, kind: int) -> float:
    value = link_value(KINDS[kind])
    return abs(log(level / value)) if value else inf

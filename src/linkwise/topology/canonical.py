"""A machine's links without the noise: a value a link kind, or a value a class of measured bandwidths.

Thousands of machines measure thousands of different matrices, yet have few kinds of links. In canonical form equal
machines are equal, so that what was worked out for one serves them all.
"""

from __future__ import annotations

from itertools import combinations
from math import log10
from typing import TYPE_CHECKING, Final

from linkwise.topology.link_bandwidth import link_value
from linkwise.topology.sample_cleaning import mended_pairs, symmetric

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix, Topology

__all__ = ["canonical", "canonical_pairs", "classes"]

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

"""Link kinds guessed from a bare bandwidth matrix: the order of kinds is right, their numbers are approximate."""

from __future__ import annotations

from itertools import combinations
from math import inf, log
from typing import TYPE_CHECKING, Final

from linkwise.model.link import SELF, UNKNOWN_LINK, Link, Pcie
from linkwise.topology.canonical import classes
from linkwise.topology.link_bandwidth import link_value
from linkwise.topology.link_score import MAX_NVLINKS
from linkwise.topology.sample_cleaning import mend

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix

__all__ = ["inferred_links"]

# From slow to fast; a class of bandwidths takes the kind whose usual value is nearest.
KINDS: Final = tuple(
    [Link.of(0, kind) for kind in Pcie if kind] + [Link.of(count, Pcie.SYS) for count in range(1, MAX_NVLINKS + 1)]
)


def inferred_links(samples: Matrix) -> tuple[tuple[Link, ...], ...]:
    """A link for every pair; a faster class of bandwidths always gets a faster kind."""
    values = mend(samples).values
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

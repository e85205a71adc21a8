"""Canonical links: one value per link kind, or per class of measured bandwidths, without the noise of samples.

Bound: thousands of machines measure thousands of different matrices, but have few kinds of links. In canonical form equal
machines compare equal, so that one result serves them all. Link kinds can also be inferred from a bandwidth matrix: their
order is right, their numbers are approximate.

Source: seed 001, whose own matrices have bad samples: 4.64 GB/s one way and 16.81 the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from math import inf, log, log10
from operator import itemgetter, lt
from typing import TYPE_CHECKING, Final

from linkwise.model.link import SELF, UNKNOWN_LINK, Link, Pcie
from linkwise.speed.caches import cached_by_identity
from linkwise.topology.link_values import MAX_NVLINKS, link_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.model.topology import Matrix, Topology

    _Cells = Callable[[Sequence[float]], tuple[float, ...]]

__all__ = [
    "MACHINES",
    "CleanSamples",
    "canonical",
    "canonical_of",
    "canonical_pairs",
    "class_links",
    "classes",
    "clean_pairs",
    "clean_samples",
    "inferred_links",
    "symmetric",
    "typical_value",
]

MACHINES: Final = 2_048
"""topologies whose values are cached; most nodes of one type share one topology object"""

GAP: Final = 0.8
"""a value below this fraction of the next larger one starts a new class"""
STEPS: Final = 12
"""class values per decade"""
# From slow to fast; a class of bandwidths gets the kind with the nearest typical value.
KINDS: Final = tuple(
    [Link.of(0, kind) for kind in Pcie if kind] + [Link.of(count, Pcie.SYS) for count in range(1, MAX_NVLINKS + 1)]
)
SUSPECT_BELOW: Final = 0.5
"""A pair whose slower direction is below this fraction of the faster one has a bad sample.

Koordinator's own example has one, with 4.64 GB/s one way and 16.81 the other.
"""


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


@dataclass(frozen=True, slots=True)
class CleanSamples:
    """A symmetric matrix, and the pairs whose samples were replaced."""

    values: Matrix
    suspects: tuple[tuple[int, int], ...] = ()


def clean_samples(samples: Matrix, links: Sequence[Sequence[Link]] = ()) -> CleanSamples:
    """The slower direction of every pair; for a suspect pair the value of its link kind, otherwise the faster one."""
    values, suspects = clean_pairs(samples, links)
    return CleanSamples(symmetric(values, len(samples)), suspects)


def clean_pairs(
    samples: Matrix, links: Sequence[Sequence[Link]] = ()
) -> tuple[list[float], tuple[tuple[int, int], ...]]:
    """The values of `clean_samples` for the pairs above the diagonal, row by row, and the suspect pairs."""
    pairs, above, below = _places(len(samples))
    flat = list(chain.from_iterable(samples))
    there, back = above(flat), below(flat)
    # rule 001.bottleneck: the slower of a pair's two directions counts.
    values, faster = list(map(min, there, back)), list(map(max, there, back))
    # rule 001.suspect: bad samples are reported and not used.
    suspect = list(map(lt, values, [SUSPECT_BELOW * fast for fast in faster]))
    if True not in suspect:
        return values, ()
    bad_pairs = [number for number, bad in enumerate(suspect) if bad]
    plausible = {pair: values[n] for n, pair in enumerate(pairs) if not suspect[n]} if links else {}
    for number in bad_pairs:
        # Pairs of this machine come first: a table is off by more than the 5% within which sets count as equal.
        values[number] = typical_value(pairs[number], links, plausible) or faster[number]
    return values, tuple([pairs[number] for number in bad_pairs])


def symmetric(values: Sequence[float], count: int) -> Matrix:
    """The matrix of `count` rows with these values of its pairs, and 0 on the diagonal."""
    cells = [*values, 0.0]
    return tuple([tuple([cells[place] for place in row]) for row in _numbers(count)])


@lru_cache(maxsize=64)
def _places(count: int) -> tuple[tuple[tuple[int, int], ...], _Cells, _Cells]:
    """The pairs of `count` devices, and getters of both directions from a flat matrix, row by row."""
    pairs = tuple(combinations(range(count), 2))
    return pairs, _cells([i * count + j for i, j in pairs]), _cells([j * count + i for i, j in pairs])


def _cells(places: list[int]) -> _Cells:
    if len(places) > 1:
        return itemgetter(*places)  # for a single place it would not return a tuple
    return lambda flat: tuple(flat[place] for place in places)


@lru_cache(maxsize=64)
def _numbers(count: int) -> tuple[tuple[int, ...], ...]:
    """For every cell of a matrix the number of its pair; the diagonal has the number after the last."""
    number = {pair: place for place, pair in enumerate(combinations(range(count), 2))}
    diagonal = len(number)
    return tuple(tuple(number.get((min(i, j), max(i, j)), diagonal) for j in range(count)) for i in range(count))


def typical_value(
    pair: tuple[int, int], links: Sequence[Sequence[Link]], plausible: Mapping[tuple[int, int], float]
) -> float:
    """The median of pairs of the same kind on this machine, otherwise the kind's typical value; 0 if unknown."""
    kind = _kind(pair, links)
    if kind == UNKNOWN_LINK:
        return 0.0
    same_kind = sorted(value for other, value in plausible.items() if _kind(other, links) == kind)
    return same_kind[len(same_kind) // 2] if same_kind else link_value(kind)


def _kind(pair: tuple[int, int], links: Sequence[Sequence[Link]]) -> Link:
    i, j = pair
    return min(links[i][j], links[j][i]) if links else UNKNOWN_LINK

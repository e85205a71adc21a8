"""Sample cleaning: one value per pair from noisy bandwidth samples of both directions.

Source: seed 001, whose own matrices have bad samples: 4.64 GB/s one way and 16.81 the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from operator import itemgetter, lt
from typing import TYPE_CHECKING, Final

from linkwise.model.link import UNKNOWN_LINK
from linkwise.topology.link_bandwidth import link_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix

    _Cells = Callable[[Sequence[float]], tuple[float, ...]]

__all__ = ["CleanSamples", "clean_pairs", "clean_samples", "symmetric", "typical_value"]

SUSPECT_BELOW: Final = 0.5
"""A pair whose slower direction is below this fraction of the faster one has a bad sample."""


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

"""One value for every pair out of noisy samples of both directions.

Source: seed 001, whose own matrices hold bad samples: 4.64 one way and 16.81 the other.
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
    from collections.abc import Callable, Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix

    _Cells = Callable[[Sequence[float]], tuple[float, ...]]

__all__ = ["CleanSamples", "clean_samples", "mended_pairs", "symmetric"]

SUSPECT_BELOW: Final = 0.5
"""A pair whose slower direction is below this part of the faster one has a bad sample."""


@dataclass(frozen=True, slots=True)
class CleanSamples:
    """A symmetric matrix, and the pairs whose samples were not believed."""

    values: Matrix
    suspects: tuple[tuple[int, int], ...] = ()


def clean_samples(samples: Matrix, links: Sequence[Sequence[Link]] = ()) -> CleanSamples:
    """The slower direction of every pair; for a suspect pair what its link kind is worth, else the faster one."""
    values, suspects = mended_pairs(samples, links)
    return CleanSamples(symmetric(values, len(samples)), suspects)


def mended_pairs(
    samples: Matrix, links: Sequence[Sequence[Link]] = ()
) -> tuple[list[float], tuple[tuple[int, int], ...]]:
    """The same for the pairs alone, row after row, and those that are suspect."""
    pairs, above, below = _places(len(samples))
    flat = list(chain.from_iterable(samples))
    there, back = above(flat), below(flat)
    # rule 001.bottleneck: of both directions of a pair, the slower.
    values, faster = list(map(min, there, back)), list(map(max, there, back))
    # rule 001.suspect: reported, and not used.
    suspect = list(map(lt, values, [SUSPECT_BELOW * fast for fast in faster]))
    if True not in suspect:
        return values, ()
    wrong = [number for number, bad in enumerate(suspect) if bad]
    believed = {pair: values[n] for n, pair in enumerate(pairs) if not suspect[n]} if links else {}
    for number in wrong:
        values[number] = _usual(pairs[number], links, believed) or faster[number]
    return values, tuple([pairs[number] for number in wrong])


def symmetric(values: Sequence[float], count: int) -> Matrix:
    """The matrix of so many rows whose pairs have these values; a device with itself has none."""
    found = [*values, 0.0]
    return tuple([tuple([found[place] for place in row]) for row in _numbers(count)])


@lru_cache(maxsize=64)
def _places(count: int) -> tuple[tuple[tuple[int, int], ...], _Cells, _Cells]:
    """The pairs of so many devices, and what takes both of their directions from a matrix, row after row."""
    pairs = tuple(combinations(range(count), 2))
    return pairs, _cells([i * count + j for i, j in pairs]), _cells([j * count + i for i, j in pairs])


def _cells(places: list[int]) -> _Cells:
    if len(places) > 1:
        return itemgetter(*places)  # of one place it would make no tuple
    return lambda flat: tuple(flat[place] for place in places)


@lru_cache(maxsize=64)
def _numbers(count: int) -> tuple[tuple[int, ...], ...]:
    """For every cell of a matrix the number of its pair; the last number is no pair's."""
    number = {pair: place for place, pair in enumerate(combinations(range(count), 2))}
    own = len(number)
    return tuple(tuple(number.get((min(i, j), max(i, j)), own) for j in range(count)) for i in range(count))


def _usual(pair: tuple[int, int], links: Sequence[Sequence[Link]], believed: dict[tuple[int, int], float]) -> float:
    """What pairs of the same kind have on this machine, the middle one; else what the kind usually has; 0 unknown."""
    kind = _kind(pair, links)
    if kind == UNKNOWN_LINK:
        return 0.0
    kin = sorted(value for other, value in believed.items() if _kind(other, links) == kind)
    return kin[len(kin) // 2] if kin else link_value(kind)


def _kind(pair: tuple[int, int], links: Sequence[Sequence[Link]]) -> Link:
    i, j = pair
    return min(links[i][j], links[j][i]) if links else UNKNOWN_LINK

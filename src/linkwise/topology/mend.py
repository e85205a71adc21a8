"""One value for every pair out of noisy samples of both directions.

Source: seed 001, whose own matrices hold bad samples: 4.64 one way and 16.81 the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.model.link import UNKNOWN_LINK
from linkwise.topology.link_value import link_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix

__all__ = ["Mended", "mend"]

SUSPECT_BELOW: Final = 0.5
"""A pair whose slower direction is below this part of the faster one has a bad sample."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A symmetric matrix, and the pairs whose samples were not believed."""

    values: Matrix
    suspects: tuple[tuple[int, int], ...] = ()


def mend(samples: Matrix, links: Sequence[Sequence[Link]] = ()) -> Mended:
    """The slower direction of every pair; for a suspect pair what its link kind is worth, else the faster one."""
    # rule 001.bottleneck: of both directions of a pair, the slower.
    pairs = list(combinations(range(len(samples)), 2))
    slower = {(i, j): min(samples[i][j], samples[j][i]) for i, j in pairs}
    faster = {(i, j): max(samples[i][j], samples[j][i]) for i, j in pairs}
    # rule 001.suspect: reported, and not used.
    suspects = tuple(pair for pair in pairs if slower[pair] < SUSPECT_BELOW * faster[pair])
    believed = {pair: value for pair, value in slower.items() if pair not in suspects}
    mended = slower | {pair: _usual(pair, links, believed) or faster[pair] for pair in suspects}
    return Mended(_matrix(len(samples), mended), suspects)


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


def _matrix(size: int, pairs: dict[tuple[int, int], float]) -> Matrix:
    return tuple(tuple(0.0 if i == j else pairs[min(i, j), max(i, j)] for j in range(size)) for i in range(size))

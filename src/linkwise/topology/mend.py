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
    columns = tuple(zip(*samples, strict=True))
    # rule 001.bottleneck: of both directions of a pair, the slower.
    values = [list(map(min, row, column)) for row, column in zip(samples, columns, strict=True)]
    faster = [list(map(max, row, column)) for row, column in zip(samples, columns, strict=True)]
    pairs = list(combinations(range(len(values)), 2))
    # rule 001.suspect: reported, and not used.
    suspects = tuple([(i, j) for i, j in pairs if values[i][j] < SUSPECT_BELOW * faster[i][j]])
    believed = {(i, j): values[i][j] for i, j in pairs if (i, j) not in suspects} if suspects and links else {}
    for i, j in suspects:
        values[i][j] = values[j][i] = _usual((i, j), links, believed) or faster[i][j]
    for i, row in enumerate(values):
        row[i] = 0.0
    return Mended(tuple(map(tuple, values)), suspects)


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

"""What looks odd in a whole link matrix: directions that differ, and a device unlike all the others."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.model.link import UNKNOWN_LINK, Link

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fabric_warnings"]

_MOST_NAMED: Final = 8
# Of three devices, two that are bridged and one that is not are a machine as sold.
_FEWEST_DEVICES: Final = 4

Pair = tuple[int, int]


def fabric_warnings(devices: Sequence[str], links: Sequence[Sequence[Link]]) -> tuple[str, ...]:
    """A sentence for each pair whose directions differ, and one for a device or pair the fabric has half lost."""
    pairs = list(combinations(range(len(devices)), 2))
    uneven = [
        f"{devices[i]} to {devices[j]} is {links[i][j]}, but {devices[j]} to {devices[i]} is {links[j][i]}"
        for i, j in pairs
        if links[i][j] != links[j][i] and UNKNOWN_LINK not in (links[i][j], links[j][i])
    ]
    more = len(uneven) - _MOST_NAMED
    rest = [f"{more} more pairs differ by direction"] if more > 0 else []
    lost = _degraded(devices, {(i, j): min(links[i][j], links[j][i]) for i, j in pairs})
    return (*uneven[:_MOST_NAMED], *rest, *lost)


def _degraded(devices: Sequence[str], links: dict[Pair, Link]) -> list[str]:
    """Where all pairs share one direct link but those of one device, which have less."""
    if len(devices) < _FEWEST_DEVICES or UNKNOWN_LINK in links.values():
        return []
    usual = max(links.values())
    odd = [pair for pair, link in links.items() if link != usual]
    if not odd or not usual.direct:
        return []
    shared = set(odd[0]).intersection(*odd)
    kinds = ", ".join(sorted({str(links[pair]) for pair in odd}))
    if len(odd) == 1:
        where = "-".join(devices[i] for i in odd[0])
    elif len(shared) == 1:
        where = devices[shared.pop()]
    else:
        return []
    return [f"{where} has {kinds} where the others have {usual}: the fabric may be degraded"]

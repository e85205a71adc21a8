"""The plain way: look at every partition and every set, add up pairs by look-up, remember nothing.

It is what the exact algorithms are held against, in tests for their answers and in `make bench` for their speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = ["Enumerated", "all_partitions", "enumerate_best_partition", "largest_bottleneck"]

Set = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Enumerated:
    """The best set of the best partition, found by looking at all of them."""

    devices: Set
    score: float
    total: float
    sets: tuple[Set, ...]


def all_partitions(free: Sequence[int], size: int) -> Iterator[tuple[Set, ...]]:
    """Every partition into sets of `size` and one left-over set, in the order of sorted positions."""
    yield from _split(tuple(free), size, len(free) % size)


def _split(members: Set, size: int, left_over: int) -> Iterator[tuple[Set, ...]]:
    """The next set holds the first member; a left-over set stands where padding behind all devices would put it."""
    if not members:
        yield ()
        return
    first, others = members[0], members[1:]
    found = list(combinations(others, size - 1))
    if left_over:
        found += combinations(others, left_over - 1)
        found.sort(key=lambda chosen: (*chosen, *(inf,) * (size - 1 - len(chosen))))
    for chosen in found:
        rest = tuple([member for member in others if member not in chosen])
        for tail in _split(rest, size, left_over if len(chosen) == size - 1 else 0):
            yield ((first, *chosen), *tail)


def enumerate_best_partition(
    scores: Sequence[Sequence[float]], size: int, free: Sequence[int], required: Collection[int] = ()
) -> Enumerated | None:
    """The first partition with the best total that has a full set with all required devices; its best such set."""
    best, wanted = None, set(required)
    for sets in all_partitions(free, size):
        full = [found for found in sets if len(found) == size and wanted <= set(found)]
        if not full:
            continue
        total = sum(scores[i][j] for found in sets for i, j in combinations(found, 2))
        if best is None or total > best.total:
            worth = [sum(scores[i][j] for i, j in combinations(found, 2)) for found in full]
            best = Enumerated(full[worth.index(max(worth))], max(worth), total, sets)
    return best


def largest_bottleneck(
    values: Sequence[Sequence[float]], size: int, free: Sequence[int], required: Collection[int] = ()
) -> float | None:
    """The largest smallest pair of any set of `size` with all required devices."""
    sets = [found for found in combinations(free, size) if set(required) <= set(found)]
    worth = [min((values[i][j] for i, j in combinations(found, 2)), default=inf) for found in sets]
    return max(worth, default=None)

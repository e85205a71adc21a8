"""A good partition, not proven the best: for machines with more free devices than an exact search can serve."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.topology import Matrix

__all__ = ["greedy_partition"]


def greedy_partition(pairs: Matrix, size: int, free: Sequence[int], required: Sequence[int]) -> list[tuple[int, ...]]:
    """Sets of `size`, each grown from its best pair; the first holds the required devices, the last is left over."""
    left = list(free)
    sets = [_grow(pairs, size, left, list(required))]
    while left:
        sets.append(_grow(pairs, size, left, []))
    return sets


def _grow(pairs: Matrix, size: int, left: list[int], members: list[int]) -> tuple[int, ...]:
    """Take one set out of `left`: the best pair, then always the device that adds most; the lowest among equals."""
    if not members and len(left) > 1:
        members = list(max(combinations(left, 2), key=lambda pair: pairs[min(pair)][max(pair)]))
    for member in members:
        left.remove(member)
    while left and len(members) < size:
        best = max(left, key=lambda device: sum(pairs[device][member] for member in members))
        members.append(best)
        left.remove(best)
    return tuple(sorted(members))

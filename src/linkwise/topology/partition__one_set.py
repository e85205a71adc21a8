"""The best partition where it has one full set and hardly anything is left over: no table is needed."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import MAX_DEVICES
from linkwise.topology.device_sets__bits import mask_of, positions

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix
    from linkwise.topology.device_sets__question import Question

__all__ = ["MOST_LEFT_OVER", "one_full_set"]

MOST_LEFT_OVER: Final = 2


def one_full_set(pairs: Matrix, asked: Question) -> list[int]:
    """The first partition with the best total, into one full set and at most two devices left over.

    The total is that of all free pairs, less the pairs between the two sets: the fewest of those is best.
    """
    free = positions(asked.free)
    spare = positions(asked.free & ~asked.required)
    left_over = len(free) - asked.size
    if not left_over:
        return [asked.free]
    cut = {device: sum([pairs[device][other] for other in free if other != device]) for device in spare}
    lost: dict[tuple[int, ...], float]
    if left_over == 1:
        lost = {(device,): cut[device] for device in spare}
    else:
        lost = {(i, j): cut[i] + cut[j] - 2 * pairs[i][j] for i, j in combinations(spare, left_over)}
    least = min(lost.values())
    partitions = [_in_order(free, left) for left, loss in lost.items() if loss == least]
    return [mask_of(members) for members in min(partitions, key=lambda sets: _padded(sets[0], asked.size))]


def _in_order(free: tuple[int, ...], left: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The full set and the left-over set, the one with the lowest device first."""
    return sorted([tuple([device for device in free if device not in left]), left])


def _padded(members: tuple[int, ...], size: int) -> tuple[int, ...]:
    return members + (MAX_DEVICES,) * (size - len(members))

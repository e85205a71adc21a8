"""Which devices of a node each member gets: by the node's own samples, in the same levels as the plan itself."""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

from linkwise.topology.bottleneck import Bottleneck, best_bottleneck
from linkwise.topology.device_sets import sets_with
from linkwise.topology.device_sets__bits import positions
from linkwise.topology.fabric import NEAR
from linkwise.topology.machine import LARGEST_EXACT
from linkwise.topology.residual import SIZES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.topology.fabric import Fabric

__all__ = ["Share", "share_out"]

Share = tuple[int, ...]
"""a member's devices, as positions"""


def share_out(fabric: Fabric, free: int, held: int, sizes: Sequence[int], floor: float = 0.0) -> list[Share]:
    """Devices for members of these sizes, in their order; there must be enough of them.

    No member's devices are slower than the floor, in GB/s, if that can be.
    """
    if len(fabric.values) > LARGEST_EXACT:
        return _one_by_one(fabric, free, sizes)
    return _Sharing(fabric, free, held, tuple(sizes), floor).shares()


class _Sharing:
    """One node's devices among some members."""

    def __init__(self, fabric: Fabric, free: int, held: int, sizes: tuple[int, ...], floor: float) -> None:
        self._fabric = fabric
        self._free = free
        self._sizes = sizes
        self._sorted = tuple(sorted(sizes, reverse=True))
        self._table = fabric.bottlenecks()
        self._held = held
        self._floor = floor
        self._known: dict[tuple[int, tuple[int, ...], float], bool] = {}

    def shares(self) -> list[Share]:
        unions = self._fastest()
        speed = self._fastest_inside(unions)
        enough = max(NEAR * speed, min(speed, self._floor))
        fitting = [union for union in unions if self._divides(union, self._sorted, enough)]
        # rule 001.split: inside a node the members' own bottlenecks are as large as can be.
        return [positions(part) for part in self._split(self._most_left(fitting), self._sizes, enough)]

    def _fastest(self) -> list[int]:
        """All sets within 5 % of the largest bottleneck, beside what is held, by sorted positions."""
        unions = list(sets_with(self._free, 0, sum(self._sizes)))
        if self._floor:
            unions = [union for union in unions if self._divides(union, self._sorted, self._floor)] or unions
        speeds = [self._table[union | self._held] for union in unions]
        enough = NEAR * max(speeds)
        return [union for union, speed in zip(unions, speeds, strict=True) if speed >= enough]

    def _fastest_inside(self, unions: list[int]) -> float:
        """The largest speed that every member can have in some of the sets."""
        members = positions(self._free)
        values = self._fabric.values
        speeds = sorted({values[i][j] for i, j in combinations(members, 2)} | {inf})
        low, high = 0, len(speeds) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if any(self._divides(union, self._sorted, speeds[middle]) for union in unions):
                low = middle
            else:
                high = middle - 1
        return speeds[low]

    def _most_left(self, unions: list[int]) -> int:
        """The first of those that leave the most good sets to others, the largest first."""
        for size in SIZES:
            if len(unions) == 1:
                break
            left = [self._fabric.good_sets(self._free & ~union, size) for union in unions]
            most = max(left)
            unions = [union for union, count in zip(unions, left, strict=True) if count == most]
        return unions[0]

    def _divides(self, union: int, sizes: tuple[int, ...], speed: float) -> bool:
        """Whether a set falls into sets of these sizes, each fast enough."""
        if not sizes or self._table[union] >= speed:
            return True
        key = (union, sizes, speed)
        if key not in self._known:
            low = union & -union
            self._known[key] = any(
                self._table[part] >= speed and self._divides(union & ~part, _without(sizes, size), speed)
                for size in dict.fromkeys(sizes)
                for part in sets_with(union, low, size)
            )
        return self._known[key]

    def _split(self, union: int, sizes: tuple[int, ...], speed: float) -> list[int]:
        """The first way to divide a set among members in their order."""
        if not sizes:
            return []
        rest = tuple(sorted(sizes[1:], reverse=True))
        part = next(
            part
            for part in sets_with(union, 0, sizes[0])
            if self._table[part] >= speed and self._divides(union & ~part, rest, speed)
        )
        return [part, *self._split(union & ~part, sizes[1:], speed)]


def _without(sizes: tuple[int, ...], size: int) -> tuple[int, ...]:
    place = sizes.index(size)
    return sizes[:place] + sizes[place + 1 :]


def _one_by_one(fabric: Fabric, free: int, sizes: Sequence[int]) -> list[Share]:
    """On a machine too large for tables: the largest member first, each by itself."""
    found: dict[int, Share] = {}
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        best = best_bottleneck(fabric.values, sizes[number], positions(free))
        devices = best.devices if isinstance(best, Bottleneck) else positions(free)[: sizes[number]]
        found[number] = devices
        for device in devices:
            free &= ~(1 << device)
    return [found[number] for number in range(len(sizes))]

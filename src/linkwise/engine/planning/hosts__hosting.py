"""What nodes of one shape can host of a group: which members side by side, how fast, and at what loss to others.

Worked out on class values, so that thousands of noisy nodes have few shapes; everything is remembered by shape.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from linkwise.topology.device_sets import sets_with
from linkwise.topology.device_sets__bits import positions
from linkwise.topology.fabric import fabric_of
from linkwise.topology.residual import SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.model.topology import Matrix

__all__ = ["NOTHING_LOST", "CountedHost", "Floors", "Host", "LinkedHost", "Loss", "Sizes"]

Sizes = tuple[int, ...]
"""devices of each member, the largest first"""
Loss = tuple[int, ...]
"""good sets of 16, 8, 4 and 2 devices that others lose"""

NOTHING_LOST: Final[Loss] = (0,) * len(SIZES)


class Floors(NamedTuple):
    """How fast devices must reach each other, in GB/s: all of the group on a node, and those of one member."""

    node: float = 0.0
    member: float = 0.0


class Host(Protocol):
    """Nodes of one shape."""

    room: int
    """devices that are free"""

    def speeds(self) -> set[float]:
        """Every value that a bottleneck can have here."""

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """What others lose at least if these members are placed here; None if they can't be."""

    def slots(self, size: int, floors: Floors) -> int:
        """How many members of one size can be placed side by side."""

    def at_most(self, size: int, floors: Floors) -> int:
        """No more members of this size fit, nor larger ones counted as several of it."""


class CountedHost:
    """Nodes of which only the number of free devices counts."""

    def __init__(self, room: int) -> None:
        self.room = room

    def speeds(self) -> set[float]:
        """Pairs are not known; a single device has none."""
        return {0.0, inf}

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """Nothing, if there are enough devices and no speed is asked of pairs that are not known."""
        pairs = sum(sizes) > 1 and floors.node > 0
        inside = max(sizes, default=0) > 1 and floors.member > 0
        return None if sum(sizes) > self.room or pairs or inside else NOTHING_LOST

    def slots(self, size: int, floors: Floors) -> int:
        """As many as there are devices for."""
        count = self.room // size
        while count and self.loss((size,) * count, floors) is None:
            count -= 1
        return count

    at_most = slots


class LinkedHost:
    """Nodes whose links are known.

    Args:
        values: class values of every pair of devices; at most as many devices as tables are made for.
        free: the free devices, as a mask.
        held: devices of members that are bound there already.
    """

    def __init__(self, values: Matrix, free: int, held: int = 0) -> None:
        self.room = free.bit_count()
        self._free = free
        self._held = held
        self._fabric = fabric_of(values)
        self._losses: dict[tuple[Sizes, Floors], Loss | None] = {}
        self._slots: dict[tuple[int, Floors], int] = {}
        self._sets: dict[int, list[tuple[int, float]]] = {}
        self._lost: dict[int, Loss] = {}

    def speeds(self) -> set[float]:
        """The values of all pairs, and that of a set without any."""
        members = positions(self._free | self._held)
        return {self._fabric.values[i][j] for i in members for j in members if i != j} | {inf}

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """The least of all sets that are fast enough."""
        key = (sizes, floors)
        if key not in self._losses:
            self._losses[key] = min(map(self._loss_of, self._unions(sizes, floors)), default=None)
        return self._losses[key]

    def slots(self, size: int, floors: Floors) -> int:
        """By the largest set that is fast enough and can be divided."""
        if not any(floors):
            return self.room // size
        key = (size, floors)
        if key not in self._slots:
            count = self.room // size
            while count and next(self._unions((size,) * count, floors), None) is None:
                count -= 1
            self._slots[key] = count
        return self._slots[key]

    at_most = slots  # a part of a set is never slower than the set

    def _unions(self, sizes: Sizes, floors: Floors) -> Iterator[int]:
        """The sets of devices that these members could have together."""
        for chosen, speed in self._sets_of(sum(sizes)):
            if speed < floors.node:
                return
            if floors.member <= self._fabric.bottlenecks()[chosen] or self._divides(chosen, sizes, floors.member):
                yield chosen

    def _sets_of(self, count: int) -> list[tuple[int, float]]:
        """The free sets of so many devices with their bottleneck beside what is held, the fastest first."""
        if count not in self._sets:
            table, held = self._fabric.bottlenecks(), self._held
            found = [(chosen, table[chosen | held]) for chosen in sets_with(self._free, 0, count)]
            self._sets[count] = sorted(found, key=lambda entry: -entry[1])
        return self._sets[count]

    def _divides(self, chosen: int, sizes: Sizes, speed: float) -> bool:
        """Whether a set falls into sets of these sizes, each fast enough."""
        if not sizes:
            return True
        table, low = self._fabric.bottlenecks(), chosen & -chosen
        for size in dict.fromkeys(sizes):
            rest = list(sizes)
            rest.remove(size)
            for part in sets_with(chosen, low, size):
                if table[part] >= speed and self._divides(chosen & ~part, tuple(rest), speed):
                    return True
        return False

    def _loss_of(self, chosen: int) -> Loss:
        if chosen not in self._lost:
            before, after = self._fabric.left(self._free), self._fabric.left(self._free & ~chosen)
            self._lost[chosen] = tuple(was - now for was, now in zip(before, after, strict=True))
        return self._lost[chosen]

"""One machine's devices and what is known of the links between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from linkwise.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.link import Link

__all__ = ["MAX_DEVICES", "Matrix", "Topology", "matrix_key", "numbered", "plainly_whole", "square", "whole_matrix"]

MAX_DEVICES: Final = 64
"""More devices than any machine has; a larger matrix is a mistake."""

MAX_VALUE: Final = 1e12
"""Sums of this many GB/s or points are still exact in a double."""

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """Devices in index order, and matrices whose row and column i belong to device i.

    An empty matrix means: not known. Links and samples stay as they were reported, both directions;
    what they mean (mended values, scores, classes) is derived in `linkwise.topology`.
    """

    devices: tuple[str, ...]
    """UUIDs, or `#index` where only positions are known"""
    links: tuple[tuple[Link, ...], ...] = ()
    bandwidth: Matrix = ()  # GB/s, from row to column, as measured
    rings: tuple[tuple[int, ...], ...] = ()
    """positions that form a ring or an island, where the hardware says so"""
    problems: tuple[str, ...] = ()
    """why the text it was read from is not whole; empty when it is"""
    warnings: tuple[str, ...] = ()
    """what looks odd in a whole one: a device unlike the others"""

    def __post_init__(self) -> None:
        """Refuse what can't be a machine."""
        if len(self.devices) > MAX_DEVICES:
            raise TopologyError(f"{len(self.devices)} devices: a machine has at most {MAX_DEVICES}")
        seen: set[str] = set()
        for device in self.devices:
            if not device.isprintable() or not device:
                raise TopologyError(f"device {device!r} has no name that can be printed")
            if device in seen:
                raise TopologyError(f"device {device!r} stands twice in the list of devices")
            seen.add(device)
        if self.links:
            square(self.links, "links", len(self.devices))
        if self.bandwidth:
            whole_matrix(self.bandwidth, "bandwidth", len(self.devices))
        self._check_rings()

    def _check_rings(self) -> None:
        placed: set[int] = set()
        for number, ring in enumerate(self.rings):
            for position in ring:
                if not 0 <= position < len(self.devices):
                    raise TopologyError(f"ring {number} names device {position} of {len(self.devices)}")
                if position in placed:
                    raise TopologyError(f"device {position} stands in two rings")
                placed.add(position)


def numbered(count: int) -> tuple[str, ...]:
    """Names for devices of which only the position is known: `#0`, `#1`, ..."""
    return tuple(f"#{index}" for index in range(count))


def square(rows: Sequence[Sequence[object]], what: str, size: int | None = None) -> None:
    """Raise TopologyError, naming the row, unless there are as many columns as rows (and as devices)."""
    if size is not None and len(rows) != size:
        raise TopologyError(f"{what} has {len(rows)} rows for {size} devices")
    if len(rows) > MAX_DEVICES:
        raise TopologyError(f"{what} has {len(rows)} rows: a machine has at most {MAX_DEVICES} devices")
    for number, row in enumerate(rows):
        if len(row) != len(rows):
            raise TopologyError(f"{what} row {number} has {len(row)} values, {len(rows)} are expected")


def whole_matrix(rows: Iterable[Iterable[object]], what: str, size: int | None = None) -> Matrix:
    """The rows as tuples; raise TopologyError, naming row and column, where a value is no quantity.

    The diagonal is a device with itself (local memory, -1, X): whatever stands there is not read.
    """
    matrix = _rows(rows, what)
    square(matrix, what, size)
    if plainly_whole(matrix):
        return matrix
    return tuple(
        tuple(0 if i == j else _quantity(value, f"{what} row {i} column {j}") for j, value in enumerate(row))
        for i, row in enumerate(matrix)
    )


def matrix_key(rows: Iterable[Iterable[object]], what: str) -> Matrix:
    """The rows as a key to remember by; TopologyError if they can't be one."""
    key = _rows(rows, what)
    try:
        hash(key)
    except TypeError:
        return whole_matrix(key, what)
    return key


def plainly_whole(matrix: Matrix) -> bool:
    """Whether every value is a quantity, the diagonal included: the common case, seen without a loop in Python."""
    values = list(chain.from_iterable(matrix))
    if not set(map(type, values)) <= {int, float}:
        return False
    return not values or (min(values) >= 0 and max(values) <= MAX_VALUE and isfinite(sum(values)))


def _rows(rows: Iterable[Iterable[object]], what: str) -> tuple[tuple[Any, ...], ...]:
    try:
        return tuple(map(tuple, rows))
    except TypeError as error:
        raise TopologyError(f"{what} is no list of rows: {error}") from error


def _quantity(value: object, where: str) -> float:
    if not isinstance(value, int | float):
        raise TopologyError(f"{where} is {value!r}, a number is expected")
    if not 0 <= value <= MAX_VALUE:
        shown = value if isinstance(value, float) or abs(value) < 10**20 else "a number of many digits"
        raise TopologyError(f"{where} is {shown}, 0 to {MAX_VALUE:g} is expected")
    return value

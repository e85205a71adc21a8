"""Topology: the devices of one machine and the links between them, and how messages say that a node has none."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from linkwise.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.link import Link

__all__ = [
    "MAX_DEVICES",
    "NO_LINK_DATA",
    "Matrix",
    "Topology",
    "link_data_help",
    "matrix_key",
    "numbered",
    "plainly_whole",
    "square",
    "whole_matrix",
]

MAX_DEVICES: Final = 64
"""An upper limit that no machine exceeds; a larger matrix is a mistake."""

MAX_VALUE: Final = 1e12
"""Largest value in GB/s or points; sums of it are still exact in a double."""

Matrix = tuple[tuple[float, ...], ...]
NO_LINK_DATA: Final = "no link data"


@dataclass(frozen=True, slots=True)
class Topology:
    """Devices in index order, and matrices whose row and column i belong to device i.

    An empty matrix means unknown. Links and samples stay as reported, in both directions; values derived from them
    (cleaned samples, scores, classes) are computed in `linkwise.topology`.
    """

    devices: tuple[str, ...]
    """UUIDs, or `#index` where only positions are known"""
    links: tuple[tuple[Link, ...], ...] = ()
    bandwidth: Matrix = ()  # GB/s, from row to column, as measured
    rings: tuple[tuple[int, ...], ...] = ()
    """positions that form a ring or an island, if the hardware reports them"""
    problems: tuple[str, ...] = ()
    """why the text it was read from is incomplete; empty if it is complete"""
    warnings: tuple[str, ...] = ()
    """anomalies of a complete text, such as a device unlike the others"""

    def __post_init__(self) -> None:
        """Validate the devices and matrices."""
        if len(self.devices) > MAX_DEVICES:
            raise TopologyError(f"{len(self.devices)} devices: a machine has at most {MAX_DEVICES}")
        names: set[str] = set()
        for device in self.devices:
            if not device.isprintable() or not device:
                raise TopologyError(f"device {device!r} has no printable name")
            if device in names:
                raise TopologyError(f"device {device!r} is listed twice")
            names.add(device)
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
                    raise TopologyError(f"device {position} is in two rings")
                placed.add(position)


def numbered(count: int) -> tuple[str, ...]:
    """Names for devices with a known position only: `#0`, `#1`, ..."""
    return tuple(f"#{index}" for index in range(count))


def square(rows: Sequence[Sequence[object]], what: str, size: int | None = None) -> None:
    """Raise TopologyError, naming the row, unless the matrix is square (and has `size` rows)."""
    if size is not None and len(rows) != size:
        raise TopologyError(f"{what} has {len(rows)} rows for {size} devices")
    if len(rows) > MAX_DEVICES:
        raise TopologyError(f"{what} has {len(rows)} rows: a machine has at most {MAX_DEVICES} devices")
    for number, row in enumerate(rows):
        if len(row) != len(rows):
            raise TopologyError(f"{what} row {number} has {len(row)} values, expected {len(rows)}")


def whole_matrix(rows: Iterable[Iterable[object]], what: str, size: int | None = None) -> Matrix:
    """The rows as tuples; raise TopologyError, naming row and column, if a value is not a valid quantity.

    The diagonal is a device with itself (local memory, -1, X) and is not read.
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
    """The rows as a cache key; TopologyError if they can't be one."""
    key = _rows(rows, what)
    try:
        hash(key)
    except TypeError:
        return whole_matrix(key, what)
    return key


def plainly_whole(matrix: Matrix) -> bool:
    """Whether every value is a valid quantity, including the diagonal: the common case, without a loop in Python."""
    values = list(chain.from_iterable(matrix))
    if not set(map(type, values)) <= {int, float}:
        return False
    return not values or (min(values) >= 0 and max(values) <= MAX_VALUE and isfinite(sum(values)))


def link_data_help(node: str = "NAME") -> str:
    """What publishes the links of a node: an agent on it, or a person."""
    return f"run the node agent (`linkwise agent`) or `linkwise topo --annotate node/{node}`"


def _rows(rows: Iterable[Iterable[object]], what: str) -> tuple[tuple[Any, ...], ...]:
    try:
        return tuple(map(tuple, rows))
    except TypeError as error:
        raise TopologyError(f"{what} is not a list of rows: {error}") from error


def _quantity(value: object, where: str) -> float:
    if not isinstance(value, int | float):
        raise TopologyError(f"{where} is {value!r}, expected a number")
    if not 0 <= value <= MAX_VALUE:
        text = value if isinstance(value, float) or abs(value) < 10**20 else "a number of many digits"
        raise TopologyError(f"{where} is {text}, expected 0 to {MAX_VALUE:g}")
    return value

"""Matrices of a DeviceInventory: rows and columns belong to the devices that `rows` names.

A device that is gone or renumbered therefore can't take the row of another. Without `rows` the order is that of the
devices.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Final

from linkwise.dialects.json_fields import shown
from linkwise.errors import TopologyError
from linkwise.model.link import SELF, Link, Pcie
from linkwise.model.topology import Topology, plainly_whole, square, whole_matrix

if TYPE_CHECKING:
    from linkwise.dialects.json_fields import Fields
    from linkwise.model.device import Device
    from linkwise.model.topology import Matrix

__all__ = ["FIELDS", "forget_links", "topology_fields", "topology_of"]

FIELDS: Final = frozenset({"rows", "links", "bandwidth", "rings", "problems", "warnings"})


def topology_of(spec: Fields, devices: tuple[Device, ...]) -> Topology | None:
    """Topology of an inventory; None, and a problem, if it is invalid."""
    if not FIELDS & spec.raw.keys():
        return None
    rows = spec.texts("rows", tuple(device.id for device in devices))
    problems, warnings = spec.texts("problems", ()), spec.texts("warnings", ())
    if rows is None:
        return None
    try:
        return Topology(
            devices=rows,
            links=_links(spec.raw.get("links", ())),
            bandwidth=_bandwidth(spec.raw.get("bandwidth", ())),
            rings=_rings(spec.raw.get("rings", ())),
            problems=problems or (),
            warnings=warnings or (),
        )
    except TopologyError as error:
        spec.report.refuse(f"spec: {error}; the devices are known, their links are not")
        return None


def topology_fields(topology: Topology) -> dict[str, object]:
    """The topology as fields of an inventory: only what is known."""
    fields: dict[str, object] = {
        "links": [[_link_text(link) for link in row] for row in topology.links],
        "bandwidth": _bandwidth_rows(topology.bandwidth),
        "rings": [list(ring) for ring in topology.rings],
        "problems": list(topology.problems),
        "warnings": list(topology.warnings),
    }
    return {"rows": list(topology.devices)} | {name: value for name, value in fields.items() if value}


def _matrix(value: object, what: str) -> list[list[object]]:
    if not isinstance(value, list | tuple) or not all(isinstance(row, list | tuple) for row in value):
        raise TopologyError(f"{what} is not a list of lists")
    return [list(row) for row in value]


def _links(value: object) -> tuple[tuple[Link, ...], ...]:
    rows = _matrix(value, "links")
    square(rows, "links")
    try:
        return _linked(tuple(map(tuple, rows)))
    except TypeError:  # something in it can't even be looked up
        return _linked.__wrapped__(tuple(map(tuple, rows)))


@lru_cache(maxsize=1024)
def _linked(rows: tuple[tuple[object, ...], ...]) -> tuple[tuple[Link, ...], ...]:
    """Machines of one build share one matrix, so that everything computed from it is computed once."""
    return tuple(tuple(_link(cell, i, j) for j, cell in enumerate(row)) for i, row in enumerate(rows))


def _link(cell: object, i: int, j: int) -> Link:
    if i == j:
        return SELF
    if not isinstance(cell, str) or not cell.isprintable():
        raise TopologyError(f"links row {i} column {j} is {shown(cell)}, a link kind such as NV2 is expected")
    return _read(cell)


_read: Final = lru_cache(maxsize=1024)(Link)
"""thousands of machines are of a few builds, and print the same few kinds"""


def forget_links() -> None:
    """Drop cached links: a code means something else once vendors have changed."""
    _linked.cache_clear()
    _read.cache_clear()


def _bandwidth(value: object) -> Matrix:
    plain = _plain_rows(value)
    if plain is not None:
        return plain
    rows = _matrix(value, "bandwidth")
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            if i != j and not isinstance(cell, int | float):
                raise TopologyError(f"bandwidth row {i} column {j} is {shown(cell)}, a number is expected")
    return whole_matrix(rows, "bandwidth")


def _plain_rows(value: object) -> Matrix | None:
    """The rows if they are a square of quantities, the diagonal included, as nearly all are."""
    if type(value) is not list or set(map(type, value)) != {list} or set(map(len, value)) != {len(value)}:
        return None
    rows = tuple(map(tuple, value))
    return rows if plainly_whole(rows) else None


def _rings(value: object) -> tuple[tuple[int, ...], ...]:
    rings: list[tuple[int, ...]] = []
    for row in _matrix(value, "rings"):
        positions = [cell for cell in row if isinstance(cell, int) and not isinstance(cell, bool)]
        if len(positions) < len(row) or any(abs(position) > 1000 for position in positions):
            raise TopologyError("rings hold something else than positions of devices")
        rings.append(tuple(positions))
    return tuple(rings)


def _link_text(link: Link) -> str:
    """As printed, with the PCIe path if the tool printed it elsewhere."""
    hidden = link.pcie is not Pcie.UNKNOWN and Link(link).pcie is not link.pcie
    return f"{link}+{link.pcie.name}" if hidden else str(link)


def _bandwidth_rows(rows: Matrix) -> list[list[float]]:
    """A device with itself may be anything, NaN too: JSON gets a 0 for what it can't hold."""
    return [[value if 0 <= value < inf else 0 for value in row] for row in rows]

"""Topology annotation of a node: the link kind, or the score, of every pair of devices.

Source: seed 000, "Architecture", which leaves the form open; the points are those proposed in
NVIDIA/k8s-device-plugin#465. Positions are indices: a node that lost a device in the middle can't be described this way.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.errors import TopologyError
from linkwise.model.link import SELF, Link, Pcie
from linkwise.model.topology import Topology, numbered, square

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["TOPOLOGY", "matrix_annotation", "read_matrix"]

TOPOLOGY: Final = "linkwise.dev/gpu-topology"

LONGEST: Final = 32  # characters of a link kind
POINTS: Final = 10 * Pcie.BOARD  # of the shortest PCIe path; each step is worth 10
NVLINK_POINTS: Final = 100
MOST_NVLINKS: Final = 18


def matrix_annotation(topology: Topology) -> str:
    """The link kinds of every pair as JSON; `[]` where none are known."""
    rows = [
        [str(SELF) if i == j else _written(link) for j, link in enumerate(row)] for i, row in enumerate(topology.links)
    ]
    return json.dumps(rows, separators=(",", ":"))


@lru_cache(maxsize=1024)
def read_matrix(text: str, size: int = 0) -> Topology | None:
    """The links that such an annotation lists, None if it is an empty list; TopologyError names the cell that is broken.

    There must be `size` rows, if that is known. Kinds that are not known stay as they are, and the topology warns of them.
    """
    rows = _rows(text)
    if not rows:
        return None
    square(rows, "the matrix", size or None)
    read = _reader(cell for i, row in enumerate(rows) for j, cell in enumerate(row) if i != j)
    links = tuple(
        tuple(SELF if i == j else read(cell, f"row {i} column {j}") for j, cell in enumerate(row))
        for i, row in enumerate(rows)
    )
    return Topology(numbered(len(rows)), links, warnings=_warnings(links))


def _written(link: Link) -> str:
    """Return the text of the link, with the PCIe path if a tool reported it elsewhere."""
    if Link(link).pcie == link.pcie:
        return str(link)
    return link.pcie.name if link == "?" else f"{link}+{link.pcie.name}"


def _rows(text: str) -> list[list[object]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError("it is not valid JSON") from error
    if not isinstance(document, list) or not all(isinstance(row, list) for row in document):
        raise TopologyError("it is not a list of rows")
    return document


def _reader(cells: Iterable[object]) -> Callable[[object, str], Link]:
    kinds = {type(cell) for cell in cells}
    if kinds <= {str}:
        return _named
    if kinds == {int}:
        return _scored
    raise TopologyError('all cells must be link kinds such as "NV2", or all of them whole scores such as 230')


def _named(cell: object, where: str) -> Link:
    text = str(cell).strip()
    if not text or not text.isprintable() or len(text) > LONGEST:
        raise TopologyError(f"{where} holds no link kind")
    if text == SELF:
        raise TopologyError(f"{where} is X, which is only for a device with itself")
    try:
        return Link.parse(text)
    except TopologyError:
        return Link(text)


def _scored(cell: object, where: str) -> Link:
    score = int(str(cell))
    nvlinks, path = divmod(score, NVLINK_POINTS)
    if not 0 <= nvlinks <= MOST_NVLINKS or path > POINTS or path % 10:
        shown = score if abs(score) < 10**9 else "a number of many digits"
        raise TopologyError(
            f"{where} is {shown}, which no links score: {NVLINK_POINTS} for each of up to {MOST_NVLINKS} NVLinks, "
            f"and 10 to {POINTS} for the PCIe path"
        )
    return Link.of(nvlinks, Pcie(path // 10))


def _warnings(links: tuple[tuple[Link, ...], ...]) -> tuple[str, ...]:
    unknown = dict.fromkeys(
        str(link) for i, row in enumerate(links) for j, link in enumerate(row) if i != j and not _known(link)
    )
    return tuple(f"link kind {kind!r} is not known and counts as no link" for kind in unknown)


def _known(link: Link) -> bool:
    return bool(link.direct or link.pcie) or link == "?"

"""Machine files (JSON or YAML) decoded into a topology, and a topology encoded as JSON for `linkwise topo`."""

from __future__ import annotations

from typing import Final

import msgspec

from linkwise.errors import TopologyError
from linkwise.model.link import SELF, Link
from linkwise.model.topology import Topology, numbered, square, whole_matrix
from linkwise.wire.decoding import describe_error

__all__ = ["FORMAT", "TopologyView", "encode_topology", "read_topology"]

FORMAT: Final = """\
devices: [GPU-aaaa, GPU-bbbb]      # optional; positions 0, 1, ... without it
links: [[X, NV2+PHB], [NV2+PHB, X]]  # kinds: NV1..NV18, HCCS, XGMI, ..., PIX, PXB, PHB, NODE, SYS
bandwidth: [[750, 48.4], [48.3, 750]] # GB/s from row to column
rings: [[0], [1]]                   # optional
"""


class _TopologyFile(msgspec.Struct, forbid_unknown_fields=True):
    devices: list[str] | None = None
    links: list[list[object]] = []
    bandwidth: list[list[float]] = []
    rings: list[list[int]] = []


def read_topology(document: object) -> Topology:
    """The topology of a parsed machine file; TopologyError names the invalid field."""
    try:
        # Cells on a diagonal may be numbers or X: they are ignored.
        machine = msgspec.convert(_without_diagonals(document), _TopologyFile)
    except msgspec.ValidationError as error:
        raise TopologyError(f"{describe_error(error)}; the format of a machine file:\n{FORMAT}") from error
    if not machine.links and not machine.bandwidth:
        raise TopologyError(f"links or bandwidth is required; the format of a machine file:\n{FORMAT}")
    count = len(machine.links or machine.bandwidth)
    square(machine.links, "links")
    return Topology(
        devices=tuple(machine.devices) if machine.devices is not None else numbered(count),
        links=tuple(
            tuple(SELF if i == j else _link(cell, i, j) for j, cell in enumerate(row))
            for i, row in enumerate(machine.links)
        ),
        bandwidth=whole_matrix(machine.bandwidth, "bandwidth"),
        rings=tuple(map(tuple, machine.rings)),
    )


def _link(cell: object, i: int, j: int) -> Link:
    if not isinstance(cell, str):
        raise TopologyError(f"links row {i} column {j} is {cell!r}: write a link kind, with quotes if it is '?'")
    try:
        return Link.parse(cell)
    except TopologyError as error:
        raise TopologyError(f"links row {i} column {j}: {error}") from error


def _without_diagonals(document: object) -> object:
    if not isinstance(document, dict):
        return document
    blank = {"links": "X", "bandwidth": 0.0}
    return {
        key: [_with(row, i, blank[key]) for i, row in enumerate(value)]
        if key in blank and isinstance(value, list)
        else value
        for key, value in document.items()
    }


def _with(row: object, position: int, value: object) -> object:
    if not isinstance(row, list) or position >= len(row):
        return row
    return [*row[:position], value, *row[position + 1 :]]


class TopologyView(msgspec.Struct):
    """A machine; matrices have one row and one column per device, and are empty if unknown."""

    status: str
    """whole or incomplete"""
    devices: tuple[str, ...]
    links: tuple[tuple[str, ...], ...]
    bandwidth: tuple[tuple[float, ...], ...]
    rings: tuple[tuple[int, ...], ...]
    suspects: tuple[tuple[int, int], ...]
    facts: tuple[dict[str, object], ...]
    """per device: uuid, model, bus id, memory in MiB, NUMA node, health"""
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


_encoder: Final = msgspec.json.Encoder()


def encode_topology(
    topology: Topology,
    rings: tuple[tuple[int, ...], ...],
    suspects: tuple[tuple[int, int], ...],
    facts: tuple[dict[str, object], ...],
) -> bytes:
    """Encode a topology; values that it does not contain itself are arguments."""
    view = TopologyView(
        status="incomplete" if topology.problems else "whole",
        devices=topology.devices,
        links=tuple(tuple(map(str, row)) for row in topology.links),
        bandwidth=topology.bandwidth,
        rings=rings,
        suspects=suspects,
        facts=facts,
        problems=topology.problems,
        warnings=topology.warnings,
    )
    return _encoder.encode(view)

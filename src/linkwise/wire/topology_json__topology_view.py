"""What is known of a machine's links, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from linkwise.model.topology import Topology

__all__ = ["TopologyView", "encode_topology"]


class TopologyView(msgspec.Struct):
    """A machine: matrices have a row and a column a device; an empty one is not known."""

    status: str
    """whole or incomplete"""
    devices: tuple[str, ...]
    links: tuple[tuple[str, ...], ...]
    bandwidth: tuple[tuple[float, ...], ...]
    rings: tuple[tuple[int, ...], ...]
    suspects: tuple[tuple[int, int], ...]
    facts: tuple[dict[str, object], ...]
    """what is told of each device: uuid, model, bus id, memory in MiB, NUMA node, health"""
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


_encoder: Final = msgspec.json.Encoder()


def encode_topology(
    topology: Topology,
    rings: tuple[tuple[int, ...], ...],
    suspects: tuple[tuple[int, int], ...],
    facts: tuple[dict[str, object], ...],
) -> bytes:
    """One JSON object; what is derived or told elsewhere is handed in."""
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

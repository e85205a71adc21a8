"""Machine profile: a known machine as data, for trying things out and for tests.

Cells are link kinds; `NV2+PHB` is two NVLinks beside a PCIe path through a host bridge.
"""

from __future__ import annotations

from dataclasses import dataclass

from linkwise.model.link import SELF, Link
from linkwise.model.topology import Topology, numbered

__all__ = ["MachineProfile", "grouped", "linked", "measured"]


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """One kind of machine: the devices and the host of a node of this kind."""

    name: str
    vendor: str
    model: str
    """of its devices"""
    memory: int  # MiB of one device
    topology: Topology
    hardware: str = ""
    """the hardware profile by which its devices form groups, where they do"""
    cpus: int = 96
    host_memory: int = 1024  # GiB
    shared: bool = False
    """whether its devices are allocated by memory"""

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.topology.devices)


def linked(text: str) -> Topology:
    """Topology from rows of link kinds."""
    cells = [row.split() for row in text.strip().splitlines()]
    links = tuple(tuple(SELF if cell == "X" else Link.parse(cell) for cell in row) for row in cells)
    return Topology(numbered(len(links)), links=links)


def measured(text: str) -> Topology:
    """Topology from rows of measured bandwidth, GB/s from row to column."""
    rows = tuple(tuple(map(float, row.split())) for row in text.strip().splitlines())
    return Topology(numbered(len(rows)), bandwidth=rows)


def grouped(count: int, inside: str, *, group: int = 0, across: str = "SYS") -> Topology:
    """Topology in which devices of one group have a direct link; without groups all devices do."""
    near, far = Link.parse(inside), Link.parse(across)
    size = group or count
    links = tuple(
        tuple(SELF if i == j else near if i // size == j // size else far for j in range(count)) for i in range(count)
    )
    rings = tuple(tuple(range(start, start + group)) for start in range(0, count, group)) if group else ()
    return Topology(numbered(count), links=links, rings=rings)

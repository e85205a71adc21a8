"""Machine profile: a known machine as data, and the devices of a simulated node of that kind.

Cells are link kinds; `NV2+PHB` is two NVLinks beside a PCIe path through a host bridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from linkwise.model.device import Device
from linkwise.model.link import SELF, Link
from linkwise.model.topology import Topology, numbered

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["MachineProfile", "device_id", "grouped", "linked", "machine_devices", "measured"]

_LONGEST_NODE: Final = 48
"""characters of a node's name in the id of a device; kubelet accepts ids of 63 characters"""


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
    first_minor: int = 0
    """minor number of the first device"""
    nodes: tuple[str, ...] = ()
    """further device nodes of each device; `{index}` is its index"""

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


def device_id(vendor: str, node: str, index: int) -> str:
    """Id of a device without a UUID of its own: the same in every process, and different on every node."""
    if len(node) > _LONGEST_NODE:
        node = f"{node[: _LONGEST_NODE - 9]}-{sha256(node.encode()).hexdigest()[:8]}"
    return f"{vendor}-{node}-{index}"


def machine_devices(
    machine: MachineProfile, node: str, memory: int = 0, unhealthy: Collection[int] = ()
) -> tuple[Device, ...]:
    """The devices of a simulated node; `memory` if its shares are counted in another unit than MiB."""
    return tuple(
        Device(
            device_id(machine.vendor, node, index),
            index,
            minor=machine.first_minor + index,
            model=machine.model,
            memory=memory or machine.memory,
            healthy=index not in unhealthy,
            bytes=machine.memory * 1024 * 1024,
            nodes=tuple(node.format(index=index) for node in machine.nodes),
        )
        for index in range(machine.devices)
    )

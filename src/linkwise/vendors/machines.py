"""Machines as people know them by name, for trying things out and for tests.

Cells are link kinds; `NV2+PHB` is two NVLinks beside a PCIe path through a host bridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from linkwise.errors import InputError
from linkwise.model.link import SELF, Link
from linkwise.model.topology import Topology, numbered

__all__ = ["PROFILES", "MachineProfile", "linked", "profile"]

_DGX1_V100: Final = """
X        NV1+PIX  NV1+PHB  NV2+PHB  NV2+SYS  SYS      SYS      SYS
NV1+PIX  X        NV2+PHB  NV1+PHB  SYS      NV2+SYS  SYS      SYS
NV1+PHB  NV2+PHB  X        NV2+PIX  SYS      SYS      NV1+SYS  SYS
NV2+PHB  NV1+PHB  NV2+PIX  X        SYS      SYS      SYS      NV1+SYS
NV2+SYS  SYS      SYS      SYS      X        NV1+PIX  NV1+PHB  NV2+PHB
SYS      NV2+SYS  SYS      SYS      NV1+PIX  X        NV2+PHB  NV1+PHB
SYS      SYS      NV1+SYS  SYS      NV1+PHB  NV2+PHB  X        NV2+PIX
SYS      SYS      SYS      NV1+SYS  NV2+PHB  NV1+PHB  NV2+PIX  X
"""

_V100_PCIE: Final = """
X    PIX  PHB  PHB  SYS  SYS  SYS  SYS
PIX  X    PHB  PHB  SYS  SYS  SYS  SYS
PHB  PHB  X    PIX  SYS  SYS  SYS  SYS
PHB  PHB  PIX  X    SYS  SYS  SYS  SYS
SYS  SYS  SYS  SYS  X    PIX  PHB  PHB
SYS  SYS  SYS  SYS  PIX  X    PHB  PHB
SYS  SYS  SYS  SYS  PHB  PHB  X    PIX
SYS  SYS  SYS  SYS  PHB  PHB  PIX  X
"""

# Bridges join neighbours in pairs; seen in NVIDIA/k8s-device-plugin#546.
_A100_BRIDGED: Final = """
X         NV12+PXB  NODE      NODE      SYS       SYS       SYS       SYS
NV12+PXB  X         NODE      NODE      SYS       SYS       SYS       SYS
NODE      NODE      X         NV12+PXB  SYS       SYS       SYS       SYS
NODE      NODE      NV12+PXB  X         SYS       SYS       SYS       SYS
SYS       SYS       SYS       SYS       X         NV12+PXB  NODE      NODE
SYS       SYS       SYS       SYS       NV12+PXB  X         NODE      NODE
SYS       SYS       SYS       SYS       NODE      NODE      X         NV12+PXB
SYS       SYS       SYS       SYS       NODE      NODE      NV12+PXB  X
"""

# Two-way samples of one DGX-1 in GB/s, two of them bad: 0-4 and 1-4 differ threefold by direction.
_V100_MEASURED: Final = """
750.48  48.39   48.33   96.41   15.77   15.52   96.40   15.74
48.39   753.38  96.46   48.38   4.64    16.93   16.98   96.39
48.38   96.25   751.92  96.48   48.39   17.57   17.59   16.72
96.25   48.39   96.43   750.48  15.45   48.39   15.88   14.62
5.00    16.81   48.38   15.98   755.56  96.39   48.38   96.44
15.80   16.93   17.50   48.39   96.25   751.92  96.23   48.38
96.42   16.75   17.47   15.89   48.35   96.28   754.10  48.33
15.65   96.20   16.77   15.71   96.25   48.38   48.33   754.83
"""


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """One kind of machine: what a node of it has."""

    name: str
    vendor: str
    model: str
    """of its devices"""
    memory: int  # MiB of one device
    topology: Topology
    hardware: str = ""
    """the profile by which its devices form groups, where they do"""
    cpus: int = 96
    host_memory: int = 1024  # GiB
    shared: bool = False
    """whether its devices are handed out by memory"""

    @property
    def devices(self) -> int:
        """How many devices it has."""
        return len(self.topology.devices)


def profile(name: str) -> MachineProfile:
    """The machine of that name; InputError with the names there are if it is not known."""
    if name not in PROFILES:
        raise InputError(f"machine profile {name!r} is not known: {', '.join(PROFILES)}")
    return PROFILES[name]


def linked(text: str) -> Topology:
    """A machine written as rows of link kinds."""
    cells = [row.split() for row in text.strip().splitlines()]
    links = tuple(tuple(SELF if cell == "X" else Link.parse(cell) for cell in row) for row in cells)
    return Topology(numbered(len(links)), links=links)


def _measured(text: str) -> Topology:
    rows = tuple(tuple(map(float, row.split())) for row in text.strip().splitlines())
    return Topology(numbered(len(rows)), bandwidth=rows)


def _grouped(count: int, inside: str, *, group: int = 0, across: str = "SYS") -> Topology:
    """Devices of which those of one group reach each other directly; without groups they all do."""
    near, far = Link.parse(inside), Link.parse(across)
    size = group or count
    links = tuple(
        tuple(SELF if i == j else near if i // size == j // size else far for j in range(count)) for i in range(count)
    )
    rings = tuple(tuple(range(start, start + group)) for start in range(0, count, group)) if group else ()
    return Topology(numbered(count), links=links, rings=rings)


_PROFILES: Final = (
    MachineProfile("dgx1-v100", "nvidia", "Tesla V100-SXM2-16GB", 16160, linked(_DGX1_V100), cpus=80, host_memory=512),
    MachineProfile(
        "dgx1-v100-measured",
        "nvidia",
        "Tesla V100-SXM2-16GB",
        16160,
        _measured(_V100_MEASURED),
        cpus=80,
        host_memory=512,
    ),
    MachineProfile("v100-pcie", "nvidia", "Tesla V100-PCIE-16GB", 16160, linked(_V100_PCIE), cpus=80, host_memory=512),
    MachineProfile("a100-bridged", "nvidia", "NVIDIA A100 80GB PCIe", 81920, linked(_A100_BRIDGED), cpus=128),
    MachineProfile("dgx-a100", "nvidia", "NVIDIA A100-SXM4-40GB", 40960, _grouped(8, "NV12"), cpus=256),
    MachineProfile(
        "hgx-h100", "nvidia", "NVIDIA H100 80GB HBM3", 81559, _grouped(8, "NV18"), cpus=224, host_memory=2048
    ),
    MachineProfile("dgx2-v100", "nvidia", "Tesla V100-SXM3-32GB", 32510, _grouped(16, "NV6"), host_memory=1536),
    MachineProfile(
        "p40-share", "nvidia", "Tesla P40", 22919, _grouped(4, "PHB"), cpus=56, host_memory=256, shared=True
    ),
    MachineProfile("atlas-800", "ascend", "Ascend 910A", 32768, _grouped(8, "HCCS", group=4), "ascend-910", cpus=192),
    MachineProfile("atlas-a2", "ascend", "Ascend 910B3", 65536, _grouped(8, "HCCS"), "ascend-910b", cpus=192),
    MachineProfile("mi300", "amd", "AMD Instinct MI300X", 196592, _grouped(8, "XGMI"), cpus=192, host_memory=2048),
)

PROFILES: Final = {profile.name: profile for profile in _PROFILES}

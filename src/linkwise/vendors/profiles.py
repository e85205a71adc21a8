"""Machines as people know them by name, for trying things out and for tests.

Cells are link kinds; `NV2+PHB` is two NVLinks beside a PCIe path through a host bridge.
"""

from __future__ import annotations

from typing import Final

from linkwise.errors import InputError
from linkwise.model.link import SELF, Link
from linkwise.model.topology import Topology, numbered

__all__ = ["PROFILES", "profile"]

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


def profile(name: str) -> Topology:
    """The machine of that name; InputError with the names there are if it is not known."""
    if name not in PROFILES:
        raise InputError(f"machine profile {name!r} is not known: {', '.join(PROFILES)}")
    return PROFILES[name]


def _linked(text: str) -> Topology:
    cells = [row.split() for row in text.strip().splitlines()]
    links = tuple(tuple(SELF if cell == "X" else Link.parse(cell) for cell in row) for row in cells)
    return Topology(numbered(len(links)), links=links)


def _measured(text: str) -> Topology:
    rows = tuple(tuple(map(float, row.split())) for row in text.strip().splitlines())
    return Topology(numbered(len(rows)), bandwidth=rows)


def _switched(count: int, cell: str) -> Topology:
    """A machine whose devices all reach each other through switches."""
    link = Link.parse(cell)
    return Topology(
        numbered(count),
        links=tuple(tuple(SELF if i == j else link for j in range(count)) for i in range(count)),
    )


PROFILES: Final = {
    "dgx1-v100": _linked(_DGX1_V100),
    "dgx1-v100-measured": _measured(_V100_MEASURED),
    "v100-pcie": _linked(_V100_PCIE),
    "a100-bridged": _linked(_A100_BRIDGED),
    "hgx-h100": _switched(8, "NV18"),
    "dgx2-v100": _switched(16, "NV6"),
}

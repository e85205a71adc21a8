"""Machine profiles with NVIDIA GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.vendors.machine import MachineProfile, grouped, linked, measured

if TYPE_CHECKING:
    from linkwise.model.topology import Topology

__all__ = ["machines"]

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


def machines() -> tuple[MachineProfile, ...]:
    """All of them."""
    return (
        _machine("dgx1-v100", "Tesla V100-SXM2-16GB", 16160, linked(_DGX1_V100), cpus=80, host_memory=512),
        _machine(
            "dgx1-v100-measured", "Tesla V100-SXM2-16GB", 16160, measured(_V100_MEASURED), cpus=80, host_memory=512
        ),
        _machine("v100-pcie", "Tesla V100-PCIE-16GB", 16160, linked(_V100_PCIE), cpus=80, host_memory=512),
        _machine("a100-bridged", "NVIDIA A100 80GB PCIe", 81920, linked(_A100_BRIDGED), cpus=128),
        _machine("dgx-a100", "NVIDIA A100-SXM4-40GB", 40960, grouped(8, "NV12"), cpus=256),
        _machine("hgx-h100", "NVIDIA H100 80GB HBM3", 81559, grouped(8, "NV18"), cpus=224, host_memory=2048),
        _machine("dgx2-v100", "Tesla V100-SXM3-32GB", 32510, grouped(16, "NV6"), host_memory=1536),
        _machine("p40-share", "Tesla P40", 22919, grouped(4, "PHB"), cpus=56, host_memory=256, shared=True),
    )


def _machine(  # noqa: PLR0913 - the fields of a profile
    name: str,
    model: str,
    memory: int,
    topology: Topology,
    *,
    cpus: int = 96,
    host_memory: int = 1024,
    shared: bool = False,
) -> MachineProfile:
    return MachineProfile(name, "nvidia", model, memory, topology, cpus=cpus, host_memory=host_memory, shared=shared)

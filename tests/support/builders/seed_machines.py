"""Machines of the seeds, in the units in which the seeds give them."""

from __future__ import annotations

from typing import Final

from linkwise.testing.machines import topology_of
from linkwise.vendors.machines import profile

__all__ = ["M1", "M2", "MATRIX_000", "STORY_000"]

# Seed 000, motivation: as `nvidia-smi topo -m` prints it, PCIe hidden behind NVLinks.
MATRIX_000: Final = topology_of("""
X    NV1  NV1  NV2  NV2  SYS  SYS  SYS
NV1  X    NV2  NV1  SYS  NV2  SYS  SYS
NV1  NV2  X    NV2  SYS  SYS  NV1  SYS
NV2  NV1  NV2  X    SYS  SYS  SYS  NV1
NV2  SYS  SYS  SYS  X    NV1  NV1  NV2
SYS  NV2  SYS  SYS  NV1  X    NV2  NV1
SYS  SYS  NV1  SYS  NV1  NV2  X    NV2
SYS  SYS  SYS  NV1  NV2  NV1  NV2  X
""")

# Seed 000, story 1: another machine; 0 has two links to 1 and 2, one to 3 and 5. No device has more than six.
STORY_000: Final = topology_of("""
X    NV2  NV2  NV1  SYS  NV1  SYS  SYS
NV2  X    NV1  NV1  NV2  SYS  SYS  SYS
NV2  NV1  X    NV2  SYS  SYS  SYS  NV1
NV1  NV1  NV2  X    SYS  SYS  NV2  SYS
SYS  NV2  SYS  SYS  X    NV2  NV1  NV1
NV1  SYS  SYS  SYS  NV2  X    NV1  NV2
SYS  SYS  SYS  NV2  NV1  NV1  X    NV2
SYS  SYS  NV1  SYS  NV1  NV2  NV2  X
""")

# Seed 001, motivation and Device object: GB/s from row to column.
M1: Final = profile("dgx1-v100-measured").topology.bandwidth
M2: Final = (
    (750.48, 48.39, 48.39, 96.46, 15.97, 16.15, 96.41, 16.18),
    (48.39, 752.65, 96.46, 48.38, 16.96, 16.84, 16.67, 96.23),
    (48.38, 96.25, 749.04, 6.02, 48.38, 17.57, 17.54, 16.95),
    (96.44, 48.39, 96.48, 752.65, 17.27, 48.38, 17.33, 16.8),
    (15.99, 16.8, 48.38, 17.27, 755.56, 96.44, 48.38, 96.44),
    (16.14, 16.74, 17.73, 48.38, 96.23, 755.56, 96.25, 48.38),
    (96.43, 16.81, 17.6, 17.35, 48.33, 96.23, 754.83, 48.39),
    (16.28, 96.22, 17.18, 16.88, 96.23, 48.33, 48.33, 755.56),
)

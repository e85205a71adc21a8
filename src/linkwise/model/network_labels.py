"""Node labels of the network levels that topograph writes, the broadest level first.

Its versions name the same switches differently, so a level has several labels, the newest first:
1.x `fabric.topograph.run/tier-N`, where 0 is closest to the node, and `accelerator.topograph.run/domain`;
0.5 `network.topology.nvidia.com/{core,spine,leaf,accelerator}`; 0.1 `/{datacenter,spine,block}`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ACCELERATOR", "FABRIC", "NVIDIA", "TIERS", "TOPOGRAPH"]

FABRIC: Final = "fabric.topograph.run/"
ACCELERATOR: Final = "accelerator.topograph.run/"
TIERS: Final = 16
"""tiers that are read; topograph sets no limit, but no network has as many"""
NVIDIA: Final = "network.topology.nvidia.com/"
_EARLIER: Final = {0: ("leaf", "block"), 1: ("spine",), 2: ("core", "datacenter")}

TOPOGRAPH: Final = (
    *(
        (f"{FABRIC}tier-{number}", *(NVIDIA + name for name in _EARLIER.get(number, ())))
        for number in reversed(range(TIERS))
    ),
    (f"{ACCELERATOR}domain", f"{NVIDIA}accelerator"),
    (f"{ACCELERATOR}sub-domain",),
)

"""What an administrator may set about placing, as values; a file that sets them is read elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["BandwidthSettings", "JobShape", "ShareSettings"]

JobShape = Literal["strict", "per-pod"]
"""which shapes a job of ring-linked devices may have"""


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """How parts of devices are handed out."""

    order: Literal["binpack", "spread"] = "binpack"
    """the fitting device with the least room, or with the most"""
    within: Literal["namespace", "any"] = "namespace"
    """who may share a device: pods of one namespace, or any"""


@dataclass(frozen=True, slots=True)
class BandwidthSettings:
    """When bandwidth is a must."""

    floor: float = 0.0  # GB/s; a set below it is refused, 0 refuses none

"""Measurement: bandwidth between devices as a test has measured it, bound to the devices by their UUIDs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix

__all__ = ["Measurement"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of a test on some or all devices of a machine."""

    tool: str
    """the tool and its table: `nvbandwidth device_to_device_memcpy_write_ce (row -> column)`"""
    time: float  # seconds since the epoch
    devices: tuple[str, ...]
    """UUIDs of the rows and columns"""
    bandwidth: Matrix  # GB/s, from row to column, as measured
    suspects: tuple[tuple[int, int], ...] = ()
    """pairs of rows with a bad sample"""
    warnings: tuple[str, ...] = ()
    """what the tool's output says about its own numbers"""

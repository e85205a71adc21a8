"""Readers of usage by `nvidia-smi --query-gpu` and `--query-compute-apps`, as CSV without header and units."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.model.usage import DeviceUsage, ProcessUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DEVICE_FIELDS", "PROCESS_FIELDS", "device_usages"]

DEVICE_FIELDS: Final = ("uuid", "memory.total", "memory.used", "utilization.gpu")
PROCESS_FIELDS: Final = ("gpu_uuid", "pid", "used_memory")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_UUID: Final = re.compile(r"GPU-[0-9A-Za-z-]{1,59}")
_MIB: Final = 1 << 20


def device_usages(devices: str, processes: str | None) -> tuple[DeviceUsage, ...]:
    """The devices in both outputs; `processes` is None if they can't be listed. Values such as [N/A] are unknown."""
    running: dict[str, list[ProcessUsage]] = {}
    for uuid, pid, used in _rows(processes or "", len(PROCESS_FIELDS)):
        number = _number(pid)
        if number is not None:
            running.setdefault(uuid, []).append(ProcessUsage(number, _bytes(used)))
    found: dict[str, DeviceUsage] = {}
    for uuid, total, used, busy in _rows(devices, len(DEVICE_FIELDS)):
        own = None if processes is None else tuple(running.get(uuid, ()))
        found.setdefault(uuid, DeviceUsage(uuid, _bytes(total), _bytes(used), _number(busy), own))
    return tuple(found.values())


def _rows(text: str, columns: int) -> Iterator[list[str]]:
    """Complete rows that begin with the UUID of a device; messages between them are left out."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == columns and _UUID.fullmatch(cells[0]):
            yield cells


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def _bytes(text: str) -> int | None:
    number = _number(text)
    return None if number is None else number * _MIB

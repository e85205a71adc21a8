"""Usage of Ascend chips by DCMI: memory, busy AI cores and processes; what a chip does not report is missing."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from linkwise.drivers.dcmi.library import HbmInfo, MemoryInfo
from linkwise.model.usage import DeviceUsage, ProcessUsage

if TYPE_CHECKING:
    from linkwise.drivers.dcmi.chips import Place
    from linkwise.drivers.dcmi.library import Library

__all__ = ["read_usage"]

_MIB: Final = 1 << 20
_AI_CORE: Final = 2
"""DCMI_UTILIZATION_RATE_AICORE"""
_MOST_PROCESSES: Final = 32
"""that the library writes"""


class _ProcessInfo(ctypes.Structure):
    """`struct dcmi_proc_mem_info`."""

    _fields_ = (("id", ctypes.c_int), ("memory", ctypes.c_ulong))  # bytes


def read_usage(library: Library, place: Place, id_: str) -> DeviceUsage:
    """The usage of the chip at a place."""
    total, used = _memory(library, place)
    busy = library.number("dcmi_get_device_utilization_rate", place.card, place.chip, _AI_CORE, kind=ctypes.c_uint)
    return DeviceUsage(id_, total, used, busy if isinstance(busy, int) else None, _processes(library, place))


def _memory(library: Library, place: Place) -> tuple[int | None, int | None]:
    """Bytes of HBM, or of DDR where the chip has no HBM, and those in use."""
    high = HbmInfo()
    failure = library.call("dcmi_get_device_hbm_info", place.card, place.chip, ctypes.byref(high))
    if failure is None and high.size:
        return int(high.size) * _MIB, int(high.used) * _MIB
    plain = MemoryInfo()
    failure = library.call("dcmi_get_device_memory_info_v3", place.card, place.chip, ctypes.byref(plain))
    if failure is not None or not plain.size:
        return None, None
    return int(plain.size) * _MIB, int(plain.size) * min(100, int(plain.used_percent)) // 100 * _MIB


def _processes(library: Library, place: Place) -> tuple[ProcessUsage, ...] | None:
    infos, count = (_ProcessInfo * _MOST_PROCESSES)(), ctypes.c_int(0)
    failure = library.call(
        "dcmi_get_device_resource_info", place.card, place.chip, ctypes.byref(infos), ctypes.byref(count)
    )
    if failure is not None:
        return None
    return tuple(ProcessUsage(one.id, int(one.memory)) for one in infos[: max(0, min(count.value, _MOST_PROCESSES))])

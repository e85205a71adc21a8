"""Usage of AMD GPUs: memory and utilization of AMD SMI or its tools, and the processes of the kernel driver.

AMD SMI lists processes too, but in a structure that begins with a name of another length in each major release; the kernel's
files are the same for all.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.drivers.amd.gpus import VRAM
from linkwise.drivers.amd.kernel import gpu_processes
from linkwise.drivers.device_facts import MOST_MEMORY, Failure
from linkwise.model.usage import DeviceUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from linkwise.drivers.amd.gpus import Gpu
    from linkwise.drivers.amd.kernel import GpuNodes
    from linkwise.drivers.amd.library import Library
    from linkwise.model.device import Device
    from linkwise.model.usage import ProcessUsage

__all__ = ["read_usage", "with_processes"]

_PERCENT: Final = 100


def read_usage(library: Library, gpu: Gpu) -> DeviceUsage | Failure:
    """Memory and utilization of a GPU; None for what it does not report, and the failure if it is lost."""
    used = library.number("amdsmi_get_gpu_memory_usage", gpu.handle, ctypes.c_int(VRAM), kind=ctypes.c_uint64)
    if isinstance(used, Failure) and used.dead:
        return used
    busy = library.first_number("amdsmi_get_gpu_activity", gpu.handle)
    return DeviceUsage(
        gpu.device.id,
        gpu.device.bytes or None,
        None if isinstance(used, Failure) or used > MOST_MEMORY else used,
        # a GPU that does not measure it reports the largest number of 16 or 32 bits
        None if isinstance(busy, Failure) or busy > _PERCENT else busy,
    )


def with_processes(
    found: Iterable[tuple[Device, DeviceUsage]], nodes: Mapping[tuple[str, int], GpuNodes], host: Path
) -> tuple[DeviceUsage, ...]:
    """The usage of the devices, with the processes on them.

    AMD SMI and its tools report the memory in use and the utilization of a divided GPU as a whole (ROCm/ROCm#4750): of a
    partition, the memory that its processes have is in use, and its utilization is unknown.
    """
    running = gpu_processes(nodes, host)
    partitions = Counter(address for address, _ in nodes)
    divided = {node.render for (address, _), node in nodes.items() if partitions[address] > 1}
    usages = []
    for device, usage in found:
        processes = None if device.minor is None else running.get(device.minor)
        if device.minor in divided:
            usage = replace(usage, used=_memory(processes), utilization=None)  # noqa: PLW2901 - the same, corrected
        usages.append(replace(usage, processes=processes))
    return tuple(usages)


def _memory(processes: tuple[ProcessUsage, ...] | None) -> int | None:
    known = [one.memory for one in processes or () if one.memory is not None]
    return None if processes is None or len(known) < len(processes) else sum(known)

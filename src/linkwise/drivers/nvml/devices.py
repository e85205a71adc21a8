"""GPUs as NVML reports them, one at a time: a fact that can't be read is missing, and a dead GPU is unhealthy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.drivers.device_facts import MOST_NUMBERS, DeviceFacts, Failure, is_valid_id
from linkwise.drivers.host_files import near_nics, numa_node
from linkwise.drivers.known_devices import Unreadable
from linkwise.model.device import Device

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.drivers.nvml.library import Library

__all__ = ["Gpu", "read_gpu"]

_MIB: Final = 1024 * 1024
_BRANDS: Final = (
    *("unknown", "quadro", "tesla", "nvs", "grid", "geforce", "titan", "vapps", "vpc", "vcs", "vws", "cloudgaming"),
    *("quadrortx", "nvidiartx", "nvidia", "geforcertx", "titanrtx"),
)
"""by the numbers of nvmlBrandType_t"""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU in one discovery."""

    handle: Any
    """of the binding; valid until the next discovery"""
    device: Device
    faults: tuple[str, ...] = ()
    """why it is unhealthy, or what is not known"""
    compute: str = ""
    """compute capability"""
    mig: bool | None = None
    """whether it is divided by MIG; None if it can't be"""
    brand: str = ""
    """as NVIDIA's container toolkit names it: tesla, geforce"""
    firmware: str = ""
    """version of its VBIOS"""


def read_gpu(library: Library, index: int, host: Path) -> Gpu | Unreadable:
    """The GPU with that index, with what can be read of it."""
    handle = library.call("nvmlDeviceGetHandleByIndex", index)
    if isinstance(handle, Failure):
        return Unreadable(index, f"NVML can't open it ({handle})")
    bus_id = library.bus_id("nvmlDeviceGetPciInfo_v3", handle)
    bus = "" if isinstance(bus_id, Failure) else bus_id
    uuid = library.call("nvmlDeviceGetUUID", handle)  # not cleaned: CUDA would not know the result
    if isinstance(uuid, Failure):
        return Unreadable(index, f"NVML can't read its UUID ({uuid})", bus)
    if not is_valid_id(uuid):
        return Unreadable(index, f"its UUID {uuid[:80]!r} is invalid", bus)
    facts = DeviceFacts("NVML", index)
    facts.take("bus id", bus_id)
    model = facts.take("model", library.text("nvmlDeviceGetName", handle))
    info = library.call("nvmlDeviceGetMemoryInfo", handle)
    memory = facts.memory(info if isinstance(info, Failure) else int(info.total))
    minor = facts.take("minor number", library.number("nvmlDeviceGetMinorNumber", handle))
    compute = facts.take("compute capability", library.call("nvmlDeviceGetCudaComputeCapability", handle))
    mig = _mig(facts, library, handle)
    return Gpu(
        handle,
        Device(
            uuid,
            index,
            minor=minor if minor is not None and 0 <= minor < MOST_NUMBERS else None,
            # NVML's own number is that of the GPU's memory where it is a NUMA node of its own, while kubelet aligns by
            # that of the nearest CPUs.
            numa=facts.numa(numa_node(bus, host), lambda: library.number("nvmlDeviceGetNumaNodeId", handle)),
            bus_id=bus,
            model=model or "",
            memory=memory // _MIB,
            healthy=facts.healthy,
            bytes=memory,
            nics=near_nics(bus, host),
        ),
        tuple(facts.faults),
        ".".join(map(str, compute)) if compute else "",
        mig,
        _brand(facts, library, handle),
        facts.take("firmware version", library.text("nvmlDeviceGetVbiosVersion", handle)) or "",
    )


def _mig(facts: DeviceFacts, library: Library, handle: object) -> bool | None:
    mode = facts.take("MIG mode", library.call("nvmlDeviceGetMigMode", handle))
    enabled = bool(mode[0]) if mode else None
    if enabled:
        facts.kill("it is in MIG mode, and MIG devices are left to NVIDIA's device plugin")
    return enabled


def _brand(facts: DeviceFacts, library: Library, handle: object) -> str:
    number = facts.take("brand", library.number("nvmlDeviceGetBrand", handle))
    return _BRANDS[number] if number is not None and 0 <= number < len(_BRANDS) else ""

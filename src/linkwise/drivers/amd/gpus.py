"""One AMD GPU, or partition of one, as AMD SMI reports it; what can't be read of it is a fault of that one alone."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.drivers.device_facts import DeviceFacts, Failure, is_valid_id
from linkwise.drivers.host_files import numa_node
from linkwise.drivers.known_devices import Unreadable
from linkwise.model.device import Device
from linkwise.vendors.amd.inventory import uncorrectable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkwise.drivers.amd.kernel import GpuNodes
    from linkwise.drivers.amd.library import Library

__all__ = ["VRAM", "Gpu", "read_gpu"]

_MIB: Final = 1024 * 1024
VRAM: Final = 0
"""AMDSMI_MEM_TYPE_VRAM"""
_WHOLE: Final = {"", "SPX", "N/A", "UNKNOWN"}
"""compute partition modes of an undivided GPU"""
_NO_SERIAL: Final = "-8000-000000000000"
"""end of the UUID of every GPU without a serial number"""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU or partition in one discovery."""

    handle: ctypes.c_void_p
    device: Device
    faults: tuple[str, ...] = ()
    """why it is unhealthy, or what is not known"""
    partition: str = ""
    """the compute and memory partition mode, `CPX/NPS4`, of a divided GPU"""
    driver: str = ""


def read_gpu(
    library: Library, handle: ctypes.c_void_p, index: int, nodes: Mapping[tuple[str, int], GpuNodes], host: Path
) -> Gpu | Unreadable:
    """The GPU of a handle, with what can be read of it."""
    bdf = library.number("amdsmi_get_gpu_device_bdf", handle, kind=ctypes.c_uint64)
    bus = "" if isinstance(bdf, Failure) else _address(bdf)
    uuid = library.uuid(handle)
    if isinstance(uuid, Failure):
        return Unreadable(index, f"AMD SMI can't read its UUID ({uuid})", bus)
    facts = DeviceFacts("AMD SMI", index)
    facts.take("bus id", bdf)
    mode = facts.take("compute partition", library.text("amdsmi_get_gpu_compute_partition", handle)) or ""
    memory_mode = facts.take("memory partition", library.text("amdsmi_get_gpu_memory_partition", handle)) or ""
    divided = mode.upper() not in _WHOLE
    # AMD SMI numbers the partitions of a GPU as functions of its address.
    partition = (0 if isinstance(bdf, Failure) else bdf & 7) if divided else 0
    id_ = f"{uuid}-{bus.replace(':', '-')}" if uuid.endswith(_NO_SERIAL) else f"{uuid}-{partition}" if divided else uuid
    if not uuid.strip() or not is_valid_id(id_):
        return Unreadable(index, f"its UUID {uuid[:80]!r} is invalid", bus)
    own_bus = f"{bus[:-1]}0" if divided and bus else bus
    node = nodes.get((own_bus, partition))
    if node is None and nodes:
        facts.note("the kernel does not list its render node, so that no container can be given it")
    memory = facts.memory(
        library.number("amdsmi_get_gpu_memory_total", handle, ctypes.c_int(VRAM), kind=ctypes.c_uint64)
    )
    _health(facts, library, handle)
    driver = library.first_text("amdsmi_get_gpu_driver_info", handle)
    return Gpu(
        handle,
        Device(
            id_,
            index,
            minor=node.render if node else None,
            numa=facts.numa(
                numa_node(own_bus, host), lambda: library.number("amdsmi_topo_get_numa_node_number", handle)
            ),
            bus_id=bus,
            model=facts.take("model", library.first_text("amdsmi_get_gpu_asic_info", handle)) or "",
            memory=memory // _MIB,
            healthy=facts.healthy,
            bytes=memory,
            nodes=(node.card,) if node and node.card else (),
        ),
        tuple(facts.faults),
        "/".join(filter(None, (mode.upper(), memory_mode.upper()))) if divided else "",
        "" if isinstance(driver, Failure) else driver,
    )


def _address(bdf: int) -> str:
    """The bus id in the kernel's form: three bits of function, five of device, eight of bus, and the domain."""
    return f"{bdf >> 16 & 0xFFFFFFFF:04x}:{bdf >> 8 & 0xFF:02x}:{bdf >> 3 & 0x1F:02x}.{bdf & 7:x}"


def _health(facts: DeviceFacts, library: Library, handle: ctypes.c_void_p) -> None:
    """Uncorrectable errors and too many retired pages take a GPU out of use; a hot or slow GPU works.

    Source: AMD's device metrics exporter, by whose defaults its device plugin marks GPUs as unhealthy.
    """
    errors = facts.take("memory errors", library.counts("amdsmi_get_gpu_total_ecc_count", handle))
    if errors and errors[1]:
        facts.kill(f"its driver counts {uncorrectable(errors[1])}; reset the GPU")
    # A null pointer asks for the number of pages only.
    pages = ctypes.c_uint32(0)
    if library.call("amdsmi_get_gpu_bad_page_info", handle, ctypes.byref(pages), None) is not None or not pages.value:
        return
    most = library.number("amdsmi_get_gpu_bad_page_threshold", handle)
    retired = f"{pages.value} bad page{'s' * (pages.value != 1)} of its memory"
    if not isinstance(most, Failure) and 0 < most <= pages.value:
        facts.kill(f"{retired} are retired, and {most} is the limit of its driver; replace the GPU")
    else:
        facts.note(f"works, but {retired} are retired")

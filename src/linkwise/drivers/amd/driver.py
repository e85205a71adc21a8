"""Driver for AMD GPUs through the AMD SMI library.

The library lists the GPUs that it found when it was initialised. It is initialised again when a GPU could not be read, and
when the kernel lists other GPUs or partitions than before. What can't be read of a GPU, or of a partition of one, is a fault
of that one alone. See `known_devices` for GPUs that are no longer reported.

AMD SMI lists processes too, but in a structure that begins with a name of another length in each major release; the kernel's
files are the same for all.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, Final

from linkwise.drivers.amd.kernel import gpu_nodes, gpu_processes, versions
from linkwise.drivers.amd.library import Library
from linkwise.drivers.device_facts import MOST_MEMORY, DeviceFacts, Failure, common, distinct, is_valid_id
from linkwise.drivers.host_files import HOST, numa_node
from linkwise.drivers.known_devices import KnownDevices, Unreadable
from linkwise.errors import DriverError
from linkwise.model.device import MIB, Device
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.topology import MAX_DEVICES, Topology
from linkwise.model.usage import DeviceUsage, UsageReading
from linkwise.vendors.amd.inventory import uncorrectable
from linkwise.vendors.amd.vendor import Table, reading_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from linkwise.drivers.amd.kernel import GpuNodes
    from linkwise.model.usage import ProcessUsage

__all__ = ["VRAM", "AmdSmiLibraryDriver", "Gpu", "read_gpu", "read_usage", "with_processes"]

_VENDOR: Final = "amd"
_GPU: Final = 1
"""AMDSMI_PROCESSOR_TYPE_AMD_GPU"""
_LINKS: Final = {1: "PCIE", 2: "XGMI"}
"""the numbers of both amdsmi_io_link_type_t and, since ROCm 7, amdsmi_link_type_t"""
VRAM: Final = 0
"""AMDSMI_MEM_TYPE_VRAM"""
_WHOLE: Final = {"", "SPX", "N/A", "UNKNOWN"}
"""compute partition modes of an undivided GPU"""
_NO_SERIAL: Final = "-8000-000000000000"
"""end of the UUID of every GPU without a serial number"""
_PERCENT: Final = 100


class AmdSmiLibraryDriver(Driver):
    """GPUs of this machine, read through libamd_smi.so."""

    name = "amdsmi"

    def __init__(self, library: str = "", *, host: Path = HOST) -> None:
        """Load and initialise the library; `library` is its path if it is not where ROCm installs it.

        Raises:
            DriverError: it can't be loaded or initialised.
        """
        self._library: Final = Library(library, host)
        self._host: Final = host
        self._known: Final = KnownDevices()
        self._nodes = gpu_nodes(host)
        self._read: tuple[Gpu, ...] = ()
        """the GPUs of the last discovery; their handles are valid until the library is initialised again"""
        self._stale = False
        """whether the library may list GPUs that are gone"""
        self._paths: dict[tuple[str, str], tuple[str, str, str]] = {}
        """link type, weight and hops by the ids of two devices: they do not change while the machine runs"""

    def discover(self) -> Discovery:
        """Read all GPUs.

        Raises:
            DriverError: AMD SMI lists no GPUs.
        """
        nodes = gpu_nodes(self._host)
        self._read = ()
        if self._stale or nodes != self._nodes:
            self._library.initialise()
        self._nodes, self._stale = nodes, True  # until everything is read
        problems: list[str] = []
        gpus, unreadable = self._gpus(problems)
        self._stale, self._read = bool(unreadable), tuple(gpus)
        discovery = Discovery(
            _VENDOR if gpus else "",
            tuple(gpu.device for gpu in gpus),
            self._topology(gpus),
            self._facts(gpus),
            {gpu.device.id: "; ".join(gpu.faults) for gpu in gpus if gpu.faults},
            tuple(problems),
        )
        whole = self._known.complete(discovery, unreadable)
        return replace(whole, vendor=_VENDOR if whole.devices else "")

    def usage(self) -> UsageReading:
        """Read memory, utilization and processes of the GPUs that the last discovery read."""
        usages, problems = [], []
        for gpu in self._read:
            usage = read_usage(self._library, gpu)
            if isinstance(usage, Failure):
                problems.append(f"device {gpu.device.index}: its usage can't be read ({usage})")
            else:
                usages.append((gpu.device, usage))
        return UsageReading(with_processes(usages, self._nodes, self._host), tuple(problems))

    def close(self) -> None:
        """Shut the library down."""
        self._stale, self._read = True, ()
        self._library.close()

    def _gpus(self, problems: list[str]) -> tuple[list[Gpu], list[Unreadable]]:
        handles = self._handles()
        if len(handles) > MAX_DEVICES:
            problems.append(f"AMD SMI reports {len(handles)} devices; the first {MAX_DEVICES} are read")
        read = (
            read_gpu(self._library, handle, index, self._nodes, self._host)
            for index, handle in enumerate(handles[:MAX_DEVICES])
        )
        return distinct(read, problems)

    def _handles(self) -> list[ctypes.c_void_p]:
        sockets = self._library.handles("amdsmi_get_socket_handles")
        if isinstance(sockets, Failure):
            self._library.initialise()  # the driver may have been reloaded
            sockets = self._library.handles("amdsmi_get_socket_handles")
        if isinstance(sockets, Failure):
            raise DriverError(f"amdsmi: the GPUs can't be listed ({sockets}); check `amd-smi list` on the node")
        handles: list[ctypes.c_void_p] = []
        for socket in sockets:
            processors = self._library.handles("amdsmi_get_processor_handles", socket)
            handles += [] if isinstance(processors, Failure) else filter(self._is_gpu, processors)
        return handles

    def _is_gpu(self, handle: ctypes.c_void_p) -> bool:
        kind = self._library.number("amdsmi_get_processor_type", handle)
        return isinstance(kind, Failure) or kind == _GPU

    def _facts(self, gpus: Sequence[Gpu]) -> dict[str, str]:
        facts = {
            **versions((gpu.device.bus_id for gpu in gpus), self._host),
            "model": common(gpu.device.model for gpu in gpus),
            "partition": common(gpu.partition for gpu in gpus),
        }
        facts["driver"] = common(gpu.driver for gpu in gpus) or facts.get("driver", "")
        return {name: value for name, value in facts.items() if value}

    def _topology(self, gpus: Sequence[Gpu]) -> Topology | None:
        """The links, graded as those of the tools' tables."""
        if not gpus:
            return None
        ids = tuple(gpu.device.id for gpu in gpus)
        cells = {(a.device.id, b.device.id): self._path(a, b) for a, b in permutations(gpus, 2)}
        if not any(link for link, _, _ in cells.values()):
            return Topology(ids)
        titles = ("Link Type", "Weight", "Hops")
        tables = {
            title.lower(): Table(
                title, ids, {a: tuple("SELF" if a == b else cells[a, b][column] or "N/A" for b in ids) for a in ids}
            )
            for column, title in enumerate(titles)
        }
        return Topology(ids, reading_of(self.name, tables, {}).links)

    def _path(self, one: Gpu, other: Gpu) -> tuple[str, str, str]:
        """The type, weight and hops of a link, as the tools print them; empty for what is not known."""
        key = one.device.id, other.device.id
        if key not in self._paths:
            hops, kind = ctypes.c_uint64(0), ctypes.c_uint32(0)
            arguments = one.handle, other.handle
            if self._library.call("amdsmi_topo_get_link_type", *arguments, ctypes.byref(hops), ctypes.byref(kind)):
                return "", "", ""
            weight = self._library.number("amdsmi_topo_get_link_weight", *arguments, kind=ctypes.c_uint64)
            known = "" if isinstance(weight, Failure) else str(weight)
            self._paths[key] = _LINKS.get(kind.value, ""), known, str(hops.value)
        return self._paths[key]


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
            memory=memory // MIB,
            healthy=facts.healthy,
            bytes=memory,
            nodes=(node.card,) if node and node.card else (),
        ),
        tuple(facts.faults),
        "/".join(filter(None, (mode.upper(), memory_mode.upper()))) if divided else "",
        "" if isinstance(driver, Failure) else driver,
    )


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


def _memory(processes: tuple[ProcessUsage, ...] | None) -> int | None:
    known = [one.memory for one in processes or () if one.memory is not None]
    return None if processes is None or len(known) < len(processes) else sum(known)

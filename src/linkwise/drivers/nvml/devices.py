"""GPUs as NVML reports them, with links and usage: a fact that can't be read is missing, a dead GPU unhealthy.

Links are what `nvidia-smi topo -m` prints, with the PCIe path that it hides behind NVLinks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from linkwise.drivers.device_facts import MOST_NUMBERS, DeviceFacts, Failure, is_valid_id
from linkwise.drivers.host_files import near_nics, numa_node, pci_address
from linkwise.drivers.known_devices import Unreadable
from linkwise.drivers.nvml.library import NOT_FOUND
from linkwise.model.device import MIB, Device
from linkwise.model.link import SELF, Link, Pcie
from linkwise.model.usage import DeviceUsage, ProcessUsage, UsageReading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from linkwise.drivers.nvml.library import Library

__all__ = ["Gpu", "PciePaths", "UsageReader", "link_rows", "read_gpu"]

_BRANDS: Final = (
    *("unknown", "quadro", "tesla", "nvs", "grid", "geforce", "titan", "vapps", "vpc", "vcs", "vws", "cloudgaming"),
    *("quadrortx", "nvidiartx", "nvidia", "geforcertx", "titanrtx"),
)
"""by the numbers of nvmlBrandType_t"""
# rule 000.links: the levels of NVML are the PCIe paths that nvidia-smi prints.
_PATHS: Final = {0: Pcie.BOARD, 10: Pcie.PIX, 20: Pcie.PXB, 30: Pcie.PHB, 40: Pcie.NODE, 50: Pcie.SYS}
_SWITCH: Final = "switch"
"""the remote end of links to any NVSwitch"""
_TYPE_GPU: Final = 0
_TYPE_SWITCH: Final = 2
_SHOWN: Final = 4
_ACTIVE: Final = 1
_LISTS: Final = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
)
"""the current function and the one of drivers before R510; the binding raises an error for names without a version"""


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
            memory=memory // MIB,
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


class PciePaths:
    """PCIe paths between GPUs, read once: they do not change while the GPUs stay where they are.

    Walking all pairs takes seconds on some machines, so only what is not known yet is asked for.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Pcie] = {}

    def between(self, library: Library, a: Gpu, b: Gpu) -> Pcie:
        """The path; UNKNOWN if it can't be read now."""
        key = (f"{a.device.id} {a.device.bus_id}", f"{b.device.id} {b.device.bus_id}")
        if key not in self._known:
            level = library.number("nvmlDeviceGetTopologyCommonAncestor", a.handle, b.handle)
            path = Pcie.UNKNOWN if isinstance(level, Failure) else _PATHS.get(level, Pcie.UNKNOWN)
            if not path:
                return path
            self._known[key] = path
        return self._known[key]


def link_rows(
    library: Library, gpus: Sequence[Gpu], paths: PciePaths, others: Collection[str], *, complete: bool
) -> tuple[tuple[tuple[Link, ...], ...], list[str]]:
    """The link matrix, and sentences about links of which only one end is active.

    `others` are the bus ids of GPUs that can't be read now. `complete`: the bus ids of all GPUs are known, so that an
    end at any other one is a switch.
    """
    buses = {pci_address(gpu.device.bus_id): gpu.device.id for gpu in gpus} | {pci_address(bus): "" for bus in others}
    buses.pop("", None)
    ends = [_remote_ends(library, gpu, buses, complete=complete) for gpu in gpus]
    links: dict[tuple[int, int], Link] = {}
    uneven: list[str] = []
    for i, j in combinations(range(len(gpus)), 2):
        a, b = gpus[i].device, gpus[j].device
        one, other = ends[i][b.id], ends[j][a.id]
        # A link works only if both ends do.
        through_switches = min(ends[i][_SWITCH], ends[j][_SWITCH])
        links[i, j] = Link.of(min(one, other) + through_switches, paths.between(library, gpus[i], gpus[j]))
        if one != other and a.healthy and b.healthy:
            uneven.append(f"{a.index} and {b.index} ({one} and {other})")
    rows = tuple(
        tuple(SELF if i == j else links[min(i, j), max(i, j)] for j in range(len(gpus))) for i in range(len(gpus))
    )
    return rows, _sentence(uneven)


class UsageReader:
    """Reads the usage of all GPUs; it remembers which samples of utilization it has seen."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        """by UUID, the time of the last sample in microseconds"""

    def read(self, library: Library, most: int) -> UsageReading:
        """Read at most that many GPUs."""
        count = library.number("nvmlDeviceGetCount")
        if isinstance(count, Failure):
            return UsageReading(problems=(f"NVML can't count the GPUs ({count})",))
        usages: dict[str, DeviceUsage] = {}
        problems: list[str] = []
        for index in range(min(count, most)):
            usage = self._device(library, index)
            if isinstance(usage, Failure):
                problems.append(f"device {index}: its usage can't be read ({usage})")
            else:
                usages.setdefault(usage.id, usage)
        self._seen = {uuid: time for uuid, time in self._seen.items() if uuid in usages}
        return UsageReading(tuple(usages.values()), tuple(problems))

    def _device(self, library: Library, index: int) -> DeviceUsage | Failure:
        handle = library.call("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, Failure):
            return handle
        uuid = library.call("nvmlDeviceGetUUID", handle)
        if isinstance(uuid, Failure):
            return uuid
        memory = library.call("nvmlDeviceGetMemoryInfo", handle)
        if isinstance(memory, Failure) and memory.dead:
            return memory
        rates = library.call("nvmlDeviceGetUtilizationRates", handle)
        return DeviceUsage(
            uuid,
            None if isinstance(memory, Failure) else int(memory.total),
            None if isinstance(memory, Failure) else int(memory.used),
            None if isinstance(rates, Failure) else int(rates.gpu),
            self._processes(library, handle, uuid),
        )

    def _processes(self, library: Library, handle: object, uuid: str) -> tuple[ProcessUsage, ...] | None:
        """The processes that compute or draw; None if the GPU lists none of both kinds."""
        lists = [_listed(library, handle, *functions) for functions in _LISTS]
        if all(one is None for one in lists):
            return None
        listed = [process for one in lists for process in one or ()]
        busy = self._busy(library, handle, uuid) if listed else None
        return tuple(
            ProcessUsage(
                int(process.pid),
                None if process.usedGpuMemory is None else int(process.usedGpuMemory),
                None if busy is None else busy.get(int(process.pid), 0),
            )
            for process in listed
        )

    def _busy(self, library: Library, handle: object, uuid: str) -> dict[int, int] | None:
        """Percent of compute by process since the last call, averaged over the samples; None if it is not reported.

        A process without a sample has computed nothing since.
        """
        seen = self._seen.get(uuid, 0)
        samples = library.call("nvmlDeviceGetProcessUtilization", handle, seen)
        if isinstance(samples, Failure):
            return {} if samples.code == NOT_FOUND else None
        own = [one for one in samples if one.pid and one.timeStamp > seen]
        self._seen[uuid] = max((int(one.timeStamp) for one in own), default=seen)
        return {pid: _mean(int(one.smUtil) for one in own if one.pid == pid) for pid in {int(one.pid) for one in own}}


def _mig(facts: DeviceFacts, library: Library, handle: object) -> bool | None:
    mode = facts.take("MIG mode", library.call("nvmlDeviceGetMigMode", handle))
    enabled = bool(mode[0]) if mode else None
    if enabled:
        facts.kill("it is in MIG mode, and MIG devices are left to NVIDIA's device plugin")
    return enabled


def _brand(facts: DeviceFacts, library: Library, handle: object) -> str:
    number = facts.take("brand", library.number("nvmlDeviceGetBrand", handle))
    return _BRANDS[number] if number is not None and 0 <= number < len(_BRANDS) else ""


def _remote_ends(library: Library, gpu: Gpu, buses: dict[str, str], *, complete: bool) -> Counter[str]:
    """Active NVLinks of a GPU by the id of the GPU at the other end, or `switch`."""
    ends = Counter[str]()
    for number in range(library.most_links()):
        state = library.number("nvmlDeviceGetNvLinkState", gpu.handle, number)
        if isinstance(state, Failure) and state.dead:
            break
        if state == _ACTIVE:
            ends[_remote_end(library, gpu, number, buses, complete=complete)] += 1
    return ends


def _remote_end(library: Library, gpu: Gpu, number: int, buses: dict[str, str], *, complete: bool) -> str:
    bus_id = library.bus_id("nvmlDeviceGetNvLinkRemotePciInfo", gpu.handle, number)
    address = "" if isinstance(bus_id, Failure) else pci_address(bus_id)
    if address in buses:
        return buses[address]
    kind = library.number("nvmlDeviceGetNvLinkRemoteDeviceType", gpu.handle, number)
    # rule 000.nvswitch: behind a switch, the remote end is the switch and not the other GPU.
    if kind == _TYPE_SWITCH:
        return _SWITCH
    # Drivers without this function have no other sign of a switch than an end that is no GPU of this machine.
    return _SWITCH if isinstance(kind, Failure) and address and complete else ""


def _sentence(uneven: list[str]) -> list[str]:
    if not uneven:
        return []
    more = f", and {len(uneven) - _SHOWN} more pairs" if len(uneven) > _SHOWN else ""
    pairs = ", ".join(uneven[:_SHOWN])
    return [f"the two ends report different numbers of NVLinks between devices {pairs}{more}; the smaller one is used"]


def _listed(library: Library, handle: object, function: str, older: str) -> list[Any] | None:
    processes = library.call(function, handle)
    if isinstance(processes, Failure) and processes.unsupported:
        processes = library.call(older, handle)
    return None if isinstance(processes, Failure) else list(processes)


def _mean(values: Iterable[int]) -> int:
    """The mean of the values that are percents; 0 if none is."""
    valid = [value for value in values if 0 <= value <= 100]
    return round(sum(valid) / len(valid)) if valid else 0

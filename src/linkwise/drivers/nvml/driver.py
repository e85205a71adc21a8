"""Driver for NVIDIA GPUs through NVML, with the Xid errors that are reported between two discoveries.

The library is initialised once and read once per discovery. Handles are fetched each time, because those of a lost
GPU go stale. A dead GPU degrades itself only; see `known_devices` for GPUs that are no longer reported.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.drivers.device_facts import Failure, common, distinct, with_differing
from linkwise.drivers.host_files import HOST
from linkwise.drivers.known_devices import KnownDevices, Unreadable
from linkwise.drivers.nvml.devices import Gpu, PciePaths, UsageReader, link_rows, read_gpu
from linkwise.drivers.nvml.library import Library, StaleError
from linkwise.errors import DriverError
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.link import Link
from linkwise.model.topology import MAX_DEVICES, Topology
from linkwise.model.usage import UsageReading
from linkwise.vendors.link_table.matrix import fabric_warnings
from linkwise.vendors.nvidia.xid import HARMLESS, xid_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

__all__ = ["NvmlDriver", "XidEvents"]

_VENDOR: Final = "nvidia"
_CLOSE_SECONDS: Final = 2.0
"""to wait for a call that is about to return"""
_STOPPED: Final = "the NVIDIA driver does not answer; check that `nvidia-smi` works on the node"
_XID: Final = 0x8
"""nvmlEventTypeXidCriticalError"""
_TIMEOUT: Final = 10  # NVML_ERROR_TIMEOUT: no event came, which is no failure
_MOST: Final = 256
"""events of one discovery; a GPU that reports more keeps the rest for the next one"""


class NvmlDriver(Driver):
    """GPUs of this machine, read through libnvidia-ml.so.1."""

    name = "nvml"

    def __init__(self, library: str = "", *, host: Path = HOST, harmless: Collection[int] = HARMLESS) -> None:
        """Initialise the library; `library` is its path if the dynamic linker does not find it.

        `harmless` are the Xid events that leave a GPU in use.

        Raises:
            DriverError: it can't be initialised.
        """
        self._path: Final = library
        self._host: Final = host
        self._harmless: Final = harmless
        self._waiting: Final = threading.Lock()
        """held while a thread waits for events: the library must not be shut down under it"""
        self._known: Final = KnownDevices()
        self._paths: Final = PciePaths()
        self._usage: Final = UsageReader()
        self._library: Library | None = None
        self._events: XidEvents | None = None
        self._open()

    def discover(self) -> Discovery:
        """Read all GPUs; after the driver was reloaded, initialise the library first."""
        for _ in range(2):
            library, events = self._open()
            try:
                return self._read(library, events)
            except StaleError as error:
                stale = error
                self.close()
        raise DriverError(f"nvml: {_STOPPED} ({stale})") from stale

    def usage(self) -> UsageReading:
        """Read memory, utilization and processes of all GPUs; the next discovery initialises a stale library."""
        if self._library is None:
            return UsageReading(problems=(f"nvml: {_STOPPED}",))
        try:
            return self._usage.read(self._library, MAX_DEVICES)
        except StaleError as error:
            raise DriverError(f"nvml: {_STOPPED} ({error})") from error

    def wait(self, seconds: float) -> dict[str, str] | None:
        """Wait for an Xid event; the faults that it causes, by device id, or None if events can't be awaited."""
        with self._waiting:
            try:
                xids = self._events.wait(int(seconds * 1000)) if self._events is not None else None
            except StaleError:  # the next discovery initialises the library again
                return None
        return None if xids is None else {id_: _xid_fault(xid) for id_, xid in xids.items()}

    def close(self) -> None:
        """Shut the library down; a call that does not return keeps it open."""
        if self._waiting.acquire(timeout=_CLOSE_SECONDS):
            try:
                self._close()
            finally:
                self._waiting.release()

    def _close(self) -> None:
        library, events = self._library, self._events
        self._library = self._events = None
        if library is not None:
            if events is not None:
                with suppress(StaleError):  # the library has forgotten them already
                    events.close()
            library.close()

    def _open(self) -> tuple[Library, XidEvents]:
        if self._library is None or self._events is None:
            self._library = Library(self._path, self._host)
            try:
                self._events = XidEvents(self._library, self._harmless)
            except StaleError as error:
                self.close()
                raise DriverError(f"nvml: {_STOPPED} ({error})") from error
        return self._library, self._events

    def _read(self, library: Library, events: XidEvents) -> Discovery:
        problems: list[str] = []
        xids = events.collect()
        gpus, unreadable = self._gpus(library, problems)
        events.watch(gpus)
        gpus = [_with_xid(gpu, xids.get(gpu.device.id)) for gpu in gpus]
        if "" in xids:
            problems.append(f"the driver reported {xid_text(xids[''])} without naming a device")
        lost = [self._known.at_bus(each) for each in unreadable]
        rows, uneven = link_rows(library, gpus, self._paths, lost, complete="" not in lost)
        ids = tuple(gpu.device.id for gpu in gpus)
        discovery = Discovery(
            _VENDOR,
            with_differing([gpu.device for gpu in gpus], _device_facts(gpus)),
            Topology(ids, links=rows) if gpus else None,
            {**_system_facts(library), **_shared_facts(gpus)},
            {gpu.device.id: "; ".join(gpu.faults) for gpu in gpus if gpu.faults},
            (*problems, *uneven),
        )
        whole = self._known.complete(discovery, unreadable)
        model = common(device.model for device in whole.devices)
        return replace(
            whole,
            vendor=_VENDOR if whole.devices else "",
            topology=_with_warnings(whole),
            facts={**whole.facts, "model": model} if model else whole.facts,
        )

    def _gpus(self, library: Library, problems: list[str]) -> tuple[list[Gpu], list[Unreadable]]:
        count = library.number("nvmlDeviceGetCount")
        if isinstance(count, Failure):
            raise StaleError(f"NVML can't count the GPUs: {count}")
        if count > MAX_DEVICES:
            problems.append(f"NVML reports {count} devices; the first {MAX_DEVICES} are read")
        return distinct((read_gpu(library, index, self._host) for index in range(min(count, MAX_DEVICES))), problems)


class XidEvents:
    """Subscription to the Xid events of all GPUs; without support for events there are none."""

    def __init__(self, library: Library, harmless: Collection[int] = HARMLESS) -> None:
        self._library: Final = library
        self._harmless: Final = harmless
        """events after which a GPU works on"""
        self._set: Final[Any] = library.call("nvmlEventSetCreate")
        self._watched: set[str] = set()
        self._xids: dict[str, int] = {}

    @property
    def works(self) -> bool:
        """Whether there are GPUs that report events."""
        return not isinstance(self._set, Failure) and bool(self._watched)

    def wait(self, milliseconds: int) -> dict[str, int] | None:
        """Wait for an event that makes a GPU unhealthy; those that arrived, by UUID, or None if events can't be awaited.

        They stay to be collected. An event that names no GPU has an empty UUID.
        """
        if not self.works:
            return None
        failure = self._receive(milliseconds)
        if failure is not None and failure.code != _TIMEOUT:
            return None
        return dict(self._xids)

    def collect(self) -> dict[str, int]:
        """The last critical Xid of each GPU since the last call, by UUID; empty for events that name no GPU."""
        for _ in range(_MOST if self.works else 0):
            if self._receive(0) is not None:  # a timeout: there are no more
                break
        faults, self._xids = self._xids, {}
        return faults

    def watch(self, gpus: Iterable[Gpu]) -> None:
        """Subscribe to the events of GPUs that are new; one that came back must be subscribed to again."""
        if isinstance(self._set, Failure):
            return
        present = {gpu.device.id: gpu for gpu in gpus if gpu.device.healthy}
        for id_, gpu in present.items():
            if id_ not in self._watched:
                self._library.call("nvmlDeviceRegisterEvents", gpu.handle, _XID, self._set)
        self._watched = set(present)

    def close(self) -> None:
        """Free the subscription."""
        if not isinstance(self._set, Failure):
            self._library.call("nvmlEventSetFree", self._set)

    def _receive(self, milliseconds: int) -> Failure | None:
        """Take one event; the error if there is none."""
        event = self._library.call("nvmlEventSetWait_v2", self._set, milliseconds)
        if isinstance(event, Failure):
            return event
        if event.eventType == _XID and event.eventData not in self._harmless:
            uuid = self._library.text("nvmlDeviceGetUUID", event.device) if event.device else ""
            self._xids["" if isinstance(uuid, Failure) else uuid] = int(event.eventData)
        return None


def _xid_fault(xid: int) -> str:
    return f"the driver reported {xid_text(xid)}"


def _with_xid(gpu: Gpu, xid: int | None) -> Gpu:
    """The GPU, unhealthy in the discovery after an Xid event."""
    if xid is None:
        return gpu
    fault = f"device {gpu.device.index} is unhealthy: {_xid_fault(xid)}"
    return replace(gpu, device=replace(gpu.device, healthy=False), faults=(fault, *gpu.faults))


def _device_facts(gpus: Sequence[Gpu]) -> dict[str, list[str]]:
    """Facts of each GPU by name, which requirements of pods are compared with."""
    return {
        "compute": [gpu.compute for gpu in gpus],
        "brand": [gpu.brand for gpu in gpus],
        "firmware": [gpu.firmware for gpu in gpus],
    }


def _system_facts(library: Library) -> dict[str, str]:
    facts = {
        "driver": library.text("nvmlSystemGetDriverVersion"),
        "nvml": library.text("nvmlSystemGetNVMLVersion"),
        "cuda": _cuda(library),
    }
    return {name: value for name, value in facts.items() if value and not isinstance(value, Failure)}


def _cuda(library: Library) -> str:
    """CUDA version of the driver: 12.4 for 12040."""
    version = library.number("nvmlSystemGetCudaDriverVersion_v2")
    if isinstance(version, Failure):
        version = library.number("nvmlSystemGetCudaDriverVersion")  # drivers before R410
    if isinstance(version, Failure) or version < 1000:
        return ""
    return f"{version // 1000}.{version % 1000 // 10}"


def _shared_facts(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Facts that are the same for all GPUs; one that differs belongs to no node label."""
    mig = {gpu.mig for gpu in gpus if gpu.mig is not None}
    facts = {
        **{name: common(values) for name, values in _device_facts(gpus).items()},
        "mig": ("mixed" if len(mig) > 1 else "enabled" if True in mig else "disabled") if mig else "",
    }
    return {name: value for name, value in facts.items() if value}


def _with_warnings(discovery: Discovery) -> Topology | None:
    """The topology, with what `nvidia-smi topo -m` makes look odd: a device with fewer NVLinks than all others."""
    topology = discovery.topology
    if topology is None:
        return None
    printed = [[Link(link.partition("+")[0]) for link in row] for row in topology.links]
    names = [f"GPU{device.index}" for device in discovery.devices]
    return replace(topology, warnings=fabric_warnings(names, printed))

"""Driver for AMD GPUs through the AMD SMI library.

The library lists the GPUs that it found when it was initialised. It is initialised again when a GPU could not be read, and
when the kernel lists other GPUs or partitions than before. See `known_devices` for GPUs that are no longer reported.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Final

from linkwise.drivers.amd.gpus import Gpu, read_gpu
from linkwise.drivers.amd.kernel import gpu_nodes, versions
from linkwise.drivers.amd.library import Library
from linkwise.drivers.amd.usage import read_usage, with_processes
from linkwise.drivers.device_facts import Failure, common, distinct
from linkwise.drivers.host_files import HOST
from linkwise.drivers.known_devices import KnownDevices, Unreadable
from linkwise.errors import DriverError
from linkwise.model.discovery import Discovery
from linkwise.model.driver import Driver
from linkwise.model.topology import MAX_DEVICES, Topology
from linkwise.model.usage import UsageReading
from linkwise.vendors.amd.topo import Table, reading_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["AmdSmiLibraryDriver"]

_VENDOR: Final = "amd"
_GPU: Final = 1
"""AMDSMI_PROCESSOR_TYPE_AMD_GPU"""
_LINKS: Final = {1: "PCIE", 2: "XGMI"}
"""the numbers of both amdsmi_io_link_type_t and, since ROCm 7, amdsmi_link_type_t"""


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
        found = Discovery(
            _VENDOR if gpus else "",
            tuple(gpu.device for gpu in gpus),
            self._topology(gpus),
            self._facts(gpus),
            {gpu.device.id: "; ".join(gpu.faults) for gpu in gpus if gpu.faults},
            tuple(problems),
        )
        whole = self._known.complete(found, unreadable)
        return replace(whole, vendor=_VENDOR if whole.devices else "")

    def usage(self) -> UsageReading:
        """Read memory, utilization and processes of the GPUs that the last discovery read."""
        found, problems = [], []
        for gpu in self._read:
            usage = read_usage(self._library, gpu)
            if isinstance(usage, Failure):
                problems.append(f"device {gpu.device.index}: its usage can't be read ({usage})")
            else:
                found.append((gpu.device, usage))
        return UsageReading(with_processes(found, self._nodes, self._host), tuple(problems))

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
        found: list[ctypes.c_void_p] = []
        for socket in sockets:
            processors = self._library.handles("amdsmi_get_processor_handles", socket)
            found += [] if isinstance(processors, Failure) else filter(self._is_gpu, processors)
        return found

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

"""Drivers without hardware: a folder with recorded outputs of a machine's tools, or a simulated machine.

Recorded outputs are for demonstrations, tests and support cases. The files may have any names; the readers of all vendors
recognise them by their content. A simulated machine is one of a profile, with ids that belong to the node; the embedded
cluster derives the same ids from the same node name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.drivers.device_facts import simulated_reading
from linkwise.drivers.known_devices import KnownDevices
from linkwise.drivers.measured_bandwidth import with_reading
from linkwise.drivers.tool_outputs import read_outputs
from linkwise.errors import DriverError, InputError
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile
from linkwise.vendors.readers import recognised

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from linkwise.model.usage import UsageReading


__all__ = ["RecordedDriver", "SimulatedDriver"]

_LARGEST: Final = 8 * 1024 * 1024
"""bytes of a file that is read; the outputs of tools are far smaller"""
_COMMENT: Final = re.compile(r"#[^\n]*")


class RecordedDriver(Driver):
    """The machine that the files of a folder describe; they are read again by every discovery."""

    name = "recorded"

    def __init__(self, folder: Path, node: str) -> None:
        """Check that the folder has at least one output.

        Raises:
            InputError: the folder does not exist, or no file in it is the output of a known tool.
        """
        self._folder: Final = folder
        self._node: Final = node
        self._known: Final = KnownDevices()
        if not folder.is_dir():
            raise InputError(f"recorded: {folder} is not a folder; give the folder with the outputs of the tools")
        if not any(recognised(text) for text in self._texts().values()):
            raise InputError(f"recorded: {folder} has no output of a known tool; record `nvidia-smi topo -m` there")

    def discover(self) -> Discovery:
        """Read all files of the folder."""
        outputs = read_outputs(self._texts(), self._node)
        discovery = self._known.complete(outputs.discovery, outputs.unreadable)
        if outputs.bandwidth is None or not discovery.devices:
            return discovery
        return with_reading(discovery, outputs.bandwidth, outputs.bandwidth.kind)

    def usage(self) -> UsageReading:
        """The memory of the devices; what pods would use of it is made up."""
        return simulated_reading(read_outputs(self._texts(), self._node).discovery.devices)

    def _texts(self) -> dict[str, str]:
        try:
            files = [
                path for path in sorted(self._folder.iterdir()) if path.is_file() and not path.name.startswith(".")
            ]
            return {path.name: path.read_text("utf-8", "replace") for path in files if path.stat().st_size <= _LARGEST}
        except OSError as error:
            raise DriverError(f"recorded: {error.filename}: {error.strerror or error}") from error


class SimulatedDriver(Driver):
    """A machine by the name of its profile; devices listed in a file are unhealthy until they are removed from it."""

    name = "simulated"

    def __init__(self, machine: str, node: str, *, unhealthy: Collection[int] = (), file: Path | None = None) -> None:
        """Select the machine.

        `file` lists indices of unhealthy devices, separated by blanks, commas or newlines; `#` begins a comment. Every
        discovery reads it. While it does not exist, no device is listed.

        Raises:
            InputError: there is no profile of that name.
        """
        self._machine: Final = profile(machine)
        self._node: Final = node
        self._unhealthy: Final = frozenset(unhealthy)
        self._file: Final = file

    def discover(self) -> Discovery:
        """The devices of the profile."""
        machine = self._machine
        listed, problems = self._listed()
        devices = machine_devices(machine, self._node, unhealthy=self._unhealthy | listed)
        where = f"listed in {self._file}" if self._file else "simulated"
        return Discovery(
            machine.vendor,
            devices,
            replace(machine.topology, devices=tuple(device.id for device in devices)),
            {"model": machine.model},
            {
                device.id: f"device {device.index} is unhealthy: {where if device.index in listed else 'simulated'}"
                for device in devices
                if not device.healthy
            },
            problems,
        )

    def usage(self) -> UsageReading:
        """The memory of the devices; what pods would use of it is made up."""
        return simulated_reading(machine_devices(self._machine, self._node))

    def _listed(self) -> tuple[frozenset[int], tuple[str, ...]]:
        if self._file is None:
            return frozenset(), ()
        try:
            text = self._file.read_text("utf-8", "replace")
        except FileNotFoundError:
            return frozenset(), ()
        except OSError as error:
            return frozenset(), (f"{self._file}: {error.strerror or error}",)
        words = re.split(r"[,\s]+", _COMMENT.sub("", text).strip())
        indices = {int(word) for word in words if re.fullmatch("[0-9]{1,4}", word)}
        known = frozenset(index for index in indices if index < self._machine.devices)
        wrong = [word for word in words if word and not (re.fullmatch("[0-9]{1,4}", word) and int(word) in known)]
        problem = f"{self._file}: {', '.join(wrong[:4])}: expected indices from 0 to {self._machine.devices - 1}"
        return known, (problem,) * bool(wrong)

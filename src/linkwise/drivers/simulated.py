"""Driver for a simulated machine: the devices of a machine profile, with ids that belong to the node.

The embedded cluster derives the same ids from the same node name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.drivers.device_facts import simulated_reading
from linkwise.model.discovery import Discovery
from linkwise.model.driver import Driver
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from linkwise.model.usage import UsageReading

__all__ = ["SimulatedDriver"]

_COMMENT: Final = re.compile(r"#[^\n]*")


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

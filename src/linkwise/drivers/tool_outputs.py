"""Outputs of vendors' tools as one machine: the devices of all texts joined by number, with their links."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.drivers.device_facts import LONGEST_ID, common
from linkwise.drivers.host_files import HOST, pci_address
from linkwise.drivers.known_devices import KnownDevices, Unreadable
from linkwise.errors import DriverError
from linkwise.model.device import MIB, Device
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.link import SELF, UNKNOWN_LINK
from linkwise.model.topology import MAX_DEVICES, Topology
from linkwise.vendors.machine import device_id
from linkwise.vendors.readers import joined_facts, readings, vendor_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from linkwise.vendors.reader import DeviceFacts, Reading

__all__ = ["Answer", "Outputs", "ToolDriver", "read_outputs"]

_NUMBERED: Final = re.compile(r"(?:GPU|NPU|Phy-ID)([0-9]{1,4})")
_NUMA: Final = re.compile(r"[0-9]{1,4}")
_WORKING: Final = {"", "OK"}
_WORKS_STILL: Final = {"Warning"}


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the texts have in common."""

    discovery: Discovery
    """without measured bandwidth"""
    unreadable: tuple[Unreadable, ...] = ()
    """devices without a UUID where others have one: the tool could not read them"""
    bandwidth: Reading | None = None
    """the first matrix of GB/s"""


def read_outputs(texts: Mapping[str, str], node: str) -> Outputs:
    """The machine that the texts describe; each by the file or command that it came from.

    Devices get an id from the node's name and their number if no text has UUIDs.
    """
    every = [(source, reading) for source, text in texts.items() for reading in readings(text)]
    read = {source for source, _ in every}
    problems = [f"{source} is not the output of a known tool; it is ignored" for source in texts if source not in read]
    # The subject counts before the file: links name the devices of a machine, and lists add to them.
    every.sort(key=lambda each: (not each[1].links, not each[1].bandwidth))
    main = next((reading for _, reading in every if reading.devices and reading.status != "error"), None)
    vendor = vendor_of(main) if main else ""
    own: list[Reading] = []
    for source, reading in every:
        if main and vendor_of(reading) != vendor:
            problems.append(f"{source} lists devices of another vendor than {vendor}; it is ignored")
            continue
        problems += [f"{source}: {problem}" for problem in reading.problems]
        own.append(reading)
    if main is None:
        return Outputs(Discovery("", problems=tuple(dict.fromkeys(problems))))
    return _joined(vendor, node, own, problems)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool printed, and its exit code."""

    code: int
    text: str
    """both streams: tools write messages about single devices between the rows"""

    @property
    def message(self) -> str:
        """Its first line, for a person."""
        lines = (line.strip() for line in self.text.splitlines())
        return next((line[:200] for line in lines if line), "no output")


class ToolDriver(Driver):
    """A driver that runs the tool of a vendor; nothing is run before the first discovery."""

    installed: ClassVar[tuple[str, ...]] = ()
    """where the tool is installed, besides PATH"""
    hangs: ClassVar[str]
    """what to check if it does not end"""
    missing: ClassVar[str]
    """what to do if it can't be run"""

    def __init__(self, tool: str = "", *, node: str = "", timeout: float = 30, host: Path = HOST) -> None:
        """Select the tool; `tool` is its path if it is not in PATH."""
        installed = (str(file) for path in self.installed if (file := host / path).exists())
        self._tool: Final = tool or next(installed, self.name)
        self._node: Final = node
        self._timeout: Final = timeout  # seconds
        self._host: Final = host
        self._known: Final = KnownDevices()

    def _run(self, *arguments: str) -> Answer:
        command = " ".join((self._tool, *arguments))
        try:
            done = subprocess.run(  # noqa: S603 - the tool that the administrator chose
                [self._tool, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C"},
                timeout=self._timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DriverError(
                f"{self.name}: `{command}` did not end within {self._timeout:g} s; {self.hangs}"
            ) from error
        except OSError as error:
            reason = error.strerror or error
            raise DriverError(f"{self.name}: {self._tool} can't be run ({reason}); {self.missing}") from error
        return Answer(done.returncode, done.stdout.decode("utf-8", "replace"))

    def _failure(self, answer: Answer, *arguments: str) -> str:
        """The sentence about a command that failed."""
        return f"{' '.join((self.name, *arguments))} failed with exit code {answer.code}: {answer.message}"

    def _add(self, texts: dict[str, str], problems: list[str], *arguments: str) -> None:
        """Run a command that adds to the texts by command, or else to the problems."""
        try:
            answer = self._run(*arguments)
        except DriverError as error:
            problems.append(str(error))
            return
        if answer.code:
            problems.append(self._failure(answer, *arguments))
        else:
            texts[" ".join((self.name, *arguments))] = answer.text


def _joined(vendor: str, node: str, own: Sequence[Reading], problems: list[str]) -> Outputs:
    names = tuple(dict.fromkeys(name for reading in own for name in _names(reading)))
    buses = {
        pci_address(facts.bus_id): facts.name
        for reading in own
        for facts in reading.facts
        if facts.bus_id != facts.name
    }
    numbers = _numbers(names, buses)
    if len(set(numbers.values())) > MAX_DEVICES:
        problems.append(f"{len(set(numbers.values()))} devices are listed; the first {MAX_DEVICES} are used")
        numbers = {name: number for name, number in numbers.items() if number < MAX_DEVICES}
    by_number = {
        int(facts.name): facts
        for facts in joined_facts(
            replace(facts, name=str(numbers[facts.name]))
            for reading in own
            for facts in reading.facts
            if facts.name in numbers
        )
    }
    divided = {numbers[name] for reading in own for name in numbers if f"{name} is in MIG mode" in reading.warnings}
    identified = any(facts.uuid for facts in by_number.values())
    devices: dict[int, Device] = {}
    faults: dict[str, str] = {}
    unreadable: list[Unreadable] = []
    for number in sorted(set(numbers.values())):
        facts = by_number.get(number)
        id_ = (facts.uuid if facts else "") if identified else device_id(vendor, node, number)
        if wrong := _wrong_id(id_, {device.id for device in devices.values()}):
            unreadable.append(Unreadable(number, wrong, facts.bus_id if facts else ""))
            continue
        healthy, fault = _health(facts, divided=number in divided)
        devices[number] = _device(id_, number, facts, healthy=healthy)
        if fault:
            faults[id_] = f"device {number} {fault}"
    known = list(devices.values())
    discovery = Discovery(
        vendor if known else "",
        tuple(known),
        _topology(own, numbers, devices),
        _facts(list(by_number.values()), divided, identified=identified),
        faults,
        tuple(dict.fromkeys(problems)),
    )
    return Outputs(discovery, tuple(unreadable), next((reading for reading in own if reading.bandwidth), None))


def _names(reading: Reading) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*reading.devices, *(facts.name for facts in reading.facts))))


def _numbers(names: Sequence[str], buses: Mapping[str, str]) -> dict[str, int]:
    """The number of each device: the one in its name, or its place where a name has none.

    A device that one tool names by bus id has the number of the device that others list at it.
    """
    matches = {
        name: _NUMBERED.fullmatch(buses.get(pci_address(name), name) if pci_address(name) else name) for name in names
    }
    if all(matches.values()):
        return {name: int(match[1]) for name, match in matches.items() if match}
    return {name: place for place, name in enumerate(names)}


def _wrong_id(id_: str, earlier: set[str]) -> str:
    if not id_:
        return "the tool reports no UUID for it"
    if len(id_) > LONGEST_ID or not id_.isprintable() or id_.startswith("#"):
        return f"its UUID {id_[:80]!r} is invalid"
    return f"it has the UUID of another device, {id_}" if id_ in earlier else ""


def _health(facts: DeviceFacts | None, *, divided: bool) -> tuple[bool, str]:
    """Whether it can be allocated, and what is wrong with it."""
    if divided or (facts and facts.parts):
        return False, "is unhealthy: it is in MIG mode, and MIG devices are left to NVIDIA's device plugin"
    health = facts.health if facts else ""
    if health in _WORKING:
        return True, ""
    if health in _WORKS_STILL:
        return True, f"works, but its health is {health}"
    return False, f"is unhealthy: its health is {health}"


def _device(id_: str, number: int, facts: DeviceFacts | None, *, healthy: bool) -> Device:
    if facts is None:
        return Device(id_, number, healthy=healthy)
    numa = int(facts.numa) if facts.numa and _NUMA.fullmatch(facts.numa) else None
    memory = facts.memory or 0
    return Device(
        id_,
        number,
        numa=numa,
        bus_id=facts.bus_id,
        model="".join(letter for letter in facts.model if letter.isprintable()),
        memory=memory,
        healthy=healthy,
        bytes=memory * MIB,
        nics=facts.nics,
    )


def _topology(own: Sequence[Reading], numbers: Mapping[str, int], devices: Mapping[int, Device]) -> Topology | None:
    """The first link matrix, with a row for every device."""
    linked = next((reading for reading in own if reading.links), None)
    ids = tuple(device.id for device in devices.values())
    if linked is None or not ids:
        return Topology(ids) if ids else None
    places = {numbers[name]: place for place, name in enumerate(linked.devices) if name in numbers}
    rows = tuple(
        tuple(
            SELF if a == b else linked.links[places[a]][places[b]] if a in places and b in places else UNKNOWN_LINK
            for b in devices
        )
        for a in devices
    )
    order = {number: place for place, number in enumerate(devices)}
    number_at = {place: number for number, place in places.items()}
    rings = (tuple(order[number_at[old]] for old in ring if number_at.get(old) in order) for ring in linked.rings)
    return Topology(ids, rows, rings=tuple(ring for ring in rings if ring), warnings=linked.warnings)


def _facts(every: Sequence[DeviceFacts], divided: set[int], *, identified: bool) -> dict[str, str]:
    read = [facts for facts in every if facts.uuid or not identified]
    mig = {str(int(facts.name) in divided or bool(facts.parts)) for facts in read}
    facts = {
        "driver": common(facts.driver for facts in read),
        "model": common(facts.model for facts in read),
        "mig": "" if "True" not in mig else "mixed" if len(mig) > 1 else "enabled",
    }
    return {name: value for name, value in facts.items() if value}

"""Facts of devices, as all drivers report them: what can't be read of one device is a fault of that device alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from linkwise.drivers.known_devices import Unreadable
from linkwise.model.device import MIB
from linkwise.model.usage import DeviceUsage, UsageReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.model.device import Device

__all__ = [
    "LONGEST_ID",
    "MOST_MEMORY",
    "MOST_NUMBERS",
    "DeviceFacts",
    "Failure",
    "common",
    "distinct",
    "is_valid_id",
    "simulated_reading",
    "with_differing",
]

T = TypeVar("T")

LONGEST_ID: Final = 63
"""characters of a device id that kubelet accepts"""
MOST_MEMORY: Final = 1 << 50
"""bytes; more is an error code in place of a size"""
MOST_NUMBERS: Final = 1 << 20
"""of NUMA nodes and minor numbers; more is an error code"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A call of a library that returned an error."""

    code: int
    text: str
    dead: bool = False
    """whether the device can't be used, beyond the value that was asked for"""
    unsupported: bool = False
    """whether this hardware or driver does not have the value: nothing is wrong"""

    def __str__(self) -> str:
        return self.text


class DeviceFacts:
    """Facts of one device while they are read: failures become faults."""

    def __init__(self, library: str, index: int) -> None:
        self.library: Final = library
        """its name in sentences"""
        self.index: Final = index
        self.healthy = True
        self.faults: list[str] = []

    def take(self, what: str, value: T | Failure) -> T | None:
        """The value, or None."""
        if not isinstance(value, Failure):
            return value
        if value.dead:
            self.kill(f"{self.library} can't read its {what} ({value})")
        elif not value.unsupported:
            self.note(f"its {what} is unknown ({value})")
        return None

    def kill(self, why: str) -> None:
        """Make the device unhealthy; the first reason is enough."""
        if self.healthy:
            self.faults.insert(0, f"device {self.index} is unhealthy: {why}")
        self.healthy = False

    def note(self, what: str) -> None:
        """Add a fault with which the device works."""
        self.faults.append(f"device {self.index}: {what}")

    def memory(self, total: int | Failure) -> int:
        """The bytes of memory, or 0."""
        size = self.take("memory", total) or 0
        if size > MOST_MEMORY:
            self.note(f"its memory is unknown ({size} bytes are reported)")
            return 0
        return size

    def numa(self, known: int | None, read: Callable[[], int | Failure]) -> int | None:
        """The NUMA node: the one that the kernel knows, or the one that the library reads."""
        node = self.take("NUMA node", read()) if known is None else known
        return node if node is not None and 0 <= node < MOST_NUMBERS else None


class _Read(Protocol):
    @property
    def device(self) -> Device: ...


R = TypeVar("R", bound=_Read)


def distinct(read: Iterable[R | Unreadable], problems: list[str]) -> tuple[list[R], list[Unreadable]]:
    """The devices that were read, each id once, and those that can't be identified."""
    by_id: dict[str, R] = {}
    unreadable: list[Unreadable] = []
    for one in read:
        if isinstance(one, Unreadable):
            unreadable.append(one)
        elif one.device.id in by_id:
            first = by_id[one.device.id].device
            problems.append(
                f"device {one.device.index} is left out: it has the UUID of device {first.index}, {first.id}"
            )
        else:
            by_id[one.device.id] = one
    return list(by_id.values()), unreadable


def is_valid_id(id_: str) -> bool:
    """Whether a device can have this id in kubelet and in annotations."""
    return bool(id_.strip()) and len(id_) <= LONGEST_ID and id_.isprintable() and not id_.startswith("#")


def with_differing(devices: Sequence[Device], facts: Mapping[str, Sequence[str]]) -> tuple[Device, ...]:
    """The devices with those facts, by name, in which they differ; `facts` are in the order of the devices."""
    differing = {name: values for name, values in facts.items() if len({*values} - {""}) > 1}
    if not differing:
        return tuple(devices)
    return tuple(
        replace(device, facts=tuple((name, values[place]) for name, values in differing.items() if values[place]))
        for place, device in enumerate(devices)
    )


def common(values: Iterable[str]) -> str:
    """The value that every device with this fact has; empty if they differ."""
    known = {value for value in values if value}
    return known.pop() if len(known) == 1 else ""


def simulated_reading(devices: Iterable[Device]) -> UsageReading:
    """Usage of devices that are not real: their memory, which is in MiB."""
    return UsageReading(tuple(DeviceUsage(one.id, one.memory * MIB) for one in devices), simulated=True)

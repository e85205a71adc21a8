"""Driver: how the devices of this machine are read, whatever the source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.model.discovery import Discovery

__all__ = ["LONGEST_ID", "Driver", "EventDriver", "common", "wait_for_faults", "with_differing"]

LONGEST_ID: Final = 63
"""characters of a device id that kubelet accepts"""


class Driver(Protocol):
    """A source of devices: a library, a tool, recorded outputs or a simulation.

    The agent calls `discover` at start and then once per interval, in a worker thread. Drivers that know what their
    devices do also have a method `usage`, which returns a UsageReading; it is never called while `discover` runs. No other
    call touches the hardware.
    """

    name: str
    """as users select it: nvml, nvidia-smi"""

    def discover(self) -> Discovery:
        """The devices as they are now; blocks.

        What can't be read of one device is a fault of that device, not an exception.

        Raises:
            DriverError: nothing of the machine can be read.
        """
        ...

    def close(self) -> None:
        """Release the source; calling it again does nothing."""
        ...


@runtime_checkable
class EventDriver(Protocol):
    """A driver that is notified of faults, so that a device that fails is noticed at once."""

    def wait(self, seconds: float) -> Mapping[str, str] | None:
        """Wait for faults, at most that long: sentences by device id; None if there are no notifications now.

        The next discovery has them as well. A fault of an unknown device has an empty id.
        """
        ...


def wait_for_faults(driver: object, seconds: float) -> Mapping[str, str] | None:
    """Wait for faults of any driver; None at once if it is not notified of them."""
    return driver.wait(seconds) if isinstance(driver, EventDriver) else None


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

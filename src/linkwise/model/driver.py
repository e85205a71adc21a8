"""Driver: how the devices of this machine are read, whatever the source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from linkwise.model.usage import UsageReading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.inventory import Discovery

__all__ = ["Driver", "WrappedDriver"]


class Driver(ABC):
    """A source of devices: a library, a tool, recorded outputs or a simulation.

    The agent calls `discover` at start and then once per interval, in a worker thread, and never together with `usage`. No
    other call touches the hardware.
    """

    name: str
    """as users select it: nvml, nvidia-smi"""

    @abstractmethod
    def discover(self) -> Discovery:
        """The devices as they are now; blocks.

        What can't be read of one device is a fault of that device, not an exception.

        Raises:
            DriverError: nothing of the machine can be read.
        """

    def usage(self) -> UsageReading:
        """What the devices do; a problem if the driver does not report it. Blocks.

        Raises:
            DriverError: nothing can be read.
        """
        return UsageReading(problems=(f"the driver {self.name} does not report usage",))

    def wait(self, seconds: float) -> Mapping[str, str] | None:  # noqa: ARG002 - for drivers that are notified
        """Wait for faults, at most that long: sentences by device id; None if there are no notifications now.

        The next discovery has them as well. A fault of an unknown device has an empty id.
        """
        return None

    def close(self) -> None:
        """Release the source; calling it again does nothing. Most hold nothing open."""
        return


class WrappedDriver(Driver):
    """Another driver, which subclasses add something to."""

    def __init__(self, driver: Driver) -> None:
        self.name = driver.name
        """that of the other driver, which may change when it finds the hardware"""
        self._driver: Final = driver

    def discover(self) -> Discovery:
        """The devices of the other driver."""
        discovery = self._driver.discover()
        self.name = self._driver.name
        return discovery

    def usage(self) -> UsageReading:
        """The usage as the other driver reads it."""
        return self._driver.usage()

    def wait(self, seconds: float) -> Mapping[str, str] | None:
        """Wait for faults of the other driver."""
        return self._driver.wait(seconds)

    def close(self) -> None:
        """Close the other driver."""
        self._driver.close()

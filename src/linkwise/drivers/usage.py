"""Usage by a driver: read from those that have the method, and made up for machines that are not real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from linkwise.model.usage import DeviceUsage, UsageReading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.drivers.driver import Driver
    from linkwise.model.device import Device

__all__ = ["simulated_reading", "usage_of"]

_MIB: Final = 1 << 20


@runtime_checkable
class _WithUsage(Protocol):
    def usage(self) -> UsageReading: ...


def usage_of(driver: Driver) -> UsageReading:
    """The usage that a driver reads; a problem if it has no method for it.

    Raises:
        DriverError: nothing can be read.
    """
    if isinstance(driver, _WithUsage):
        return driver.usage()
    return UsageReading(problems=(f"the driver {driver.name} does not report usage",))


def simulated_reading(devices: Iterable[Device]) -> UsageReading:
    """Devices that are not real, with their memory, which is in MiB."""
    return UsageReading(tuple(DeviceUsage(one.id, one.memory * _MIB) for one in devices), simulated=True)

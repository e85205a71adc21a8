"""Facts of devices, as all drivers report them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.model.usage import DeviceUsage, UsageReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.device import Device

__all__ = ["LONGEST_ID", "common", "simulated_reading", "with_differing"]

_MIB: Final = 1 << 20

LONGEST_ID: Final = 63
"""characters of a device id that kubelet accepts"""


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
    return UsageReading(tuple(DeviceUsage(one.id, one.memory * _MIB) for one in devices), simulated=True)

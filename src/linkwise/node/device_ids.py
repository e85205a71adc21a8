"""Device ids as the kubelet counts them: one per device, or one per unit of its memory.

Source: seed 004 and its device plugin, whose ids are the UUID, a separator and a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.device import Device

__all__ = ["LONGEST_ID", "by_device", "device_of", "id_problem", "share_ids", "units_of"]

SEPARATOR: Final = "-_-"
SLICES: Final = "::"
LONGEST_ID: Final = 63  # characters of an id that the kubelet accepts
MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""the largest message that the kubelet receives"""
_BYTES_BESIDE_ID: Final = 22
"""the most bytes of a listed device besides its id: health, NUMA node, tags and lengths"""


def share_ids(device: Device) -> list[str]:
    """An id per unit of the device's memory."""
    # rule 004.report: the node's total is the number of ids, from the memory that the hardware reports.
    return [f"{device.id}{SEPARATOR}{number}" for number in range(device.memory)]


def device_of(identifier: str) -> str:
    """The device that an id belongs to; NVIDIA's plugin numbers the time slices of a device."""
    return identifier.partition(SEPARATOR)[0].partition(SLICES)[0]


def by_device(ids: Iterable[str]) -> dict[str, list[str]]:
    """Ids of each device."""
    found: dict[str, list[str]] = {}
    for identifier in ids:
        found.setdefault(device_of(identifier), []).append(identifier)
    return found


def units_of(device: str, ids: Iterable[str]) -> list[str]:
    """Ids of one device's units, in the order of their numbers."""
    start = f"{device}{SEPARATOR}"
    return sorted((identifier for identifier in ids if identifier.startswith(start)), key=_number)


def id_problem(devices: Iterable[Device], unit: str) -> str:
    """Why the kubelet can't be served an id per unit of memory, and what to set; empty if it can."""
    # rule 004.units: the unit is never changed silently, because pods request amounts of it.
    size = 0
    for device in devices:
        if not device.memory:
            continue
        longest = f"{device.id}{SEPARATOR}{device.memory - 1}"
        if len(longest) > LONGEST_ID:
            return (
                f"device {device.id}: ids such as {longest} are longer than the {LONGEST_ID} characters of the kubelet"
            )
        size += device.memory * (len(longest.encode()) + _BYTES_BESIDE_ID)
    if size <= MESSAGE_BYTES:
        return ""
    total = sum(device.memory for device in devices)
    return (
        f"{total} units of {unit} do not fit into one message to the kubelet ({MESSAGE_BYTES // 2**20} MiB): "
        "set agent.memory_unit to GiB for the cluster"
    )


def _number(identifier: str) -> int:
    number = identifier.rpartition(SEPARATOR)[2]
    return int(number) if number.isdecimal() else 0

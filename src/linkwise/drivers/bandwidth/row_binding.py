"""Row binding: the device that each row of a bandwidth test is of.

A row belongs to a device by its bus id if the test prints it; otherwise by the order of CUDA, which is that of the bus
ids if all devices are of one model. CUDA numbers other devices by their speed, so there the order has to be named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.drivers.host_files import pci_address
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.device import Device
    from linkwise.vendors.reader import Reading

__all__ = ["bound_rows", "named_devices"]


def bound_rows(devices: Sequence[Device], reading: Reading, named: Sequence[str] = ()) -> tuple[Device, ...]:
    """The device of each row, in the order of the rows; some devices may have none.

    `named` lists the devices in the order of the rows, by UUID or index.

    Raises:
        InputError: the rows are of other devices, or it is not certain which device a row is of.
    """
    buses = {facts.name: pci_address(facts.bus_id) for facts in reading.facts}
    printed = [buses.get(name, "") for name in reading.devices]
    if named:
        rows = named_devices(devices, named)
        if len(rows) != len(printed):
            raise InputError(f"it has {len(printed)} rows, but {len(rows)} devices are named")
        _check_buses(rows, printed)
    elif all(printed) and all(pci_address(device.bus_id) for device in devices):
        rows = _by_bus(devices, printed)
    else:
        rows = _in_order(devices, len(printed))
    _check_models(rows, reading)
    return rows


def named_devices(devices: Sequence[Device], names: Sequence[str]) -> tuple[Device, ...]:
    """The devices of these UUIDs or indices; InputError if one is unknown or named twice."""
    known = {str(device.index): device for device in devices} | {device.id: device for device in devices}
    unknown = [name for name in names if name not in known]
    if unknown:
        indices = ", ".join(str(device.index) for device in devices) or "none"
        raise InputError(f"unknown device {unknown[0][:64]!r}; this node has the devices {indices}")
    rows = tuple(known[name] for name in names)
    twice = [device for place, device in enumerate(rows) if device in rows[:place]]
    if twice:
        raise InputError(f"device {twice[0].index} is named twice")
    return rows


def _by_bus(devices: Sequence[Device], printed: Sequence[str]) -> tuple[Device, ...]:
    by_bus = {pci_address(device.bus_id): device for device in devices}
    strange = [bus for bus in printed if bus not in by_bus]
    if strange:
        raise InputError(f"it has a row for {strange[0]}, where this node has no device")
    if len(set(printed)) < len(printed):
        raise InputError("two of its rows are of the same bus id")
    return tuple(by_bus[bus] for bus in printed)


def _in_order(devices: Sequence[Device], rows: int) -> tuple[Device, ...]:
    if rows != len(devices):
        raise InputError(f"it has {rows} rows for {len(devices)} devices")
    models = {device.model for device in devices}
    if len(models) > 1:
        raise InputError(
            f"its rows have no bus ids, and CUDA orders devices of different models ({', '.join(sorted(models))}) by speed"
        )
    addresses = [pci_address(device.bus_id) for device in devices]
    if not all(addresses):
        return tuple(sorted(devices, key=lambda device: device.index))
    return tuple(device for _, device in sorted(zip(addresses, devices, strict=True), key=lambda pair: pair[0]))


def _check_buses(rows: Sequence[Device], printed: Sequence[str]) -> None:
    for number, (device, bus) in enumerate(zip(rows, printed, strict=True)):
        own = pci_address(device.bus_id)
        if own and bus and own != bus:
            raise InputError(f"row {number} is of the device at {bus}, but the named device {device.index} is at {own}")


def _check_models(rows: Sequence[Device], reading: Reading) -> None:
    models = {facts.name: facts.model for facts in reading.facts}
    for device, name in zip(rows, reading.devices, strict=True):
        printed = models.get(name, "")
        if device.model and printed and _plain(device.model) != _plain(printed):
            raise InputError(f"row {name} is of a {printed}, but device {device.index} is a {device.model}")


def _plain(model: str) -> str:
    """The model without the vendor's name, which some versions of the driver leave out."""
    return " ".join(model.lower().removeprefix("nvidia").split())

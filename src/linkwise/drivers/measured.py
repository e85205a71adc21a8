"""Measured bandwidth: GB/s between devices, from the output of a bandwidth test, added to a discovery.

Rows belong to devices by bus id if the test prints it, otherwise by index: CUDA may number devices in another order
than the driver does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.drivers.driver import wait_for_faults
from linkwise.drivers.host_files import pci_address
from linkwise.errors import LinkwiseError
from linkwise.model.topology import Topology
from linkwise.vendors.readers import readings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from linkwise.drivers.driver import Driver
    from linkwise.model.device import Device
    from linkwise.model.discovery import Discovery
    from linkwise.vendors.reader import Reading

__all__ = ["MeasuredDriver", "with_bandwidth", "with_reading"]


class MeasuredDriver:
    """Another driver, with the bandwidth that a file holds; what is wrong with the file is a problem, not an error."""

    def __init__(self, driver: Driver, file: Path) -> None:
        self.name = driver.name
        """that of the other driver"""
        self._driver: Final = driver
        self._file: Final = file

    def discover(self) -> Discovery:
        """Discover the devices and read the file again."""
        found = self._driver.discover()
        self.name = self._driver.name
        if not found.devices:
            return found
        try:
            text = self._file.read_text("utf-8", "replace")
        except OSError as error:
            return _unmeasured(found, f"bandwidth file {self._file}: {error.strerror or error}")
        return with_bandwidth(found, text, str(self._file))

    def wait(self, seconds: float) -> Mapping[str, str] | None:
        """Wait for faults of the other driver."""
        return wait_for_faults(self._driver, seconds)

    def close(self) -> None:
        """Close the other driver."""
        self._driver.close()


def with_bandwidth(found: Discovery, text: str, source: str) -> Discovery:
    """The discovery with the bandwidth of a tool's output."""
    reading = next((reading for reading in readings(text) if reading.bandwidth), None)
    if reading is None:
        return _unmeasured(found, f"{source} has no complete matrix of bandwidth between devices")
    return with_reading(found, reading, source)


def with_reading(found: Discovery, reading: Reading, source: str) -> Discovery:
    """The discovery with the bandwidth of a reading; suspect samples are kept, because topologies clean them."""
    order = _rows(found.devices, reading)
    if reading.problems or order is None:
        why = reading.problems[0] if reading.problems else _mismatch(found.devices, reading)
        return _unmeasured(found, f"{source}: {why}; measured bandwidth is not used")
    ids = tuple(device.id for device in found.devices)
    matrix = tuple(tuple(reading.bandwidth[a][b] for b in order) for a in order)
    try:
        topology = replace(found.topology or Topology(ids), bandwidth=matrix)
    except LinkwiseError as error:
        return _unmeasured(found, f"{source}: {error}; measured bandwidth is not used")
    return replace(found, topology=topology)


def _rows(devices: Sequence[Device], reading: Reading) -> list[int] | None:
    """The row of each device; None if there is not exactly one for each."""
    if len(reading.devices) != len(devices):
        return None
    buses = {facts.name: pci_address(facts.bus_id) for facts in reading.facts}
    by_bus = {buses.get(name, ""): row for row, name in enumerate(reading.devices)}
    order = [by_bus.get(pci_address(device.bus_id)) for device in devices] if "" not in by_bus else []
    if not order or not all(pci_address(device.bus_id) for device in devices):
        by_name = {name: row for row, name in enumerate(reading.devices)}
        order = [by_name.get(f"GPU{device.index}") for device in devices]
    rows = [row for row in order if row is not None]
    return rows if len(set(rows)) == len(devices) else None


def _mismatch(devices: Sequence[Device], reading: Reading) -> str:
    if len(reading.devices) != len(devices):
        return f"it has {len(reading.devices)} rows for {len(devices)} devices"
    return "its rows are of other devices than those of this machine"


def _unmeasured(found: Discovery, problem: str) -> Discovery:
    return replace(found, problems=(*found.problems, problem))

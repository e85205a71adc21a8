"""Measured bandwidth: GB/s between devices, from the output of a bandwidth test, added to a discovery."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.drivers.bandwidth.row_binding import bound_rows
from linkwise.errors import InputError, LinkwiseError
from linkwise.model.driver import WrappedDriver
from linkwise.model.topology import Topology
from linkwise.vendors.readers import readings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from linkwise.model.device import Device
    from linkwise.model.discovery import Discovery
    from linkwise.model.driver import Driver
    from linkwise.vendors.reader import Reading

__all__ = ["MeasuredDriver", "with_bandwidth", "with_reading"]


class MeasuredDriver(WrappedDriver):
    """Another driver, with the bandwidth that a file holds; what is wrong with the file is a problem, not an error."""

    def __init__(self, driver: Driver, file: Path) -> None:
        super().__init__(driver)
        self._file: Final = file

    def discover(self) -> Discovery:
        """Discover the devices and read the file again."""
        found = super().discover()
        if not found.devices:
            return found
        try:
            text = self._file.read_text("utf-8", "replace")
        except OSError as error:
            return _unmeasured(found, f"bandwidth file {self._file}: {error.strerror or error}")
        return with_bandwidth(found, text, str(self._file))


def with_bandwidth(found: Discovery, text: str, source: str) -> Discovery:
    """The discovery with the bandwidth of a tool's output."""
    reading = next((reading for reading in readings(text) if reading.bandwidth), None)
    if reading is None:
        return _unmeasured(found, f"{source} has no complete matrix of bandwidth between devices")
    return with_reading(found, reading, source)


def with_reading(found: Discovery, reading: Reading, source: str) -> Discovery:
    """The discovery with the bandwidth of a reading; suspect samples are kept, because topologies clean them."""
    ids = tuple(device.id for device in found.devices)
    try:
        rows = [device.id for device in _complete_rows(found.devices, reading)]
        order = [rows.index(id_) for id_ in ids]
        matrix = tuple(tuple(reading.bandwidth[a][b] for b in order) for a in order)
        topology = replace(found.topology or Topology(ids), bandwidth=matrix)
    except LinkwiseError as error:
        return _unmeasured(found, f"{source}: {error}; measured bandwidth is not used")
    return replace(found, topology=topology)


def _complete_rows(devices: Sequence[Device], reading: Reading) -> tuple[Device, ...]:
    if reading.problems:
        raise InputError(reading.problems[0])
    if len(reading.devices) != len(devices):
        raise InputError(f"it has {len(reading.devices)} rows for {len(devices)} devices")
    return bound_rows(devices, reading)


def _unmeasured(found: Discovery, problem: str) -> Discovery:
    return replace(found, problems=(*found.problems, problem))

"""Measurement of a node's bandwidth: imports the output of a test, or runs it on idle devices that the agent holds."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.agent.holds import hold_devices, hold_socket, idle_devices, measuring_lock
from linkwise.agent.measured_driver import bandwidth_file, read_measurements, state_folder
from linkwise.drivers.detect import open_driver
from linkwise.drivers.measured_bandwidth import bound_rows, find_test, named_devices, run_test
from linkwise.errors import InputError
from linkwise.model.inventory import Measurement
from linkwise.model.topology import Topology, whole_matrix
from linkwise.node.measured_bandwidth import with_measurement
from linkwise.topology.canonical import clean_samples
from linkwise.vendors.readers import readings
from linkwise.wire.measurement import HoldRequest, encode_measurements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from linkwise.config.settings import AgentSettings
    from linkwise.drivers.measured_bandwidth import BandwidthTest
    from linkwise.model.inventory import Discovery
    from linkwise.vendors.reader import Reading

__all__ = ["Measured", "Planned", "import_output", "planned_run", "run_measurement"]

REASON: Final = "bandwidth measurement"
LEAST: Final = 2
"""devices of a measurement"""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement, and where it is kept."""

    measurement: Measurement
    topology: Topology
    """of the measured devices"""
    indices: tuple[int, ...]
    file: Path
    stored: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """A run that would be made."""

    command: BandwidthTest
    devices: tuple[str, ...]


def import_output(
    settings: AgentSettings, text: str, source: str, named: Sequence[str], *, dry_run: bool = False
) -> Measured:
    """Keep the bandwidth of a test's output; `named` lists the devices of its rows if it has no bus ids."""
    discovery = _discovered(settings)
    measurement = _measurement(discovery, text, source, named)
    if not dry_run:
        with _locked(settings):
            _store(settings, measurement)
    return _measured(settings, discovery, measurement, stored=not dry_run)


def planned_run(settings: AgentSettings, tool: str, named: Sequence[str], limit: float) -> Planned:
    """The run that `run_measurement` would make now."""
    command, discovery = find_test(tool), _discovered(settings)
    request = HoldRequest(limit, REASON, _ids(discovery, named))
    return Planned(command, idle_devices(hold_socket(state_folder(settings.kubelet)), request))


def run_measurement(
    settings: AgentSettings, tool: str, named: Sequence[str], limit: float, progress: Callable[[str], None]
) -> Measured:
    """Run a test on idle devices that the agent holds meanwhile, and keep the result."""
    command, discovery = find_test(tool), _discovered(settings)
    request = HoldRequest(limit, REASON, _ids(discovery, named))
    with (
        _locked(settings) as lock,
        hold_devices(hold_socket(state_folder(settings.kubelet)), request, progress) as hold,
    ):
        indices = {device.id: device.index for device in discovery.devices}
        progress(f"measuring devices {', '.join(str(indices.get(one, one)) for one in hold.devices)} with {command}")
        text = run_test(
            command,
            hold.devices,
            timeout=limit,
            interruption=hold,
            inherited=(lock,),
            progress=lambda seconds, line: progress(f"{seconds:.0f} s: {line}"),
        )
        measurement = _measurement(discovery, text, str(command), hold.devices)
        _store(settings, measurement)
    return _measured(settings, discovery, measurement, stored=True)


def _discovered(settings: AgentSettings) -> Discovery:
    node = settings.node or socket.gethostname().lower()
    driver = open_driver(settings.driver, source=settings.source, node=node, host_root=settings.host_root)
    try:
        discovery = driver.discover()
    finally:
        driver.close()
    if not discovery.devices:
        raise InputError(f"this node has no devices: {'; '.join(discovery.problems) or 'the driver found none'}")
    if discovery.vendor != "nvidia":
        raise InputError(f"the devices of this node are of {discovery.vendor}; the tests measure NVIDIA GPUs only")
    return discovery


def _ids(discovery: Discovery, named: Sequence[str]) -> list[str]:
    return [device.id for device in named_devices(discovery.devices, named)]


def _measurement(discovery: Discovery, text: str, source: str, named: Sequence[str]) -> Measurement:
    reading = _reading(text, source)
    try:
        rows = bound_rows(discovery.devices, reading, named)
        order = sorted(range(len(rows)), key=lambda row: rows[row].index)
        cells = [[0.0 if a == b else reading.bandwidth[a][b] for b in order] for a in order]
        matrix = whole_matrix(cells, "bandwidth")
    except InputError as error:
        hint = "" if named else "; name the devices in the order of the rows with --devices if they are of this node"
        raise InputError(f"{source}: {error}{hint}") from error
    # rule 001.suspect: bad samples are kept as measured, and flagged.
    suspects = clean_samples(matrix).suspects
    ids = tuple(rows[row].id for row in order)
    return Measurement(reading.kind, float(int(time.time())), ids, matrix, suspects, reading.warnings)


def _reading(text: str, source: str) -> Reading:
    all_readings = list(readings(text))
    reading = next((each for each in all_readings if each.bandwidth), None)
    if reading is None:
        why = next((problem for each in all_readings for problem in each.problems), "")
        raise InputError(
            f"{source}: {why or 'it is not the output of p2pBandwidthLatencyTest or nvbandwidth'}; nothing was imported"
        )
    if reading.problems:
        raise InputError(f"{source}: {'; '.join(reading.problems)}; nothing was imported")
    if len(reading.devices) < LEAST:
        raise InputError(f"{source}: it has a single row, and bandwidth is measured between devices")
    return reading


def _measured(settings: AgentSettings, discovery: Discovery, measurement: Measurement, *, stored: bool) -> Measured:
    indices = {device.id: device.index for device in discovery.devices}
    topology = Topology(measurement.devices, bandwidth=measurement.bandwidth, warnings=measurement.warnings)
    if discovery.topology and discovery.topology.links:
        places = [discovery.topology.devices.index(id_) for id_ in measurement.devices]
        topology = replace(topology, links=tuple(tuple(discovery.topology.links[a][b] for b in places) for a in places))
    file = bandwidth_file(settings.kubelet)
    return Measured(measurement, topology, tuple(indices[one] for one in measurement.devices), file, stored)


@contextmanager
def _locked(settings: AgentSettings) -> Iterator[int]:
    """The lock of measurements on this node; a test that inherits the descriptor keeps it until its last process ends."""
    folder = state_folder(settings.kubelet)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(measuring_lock(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"{folder} can't be written: {error.strerror}; run as root, or set --kubelet") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise InputError(f"another measurement runs on this node ({measuring_lock(folder)} is locked)") from error
    try:
        yield lock
    finally:
        os.close(lock)


def _store(settings: AgentSettings, measurement: Measurement) -> None:
    """Add a measurement to the state file, which is replaced as a whole: readers see the old or the new one."""
    file = bandwidth_file(settings.kubelet)
    try:
        known = read_measurements(file)
    except InputError:
        known = ()  # the agent reports such a file; the new one replaces it
    content = encode_measurements(with_measurement(known, measurement))
    partial = file.with_suffix(".partial")
    try:
        with partial.open("wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        partial.replace(file)
    except OSError as error:
        raise InputError(f"{file} can't be written: {error.strerror or error}") from error

"""Measured bandwidth: GB/s between devices, from a bandwidth test that is run here or its output, added to a discovery.

A row belongs to a device by its bus id if the test prints it; otherwise by the order of CUDA, which is that of the bus
ids if all devices are of one model. CUDA numbers other devices by their speed, so there the order has to be named.

The test, nvbandwidth or p2pBandwidthLatencyTest, is the leader of a process group, which is killed as a whole: at the time
limit, when the run is interrupted, and after it has ended. The kernel kills the program if this process dies.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from linkwise.drivers.host_files import pci_address
from linkwise.errors import DriverError, InputError, LinkwiseError
from linkwise.model.driver import WrappedDriver
from linkwise.model.topology import Topology
from linkwise.vendors.readers import readings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.device import Device
    from linkwise.model.driver import Driver
    from linkwise.model.inventory import Discovery
    from linkwise.vendors.reader import Reading

__all__ = [
    "BandwidthTest",
    "Interruption",
    "MeasuredDriver",
    "bound_rows",
    "find_test",
    "named_devices",
    "run_test",
    "with_bandwidth",
    "with_reading",
]

TESTS: Final = {"nvbandwidth": ("-t", "device_to_device_memcpy_write_ce"), "p2pBandwidthLatencyTest": ()}
"""arguments by the name of the program, the preferred one first"""
LARGEST: Final = 4 * 1024 * 1024  # bytes of output
TICK: Final = 1.0  # seconds between reports of progress
_PR_SET_PDEATHSIG: Final = 1
_LINE: Final = 120
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class MeasuredDriver(WrappedDriver):
    """Another driver, with the bandwidth that a file holds; what is wrong with the file is a problem, not an error."""

    def __init__(self, driver: Driver, file: Path) -> None:
        super().__init__(driver)
        self._file: Final = file

    def discover(self) -> Discovery:
        """Discover the devices and read the file again."""
        discovery = super().discover()
        if not discovery.devices:
            return discovery
        try:
            text = self._file.read_text("utf-8", "replace")
        except OSError as error:
            return _unmeasured(discovery, f"bandwidth file {self._file}: {error.strerror or error}")
        return with_bandwidth(discovery, text, str(self._file))


def with_bandwidth(discovery: Discovery, text: str, source: str) -> Discovery:
    """The discovery with the bandwidth of a tool's output."""
    reading = next((reading for reading in readings(text) if reading.bandwidth), None)
    if reading is None:
        return _unmeasured(discovery, f"{source} has no complete matrix of bandwidth between devices")
    return with_reading(discovery, reading, source)


def with_reading(discovery: Discovery, reading: Reading, source: str) -> Discovery:
    """The discovery with the bandwidth of a reading; suspect samples are kept, because topologies clean them."""
    ids = tuple(device.id for device in discovery.devices)
    try:
        rows = [device.id for device in _complete_rows(discovery.devices, reading)]
        order = [rows.index(id_) for id_ in ids]
        matrix = tuple(tuple(reading.bandwidth[a][b] for b in order) for a in order)
        topology = replace(discovery.topology or Topology(ids), bandwidth=matrix)
    except LinkwiseError as error:
        return _unmeasured(discovery, f"{source}: {error}; measured bandwidth is not used")
    return replace(discovery, topology=topology)


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


class BandwidthTest(NamedTuple):
    """The program and its arguments."""

    program: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        """As a shell has it."""
        return " ".join((self.program, *self.arguments))


class Interruption(Protocol):
    """Something that may end a run: a descriptor that becomes readable, and then the reason."""

    def fileno(self) -> int:
        """The descriptor to watch; the program inherits it."""
        ...

    def revoked(self) -> str:
        """Why the run must end, once the descriptor is readable; empty if it may go on."""
        ...


def find_test(tool: str = "") -> BandwidthTest:
    """The test at that path or of that name; by default the first in PATH. DriverError if there is none."""
    names = [tool] if tool else list(TESTS)
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        wanted = f"{tool} can't be run" if tool else f"neither {' nor '.join(TESTS)} is in PATH"
        raise DriverError(f"{wanted}; give the path of one of them with --tool, or import its output with --from")
    name = next((name for name in TESTS if name.lower() in Path(path).name.lower()), "")
    return BandwidthTest(path, TESTS.get(name, ()))


def run_test(  # noqa: PLR0913 - each has its own reason
    command: BandwidthTest,
    devices: Sequence[str],
    *,
    timeout: float,
    interruption: Interruption,
    inherited: Sequence[int] = (),
    progress: Callable[[float, str], None] = lambda *_: None,
) -> str:
    """Run the test and return its output; its rows are the devices in this order.

    Args:
        command: the program.
        devices: UUIDs.
        timeout: seconds until it is killed.
        interruption: kills it earlier.
        inherited: further descriptors that the program keeps open.
        progress: called every second with the seconds so far and the last line that was printed.

    Raises:
        DriverError: it can't be run, fails, is interrupted, or does not end in time.
    """
    variables = {"CUDA_VISIBLE_DEVICES": ",".join(devices), "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(  # noqa: S603 - the tool that the administrator chose
            [command.program, *command.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,
            pass_fds=(interruption.fileno(), *inherited),
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it only makes one system call
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DriverError(f"{command.program} can't be run ({reason}); check the path and its permissions") from error
    try:
        output = _collected(process, command, timeout, interruption, progress)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # before the leader is reaped: its number can't be another's
        code = process.wait()
        if process.stdout:
            process.stdout.close()
    text = output.decode("utf-8", "replace")
    if code:
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
        raise DriverError(f"`{command}` failed with exit code {code}: {last[:200]}")
    return text


def _unmeasured(discovery: Discovery, problem: str) -> Discovery:
    return replace(discovery, problems=(*discovery.problems, problem))


def _complete_rows(devices: Sequence[Device], reading: Reading) -> tuple[Device, ...]:
    if reading.problems:
        raise InputError(reading.problems[0])
    if len(reading.devices) != len(devices):
        raise InputError(f"it has {len(reading.devices)} rows for {len(devices)} devices")
    return bound_rows(devices, reading)


def _check_buses(rows: Sequence[Device], printed: Sequence[str]) -> None:
    for number, (device, bus) in enumerate(zip(rows, printed, strict=True)):
        own = pci_address(device.bus_id)
        if own and bus and own != bus:
            raise InputError(f"row {number} is of the device at {bus}, but the named device {device.index} is at {own}")


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


def _check_models(rows: Sequence[Device], reading: Reading) -> None:
    models = {facts.name: facts.model for facts in reading.facts}
    for device, name in zip(rows, reading.devices, strict=True):
        printed = models.get(name, "")
        if device.model and printed and _plain(device.model) != _plain(printed):
            raise InputError(f"row {name} is of a {printed}, but device {device.index} is a {device.model}")


def _plain(model: str) -> str:
    """The model without the vendor's name, which some versions of the driver leave out."""
    return " ".join(model.lower().removeprefix("nvidia").split())


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _collected(
    process: subprocess.Popen[bytes],
    command: BandwidthTest,
    timeout: float,
    interruption: Interruption,
    progress: Callable[[float, str], None],
) -> bytes:
    """The output of the program until it exits; it is not reaped."""
    began, output = time.monotonic(), b""
    stream = process.stdout.fileno() if process.stdout else -1
    watched = [stream, interruption.fileno()]
    while not _has_exited(process.pid):
        seconds = time.monotonic() - began
        if seconds >= timeout:
            raise DriverError(
                f"`{command}` did not end within {timeout:g} s and was killed; a GPU may hang, see `dmesg`"
            )
        readable, _, _ = select.select(watched, [], [], min(TICK, timeout - seconds))
        if interruption.fileno() in readable and (why := interruption.revoked()):
            raise DriverError(f"the measurement was stopped: {why}")
        if stream in readable:
            data = os.read(stream, 65536)
            output += data
            if not data:
                watched.remove(stream)  # it has closed its output, and may run on
        if len(output) > LARGEST:
            raise DriverError(
                f"`{command}` printed more than {LARGEST} bytes and was killed; it is not a bandwidth test"
            )
        lines = output[-2000:].decode("utf-8", "replace").splitlines()
        progress(seconds, next((line.strip()[:_LINE] for line in reversed(lines) if line.strip()), ""))
    return output + _rest(stream) if stream in watched else output


def _has_exited(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _rest(stream: int) -> bytes:
    """What an exited program has left in the pipe; a process that it started may keep the pipe open."""
    rest = b""
    while len(rest) <= LARGEST and select.select([stream], [], [], 0)[0] and (data := os.read(stream, 65536)):
        rest += data
    return rest

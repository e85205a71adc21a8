"""Driver with measured bandwidth: another driver, and the measurements of the node's state file.

The file is written by `linkwise agent measure`, and read again whenever it has changed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.model.driver import WrappedDriver
from linkwise.node.measured_bandwidth import with_measurements
from linkwise.wire.measurement import decode_measurements

if TYPE_CHECKING:
    from linkwise.model.driver import Driver
    from linkwise.model.inventory import Discovery, Measurement

__all__ = ["LARGEST", "MeasuredBandwidthDriver", "bandwidth_file", "read_measurements", "state_folder"]

LARGEST: Final = 8 * 1024 * 1024
"""bytes of a state file that is read"""

Stamp = tuple[int, int, int]
"""inode, size and time of the last change"""


def state_folder(kubelet: str) -> Path:
    """The folder of files that outlive the agent, where kubelet keeps those of plugins."""
    return Path(kubelet) / "plugins/linkwise.dev"


def bandwidth_file(kubelet: str) -> Path:
    """The state file with the measurements of a node."""
    return state_folder(kubelet) / "bandwidth.json"


def read_measurements(file: Path) -> tuple[Measurement, ...]:
    """The measurements of a state file; none if it does not exist, and InputError if it can't be read."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) <= LARGEST:
            return decode_measurements(data)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    raise InputError(f"{file}: it has more than {LARGEST} bytes")


class MeasuredBandwidthDriver(WrappedDriver):
    """Adds measured bandwidth to the discoveries of another driver; a file that can't be read is a problem of the node."""

    def __init__(self, driver: Driver, file: Path) -> None:
        super().__init__(driver)
        self._file: Final = file
        self._stamp: Stamp | None = None
        self._measurements: tuple[Measurement, ...] = ()
        self._problem = ""

    def discover(self) -> Discovery:
        """Discover the devices, and read the file if it has changed."""
        found = super().discover()
        self._read()
        if self._problem and found.devices:
            return replace(found, problems=(*found.problems, self._problem))
        return with_measurements(found, self._measurements)

    def _read(self) -> None:
        try:
            status = self._file.stat()
            stamp: Stamp | None = status.st_ino, status.st_size, status.st_mtime_ns
        except OSError:
            stamp = None
        if stamp is not None and stamp == self._stamp:
            return
        self._stamp, self._problem, self._measurements = stamp, "", ()
        try:
            self._measurements = read_measurements(self._file)
        except InputError as error:
            self._problem = f"{error}; measured bandwidth is not used"

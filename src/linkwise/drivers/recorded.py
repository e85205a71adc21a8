"""Driver for recorded outputs: a folder of files with what the tools of a machine printed.

For demonstrations, tests and support cases. The files may have any names; the readers of all vendors recognise them by
their content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.drivers.bandwidth.measured import with_reading
from linkwise.drivers.device_facts import simulated_reading
from linkwise.drivers.known_devices import KnownDevices
from linkwise.drivers.tool_outputs import read_outputs
from linkwise.errors import DriverError, InputError
from linkwise.model.driver import Driver
from linkwise.vendors.readers import recognised

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.discovery import Discovery
    from linkwise.model.usage import UsageReading

__all__ = ["RecordedDriver"]

_LARGEST: Final = 8 * 1024 * 1024
"""bytes of a file that is read; the outputs of tools are far smaller"""


class RecordedDriver(Driver):
    """The machine that the files of a folder describe; they are read again by every discovery."""

    name = "recorded"

    def __init__(self, folder: Path, node: str) -> None:
        """Check that the folder has at least one output.

        Raises:
            InputError: the folder does not exist, or no file in it is the output of a known tool.
        """
        self._folder: Final = folder
        self._node: Final = node
        self._known: Final = KnownDevices()
        if not folder.is_dir():
            raise InputError(f"recorded: {folder} is not a folder; give the folder with the outputs of the tools")
        if not any(recognised(text) for text in self._texts().values()):
            raise InputError(f"recorded: {folder} has no output of a known tool; record `nvidia-smi topo -m` there")

    def discover(self) -> Discovery:
        """Read all files of the folder."""
        outputs = read_outputs(self._texts(), self._node)
        found = self._known.complete(outputs.discovery, outputs.unreadable)
        if outputs.bandwidth is None or not found.devices:
            return found
        return with_reading(found, outputs.bandwidth, outputs.bandwidth.kind)

    def usage(self) -> UsageReading:
        """The memory of the devices; what pods would use of it is made up."""
        return simulated_reading(read_outputs(self._texts(), self._node).discovery.devices)

    def _texts(self) -> dict[str, str]:
        try:
            files = [
                path for path in sorted(self._folder.iterdir()) if path.is_file() and not path.name.startswith(".")
            ]
            return {path.name: path.read_text("utf-8", "replace") for path in files if path.stat().st_size <= _LARGEST}
        except OSError as error:
            raise DriverError(f"recorded: {error.filename}: {error.strerror or error}") from error

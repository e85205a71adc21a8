"""NVML library: loading, initialisation, and errors of single calls as values.

The binding is nvidia-ml-py, which loads libnvidia-ml.so.1. It is imported when a library is opened, because only nodes
with GPUs have it.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from linkwise.drivers.c_library import printable
from linkwise.drivers.device_facts import Failure
from linkwise.drivers.host_files import HOST
from linkwise.errors import DriverError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GPU_IS_LOST", "INVALID_ARGUMENT", "NOT_FOUND", "NOT_SUPPORTED", "Library", "StaleError"]

UNINITIALIZED: Final = 1
INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
DRIVER_NOT_LOADED: Final = 9
LIBRARY_NOT_FOUND: Final = 12
FUNCTION_NOT_FOUND: Final = 13
GPU_IS_LOST: Final = 15
RESET_REQUIRED: Final = 16
VERSION_MISMATCH: Final = 18
GPU_NOT_FOUND: Final = 28

_DEAD: Final = {GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND}
"""codes with which a device does no work until it is reset or replaced"""
_UNSUPPORTED: Final = {NOT_SUPPORTED, FUNCTION_NOT_FOUND}

_STALE: Final = {UNINITIALIZED, DRIVER_NOT_LOADED, VERSION_MISMATCH}
"""codes after which every call fails until the library is initialised again: the driver was unloaded or reloaded"""

_ADVICE: Final = {
    LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 can't be loaded; install the NVIDIA driver, or make its libraries available in"
    " the agent's container (runtime class nvidia)",
    DRIVER_NOT_LOADED: "the NVIDIA kernel driver is not loaded; check `lsmod | grep nvidia` and `dmesg` on the node",
    NO_PERMISSION: "no permission to open /dev/nvidiactl; run the agent as root in a privileged container",
    VERSION_MISMATCH: "library and kernel driver are of different versions; after a driver update, restart the agent,"
    " or the node if the old kernel driver is still loaded",
    FUNCTION_NOT_FOUND: "libnvidia-ml.so.1 is too old; install driver R418 or later",
}


_NAME: Final = "libnvidia-ml.so.1"
_FOLDERS: Final = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "run/nvidia/driver/usr/lib64",
    "home/kubernetes/bin/nvidia/lib64",
)
"""folders of distributions, of NVIDIA's driver container, and of Container-Optimized OS"""


class StaleError(Exception):
    """The library must be initialised again."""


_NOT_TEXT: Final = Failure(-1, "the answer is not text")


class Library:
    """NVML, initialised; `close` shuts it down."""

    def __init__(self, path: str = "", host: Path = HOST) -> None:
        """Load and initialise the library; `path` if it is not where the dynamic linker finds it.

        Without one, the usual folders below `host` are searched, if the host's file system is mounted there.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        try:
            self._nvml: Final[Any] = import_module("pynvml")
        except ImportError as error:
            raise DriverError("nvml: nvidia-ml-py is not installed; install linkwise[agent]") from error
        self._error: Final[type[Exception]] = self._nvml.NVMLError
        if path:
            _preload(path)
        try:
            self._initialise(host)
        except self._error as error:
            code = _code(error)
            advice = _ADVICE.get(
                code, f"NVML can't be initialised ({error}); check that `nvidia-smi` works on the node"
            )
            raise DriverError(f"nvml: {advice}") from error

    def _initialise(self, host: Path) -> None:
        try:
            self._nvml.nvmlInit()
        except self._error as error:
            files = [host / folder / _NAME for folder in _FOLDERS] if host != HOST else []
            file = next((file for file in files if file.exists()), None)
            if _code(error) != LIBRARY_NOT_FOUND or file is None:
                raise
            _preload(str(file))
            self._nvml.nvmlInit()

    def call(self, function: str, *arguments: object) -> Any | Failure:  # noqa: ANN401 - structures of the binding
        """What a function of the binding returns, or its error.

        Raises:
            StaleError: no call can succeed until the library is initialised again.
        """
        try:
            return getattr(self._nvml, function)(*arguments)
        except self._error as error:
            code = _code(error)
            if code in _STALE:
                raise StaleError(str(error)) from error
            return Failure(code, str(error), dead=code in _DEAD, unsupported=code in _UNSUPPORTED)
        except UnicodeDecodeError:
            return _NOT_TEXT
        except AttributeError:  # a binding older than the function
            return Failure(FUNCTION_NOT_FOUND, "Function Not Found", unsupported=True)

    def text(self, function: str, *arguments: object) -> str | Failure:
        """A text, without what can't be printed."""
        value = self.call(function, *arguments)
        return value if isinstance(value, Failure) else printable(value)

    def bus_id(self, function: str, *arguments: object) -> str | Failure:
        """The bus id in a structure about a PCI device."""
        value = self.call(function, *arguments)
        if isinstance(value, Failure):
            return value
        try:
            return printable(value.busId)
        except UnicodeDecodeError:
            return _NOT_TEXT

    def number(self, function: str, *arguments: object) -> int | Failure:
        """A number."""
        value = self.call(function, *arguments)
        return value if isinstance(value, Failure) else int(value)

    def most_links(self) -> int:
        """NVLinks that a GPU may have."""
        return int(self._nvml.NVML_NVLINK_MAX_LINKS)

    def close(self) -> None:
        """Shut the library down; one that is no longer initialised is as good."""
        try:
            self._nvml.nvmlShutdown()
        except self._error:
            return


def _preload(path: str) -> None:
    """Load the library from its path; the dynamic linker then finds it by its name, which the binding uses."""
    try:
        ctypes.CDLL(path)
    except OSError as error:
        raise DriverError(f"nvml: {path} can't be loaded ({error})") from error


def _code(error: Exception) -> int:
    return int(getattr(error, "value", 0))

"""AMD SMI library: loading, initialisation, and errors of single calls as values.

Functions of libamd_smi.so are called through ctypes. Structures have changed with almost every release of ROCm, so only
what they have in common since ROCm 5.7 is read: scalars, and the first fields of a structure in a larger buffer.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from linkwise.drivers.c_library import CLibrary, printable
from linkwise.drivers.host_files import HOST
from linkwise.errors import DriverError

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.drivers.device_facts import Failure

__all__ = ["Library"]

_GPUS: Final = 1 << 1
"""AMDSMI_INIT_AMD_GPUS"""
_LARGEST: Final = 16384
"""bytes of a buffer: more than any structure that is read has"""
_MOST_HANDLES: Final = 1024  # a number that the library got wrong must not allocate gigabytes

_NOT_INITIALISED: Final = 32

_WORDS: Final = {
    1: "invalid parameter",
    2: "not supported",
    3: "not implemented",
    4: "a library can't be loaded",
    6: "error of the kernel graphics driver",
    7: "the call failed",
    8: "timeout",
    9: "to be tried again",
    10: "permission denied",
    12: "I/O error",
    14: "a file can't be read",
    18: "initialisation failed",
    30: "busy",
    31: "the device was not found",
    _NOT_INITIALISED: "not initialised",
    34: "the driver is not loaded",
    40: "no data",
}


class Library(CLibrary):
    """AMD SMI, initialised for GPUs."""

    driver = "amdsmi"
    file = "libamd_smi.so"
    pattern = "libamd_smi.so*"
    folders = ("opt/rocm/lib", "opt/rocm/lib64", "opt/rocm/core/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64")
    install = "install amd-smi-lib of ROCm, or mount /opt/rocm of the host in the agent's container"
    integer = ctypes.c_uint32
    words = _WORDS
    dead = frozenset({6, 12, 31, 34})
    unsupported = frozenset({2, 3, 40})

    def __init__(self, path: str = "", host: Path = HOST) -> None:
        """Load and initialise the library; `path` if it is not where ROCm installs it, below `host`.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        self._initialised = False
        super().__init__(path, host)

    def initialise(self) -> None:
        """Initialise the library; again, to see GPUs that have been added or divided since.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        self.close()
        failure = self.call("amdsmi_init", ctypes.c_uint64(_GPUS))
        if failure is not None:
            raise DriverError(
                f"amdsmi: AMD SMI can't be initialised ({failure}); check that the amdgpu kernel module is loaded and"
                " that `amd-smi list` works on the node"
            )
        self._initialised = True

    def close(self) -> None:
        """End the use of the library; calling it again does nothing."""
        if self._initialised:
            self._initialised = False
            self.call("amdsmi_shut_down")

    def handles(self, function: str, *arguments: object) -> list[ctypes.c_void_p] | Failure:
        """The handles that a function lists: it is asked for their number first."""
        count = ctypes.c_uint32(0)
        failure = self.call(function, *arguments, ctypes.byref(count), None)
        if failure is not None:
            return failure
        count.value = min(count.value, _MOST_HANDLES)
        handles = (ctypes.c_void_p * max(1, count.value))()
        failure = self.call(function, *arguments, ctypes.byref(count), handles) if count.value else None
        return failure or [ctypes.c_void_p(handle) for handle in handles[: count.value]]

    def first_text(self, function: str, handle: ctypes.c_void_p) -> str | Failure:
        """The text with which the structure begins that a function writes."""
        buffer = ctypes.create_string_buffer(_LARGEST)
        return self.call(function, handle, buffer) or printable(buffer.value[:256])

    def first_number(self, function: str, handle: ctypes.c_void_p) -> int | Failure:
        """The 32-bit number with which the structure begins that a function writes."""
        values = (ctypes.c_uint32 * (_LARGEST // 4))()
        return self.call(function, handle, values) or int(values[0])

    def counts(self, function: str, handle: ctypes.c_void_p) -> tuple[int, int] | Failure:
        """The two 64-bit numbers with which the structure begins that a function writes."""
        values = (ctypes.c_uint64 * (_LARGEST // 8))()
        return self.call(function, handle, values) or (int(values[0]), int(values[1]))

    def uuid(self, handle: ctypes.c_void_p) -> str | Failure:
        """The UUID of a GPU, as it is."""
        length, buffer = ctypes.c_uint32(64), ctypes.create_string_buffer(64)
        failure = self.call("amdsmi_get_gpu_device_uuid", handle, ctypes.byref(length), buffer)
        return failure or buffer.value.decode("utf-8", "replace")

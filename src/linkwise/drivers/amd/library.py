"""AMD SMI library: loading, initialisation, and errors of single calls as values.

Functions of libamd_smi.so are called through ctypes. Structures have changed with almost every release of ROCm, so only
what they have in common since ROCm 5.7 is read: scalars, and the first fields of a structure in a larger buffer.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.drivers.host_files import HOST
from linkwise.errors import DriverError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Failure", "Library"]

NAME: Final = "libamd_smi.so"
_FOLDERS: Final = ("opt/rocm/lib", "opt/rocm/lib64", "opt/rocm/core/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64")
"""where ROCm and distributions install it, which the dynamic linker does not search"""
_GPUS: Final = 1 << 1
"""AMDSMI_INIT_AMD_GPUS"""
_LARGEST: Final = 16384
"""bytes of a buffer: more than any structure that is read has"""
_MOST_HANDLES: Final = 1024

MISSING: Final = -1
"""the library does not have the function"""
_NOT_INITIALISED: Final = 32

_WORDS: Final = {
    MISSING: "this version of the library does not have the function",
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
_DEAD: Final = {6, 12, 31, 34}
"""codes with which a GPU does no work until it is reset or replaced"""
_UNSUPPORTED: Final = {MISSING, 2, 3, 40}


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that returned an error."""

    code: int

    @property
    def dead(self) -> bool:
        """Whether the GPU can't be used, beyond the value that was asked for."""
        return self.code in _DEAD

    @property
    def unsupported(self) -> bool:
        """Whether this hardware or driver does not have the value: nothing is wrong."""
        return self.code in _UNSUPPORTED

    def __str__(self) -> str:
        words = _WORDS.get(self.code)
        return f"{words}, error {self.code}" if words else f"error {self.code}"


class Library:
    """AMD SMI, initialised for GPUs."""

    def __init__(self, path: str = "", host: Path = HOST) -> None:
        """Load and initialise the library; `path` if it is not where ROCm installs it, below `host`.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        self._functions: Final = _loaded(path, host)
        self._initialised = False
        self.initialise()

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

    def call(self, function: str, *arguments: object) -> Failure | None:
        """Call a function, which writes its results through pointers among the arguments; its error, if any."""
        found = getattr(self._functions, function, None)
        if found is None:
            return Failure(MISSING)
        code = int(found(*arguments)) & 0xFFFFFFFF
        return Failure(code) if code else None

    def number(self, function: str, *arguments: object, kind: type[Any] = ctypes.c_uint32) -> int | Failure:
        """The number that a function writes through its last argument."""
        value = kind(0)
        failure = self.call(function, *arguments, ctypes.byref(value))
        return failure or int(value.value)

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
        return self.call(function, handle, buffer) or _printable(buffer.value)

    def text(self, function: str, handle: ctypes.c_void_p, size: int = 64) -> str | Failure:
        """The text that a function writes into a buffer of this size."""
        buffer = ctypes.create_string_buffer(size)
        return self.call(function, handle, buffer, ctypes.c_uint32(size)) or _printable(buffer.value)

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


def _printable(value: bytes) -> str:
    text = value[:256].decode("utf-8", "replace")
    return "".join(letter for letter in text if letter.isprintable() and letter != "\ufffd").strip()


def _loaded(path: str, host: Path) -> ctypes.CDLL:
    if path:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            raise DriverError(f"amdsmi: {path} can't be loaded ({error})") from error
    broken = ""
    for candidate in _candidates(host):
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            broken = broken or ("" if candidate == NAME else f"{candidate} can't be loaded ({error}); ")
    raise DriverError(
        f"amdsmi: {broken}{NAME} was not found; install amd-smi-lib of ROCm, or mount /opt/rocm of the host in the agent's"
        " container"
    )


def _candidates(host: Path) -> Iterator[str]:
    yield NAME
    for root in dict.fromkeys((host, HOST)):
        for folder in _FOLDERS:
            yield from (str(file) for file in sorted((root / folder).glob(f"{NAME}*"))[:1])

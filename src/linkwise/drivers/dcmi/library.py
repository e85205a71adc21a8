"""DCMI library: loading, initialisation, and errors of single calls as values.

There is no Python package for it: functions of libdcmi.so are called through ctypes, with the structures of its header.
Source: contract device-plugin, section 9.
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

__all__ = ["ChipInfo", "Failure", "HbmInfo", "IpAddress", "Library", "MemoryInfo", "PcieInfo"]

NAME: Final = "libdcmi.so"
_FOLDERS: Final = (
    "usr/local/dcmi",
    "usr/local/Ascend/driver/lib64/driver",
    "usr/local/Ascend/driver/lib64",
    "usr/lib64",
)
"""where Huawei's driver installs it, which the dynamic linker does not search"""

NOT_SUPPORTED: Final = -8255
NOT_SUPPORTED_IN_CONTAINER: Final = -8013
MISSING: Final = -1
"""the library does not have the function"""

_WORDS: Final = {
    MISSING: "this version of the library does not have the function",
    -8001: "invalid parameter",
    -8002: "operation not permitted",
    -8003: "memory operation failed",
    -8005: "internal error",
    -8006: "timeout",
    -8007: "invalid device id",
    -8008: "the device does not exist",
    -8009: "ioctl failed",
    -8010: "sending a message failed",
    -8011: "receiving a message failed",
    -8012: "not ready",
    NOT_SUPPORTED_IN_CONTAINER: "not supported in a container",
    -8015: "reset failed",
    -8017: "an upgrade is running",
    -8020: "the resource is occupied",
    NOT_SUPPORTED: "not supported",
}
_ADVICE: Final = {
    -8002: "no permission to open /dev/davinci_manager; run the agent as root in a privileged container",
    -8005: "the Ascend kernel driver does not answer; check `npu-smi info` and `dmesg` on the node",
    -8008: "the Ascend kernel driver reports no devices; check `lspci | grep d80` and `dmesg` on the node",
    -8009: "the Ascend kernel driver is not loaded; check `lsmod | grep drv_` and `dmesg` on the node",
    -8012: "the Ascend driver is still starting",
    -8017: "an upgrade of the Ascend firmware is running; the agent tries again",
}
_DEAD: Final = {-8007, -8008, -8009, -8010, -8011}
"""codes with which a chip does no work until it is reset or replaced"""

_NAME_BYTES: Final = 32


class ChipInfo(ctypes.Structure):
    """`struct dcmi_chip_info_v2`; the older one is its beginning."""

    _fields_ = (
        ("type", ctypes.c_char * _NAME_BYTES),
        ("name", ctypes.c_char * _NAME_BYTES),
        ("version", ctypes.c_char * _NAME_BYTES),
        ("cores", ctypes.c_uint),
        ("npu_name", ctypes.c_char * _NAME_BYTES),
    )


class HbmInfo(ctypes.Structure):
    """`struct dcmi_hbm_info`."""

    _fields_ = (
        ("size", ctypes.c_ulonglong),  # MB
        ("frequency", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),  # MB
        ("temperature", ctypes.c_int),
        ("bandwidth", ctypes.c_uint),  # percent
    )


class MemoryInfo(ctypes.Structure):
    """`struct dcmi_get_memory_info_stru`, for chips without HBM."""

    _fields_ = (
        ("size", ctypes.c_ulonglong),  # MB
        ("available", ctypes.c_ulonglong),
        ("frequency", ctypes.c_uint),
        ("huge_page", ctypes.c_ulong),
        ("huge_pages", ctypes.c_ulong),
        ("huge_pages_free", ctypes.c_ulong),
        ("used_percent", ctypes.c_uint),
        ("reserved", ctypes.c_ubyte * 60),
    )


class PcieInfo(ctypes.Structure):
    """`struct dcmi_pcie_info_all`."""

    _fields_ = (
        ("vendor", ctypes.c_uint),
        ("subvendor", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subdevice_id", ctypes.c_uint),
        ("domain", ctypes.c_int),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("function", ctypes.c_uint),
        ("reserved", ctypes.c_ubyte * 32),
    )


class IpAddress(ctypes.Structure):
    """`struct dcmi_ip_addr`."""

    _fields_ = (("bytes", ctypes.c_ubyte * 16), ("type", ctypes.c_int))


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that returned an error."""

    code: int

    @property
    def dead(self) -> bool:
        """Whether the chip can't be used, beyond the value that was asked for."""
        return self.code in _DEAD

    @property
    def unsupported(self) -> bool:
        """Whether this hardware or driver does not have the value: nothing is wrong."""
        return self.code in {NOT_SUPPORTED, NOT_SUPPORTED_IN_CONTAINER, MISSING}

    def __str__(self) -> str:
        words = _WORDS.get(self.code)
        return f"{words}, error {self.code}" if words else f"error {self.code}"


class Library:
    """DCMI, initialised. It has no function to end the use of it."""

    def __init__(self, path: str = "", host: Path = HOST) -> None:
        """Load and initialise the library; `path` if it is not where Huawei's driver installs it, below `host`.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        self._functions: Final = _loaded(path, host)
        self.initialise()

    def initialise(self) -> None:
        """Initialise the library, again if the driver was reloaded.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        failure = self.call("dcmi_init")
        if failure is not None:
            advice = _ADVICE.get(failure.code, "check that `npu-smi info` works on the node")
            raise DriverError(f"dcmi: DCMI can't be initialised ({failure}); {advice}")

    def call(self, function: str, *arguments: object) -> Failure | None:
        """Call a function, which writes its results through pointers among the arguments; its error, if any."""
        found = getattr(self._functions, function, None)
        if found is None:
            return Failure(MISSING)
        code = int(found(*arguments))
        return Failure(code) if code else None

    def number(self, function: str, *arguments: object, kind: type[Any] = ctypes.c_int) -> int | Failure:
        """The number that a function writes through its last argument."""
        value = kind(0)
        failure = self.call(function, *arguments, ctypes.byref(value))
        return failure or int(value.value)

    def text(self, function: str, size: int = 64) -> str | Failure:
        """The text that a function writes into a buffer."""
        buffer = ctypes.create_string_buffer(size)
        return self.call(function, buffer, ctypes.c_uint(size)) or printable(buffer.value)


def printable(value: bytes) -> str:
    """The text of a C string, without blanks around it and without what can't be printed."""
    text = value.decode("utf-8", "replace")
    return "".join(letter for letter in text if letter.isprintable() and letter != "\ufffd").strip()


def _loaded(path: str, host: Path) -> ctypes.CDLL:
    if path:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            raise DriverError(f"dcmi: {path} can't be loaded ({error})") from error
    broken = ""
    for candidate in _candidates(host):
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            broken = broken or ("" if candidate == NAME else f"{candidate} can't be loaded ({error}); ")
    raise DriverError(
        f"dcmi: {broken}{NAME} was not found; install the Ascend driver, or mount /usr/local/dcmi and"
        " /usr/local/Ascend/driver of the host in the agent's container and add /usr/local/Ascend/driver/lib64/driver to"
        " LD_LIBRARY_PATH"
    )


def _candidates(host: Path) -> Iterator[str]:
    yield NAME
    for root in dict.fromkeys((host, HOST)):
        yield from (str(file) for folder in _FOLDERS if (file := root / folder / NAME).exists())

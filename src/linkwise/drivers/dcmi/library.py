"""DCMI library: loading, initialisation, and errors of single calls as values.

There is no Python package for it: functions of libdcmi.so are called through ctypes, with the structures of its header.
Source: contract device-plugin, section 9.
"""

from __future__ import annotations

import ctypes
from typing import Final

from linkwise.drivers.c_library import CLibrary
from linkwise.errors import DriverError

__all__ = ["ChipInfo", "HbmInfo", "IpAddress", "Library", "MemoryInfo", "PcieInfo"]

NOT_SUPPORTED: Final = -8255
NOT_SUPPORTED_IN_CONTAINER: Final = -8013

_WORDS: Final = {
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


class Library(CLibrary):
    """DCMI, initialised. It has no function to end the use of it."""

    driver = "dcmi"
    file = pattern = "libdcmi.so"
    folders = (
        "usr/local/dcmi",
        "usr/local/Ascend/driver/lib64/driver",
        "usr/local/Ascend/driver/lib64",
        "usr/lib64",
    )
    install = (
        "install the Ascend driver, or mount /usr/local/dcmi and /usr/local/Ascend/driver of the host in the agent's"
        " container and add /usr/local/Ascend/driver/lib64/driver to LD_LIBRARY_PATH"
    )
    integer = ctypes.c_int
    words = _WORDS
    dead = frozenset({-8007, -8008, -8009, -8010, -8011})
    unsupported = frozenset({NOT_SUPPORTED, NOT_SUPPORTED_IN_CONTAINER})

    def initialise(self) -> None:
        """Initialise the library, again if the driver was reloaded.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        failure = self.call("dcmi_init")
        if failure is not None:
            advice = _ADVICE.get(failure.code, "check that `npu-smi info` works on the node")
            raise DriverError(f"dcmi: DCMI can't be initialised ({failure}); {advice}")

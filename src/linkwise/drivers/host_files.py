"""Files of the host: NUMA node, NICs and minor number of a PCI device, and addresses of NPU network ports."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from linkwise.vendors.inventory_text import BUS_ID

__all__ = ["HOST", "chip_addresses", "minor_number", "near_nics", "numa_node", "pci_address"]

HOST: Final = Path("/")
"""where the host's files are; another path where a container has them mounted"""

_CHIP_ADDRESS: Final = re.compile(r"^address_([0-9]{1,4})=([0-9a-fA-F.:]{2,45})\s*$", re.MULTILINE)
_MINOR: Final = re.compile(r"^Device Minor:\s*([0-9]{1,6})\s*$", re.MULTILINE)
_PCI_PATH: Final = re.compile(r"/pci[0-9a-f]{4,8}:[0-9a-f]{2}(?:/[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])+")
_RDMA: Final = "sys/class/infiniband"


def pci_address(bus_id: str) -> str:
    """The bus id in the kernel's form, `0000:3b:00.0` for `00000000:3B:00.0`; empty if it is not one."""
    if not BUS_ID.fullmatch(bus_id):
        return ""
    domain, rest = bus_id.lower().split(":", 1)
    return f"{int(domain, 16):04x}:{rest}"


def numa_node(bus_id: str, host: Path = HOST) -> int | None:
    """The NUMA node whose CPUs are nearest to the device; None if the kernel does not know it."""
    address = pci_address(bus_id)
    text = _read(host / "sys/bus/pci/devices" / address / "numa_node") if address else ""
    # The kernel writes -1 where the firmware does not tell, as on most virtual machines.
    return int(text) if text.isascii() and text.isdigit() else None


def near_nics(bus_id: str, host: Path = HOST) -> tuple[str, ...]:
    """The RDMA devices that are reached through PCIe switches only, without the host bridge; by name."""
    own = _bridges(host / "sys/bus/pci/devices" / pci_address(bus_id)) if pci_address(bus_id) else ()
    try:
        names = sorted(path.name for path in (host / _RDMA).iterdir()) if own else []
    except OSError:
        return ()
    # Devices below one port of the host bridge share a switch: a port has a single link.
    return tuple(name for name in names if own[:1] == _bridges(host / _RDMA / name / "device")[:1])


def _bridges(device: Path) -> tuple[str, ...]:
    """The PCI addresses above a device, from the port of the host bridge on; empty if there are none."""
    try:
        path = os.path.realpath(device, strict=True)
    except OSError:
        return ()
    match = _PCI_PATH.search(path)
    return tuple(match[0].split("/")[2:-1]) if match else ()


def minor_number(bus_id: str, host: Path = HOST) -> int | None:
    """The number of an NVIDIA device's node, /dev/nvidia{number}; None if the kernel module does not report it."""
    address = pci_address(bus_id)
    text = _read(host / "proc/driver/nvidia/gpus" / address / "information") if address else ""
    match = _MINOR.search(text)
    return int(match[1]) if match else None


def chip_addresses(host: Path = HOST) -> dict[int, str]:
    """The IP addresses of Ascend chips by number, as Huawei's hccn_tool has stored them."""
    return {int(number): address for number, address in _CHIP_ADDRESS.findall(_read(host / "etc/hccn.conf"))}


def _read(path: Path) -> str:
    """The file's text; empty if it can't be read, because then its value is unknown."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""

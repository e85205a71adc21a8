"""Files of the amdgpu kernel driver: device nodes of each GPU and partition, processes on them, and versions.

The KFD topology lists every GPU that computes, with its render node; a divided GPU once per partition, whose number is in
the upper bits of the location. Nodes of the kernel graphics driver (DRM) that KFD does not list do not compute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.drivers.device_facts import common
from linkwise.drivers.host_files import pci_address
from linkwise.model.usage import ProcessUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["GpuNodes", "gpu_nodes", "gpu_processes", "versions"]

_RENDER: Final = re.compile(r"renderD([0-9]{1,6})")
_CARD: Final = re.compile(r"card[0-9]{1,6}")
_PROPERTY: Final = re.compile(r"^(\w{1,40}) ([0-9]{1,20})$", re.MULTILINE)
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)+(?=-|$)")

Place = tuple[str, int]
"""the address of a GPU, and the number of the partition; 0 for an undivided one"""


@dataclass(frozen=True, slots=True)
class GpuNodes:
    """Device nodes of one GPU or partition."""

    render: int
    """the N of /dev/dri/renderDN"""
    card: str = ""
    """/dev/dri/cardN, where there is one"""
    kfd: str = ""
    """the number by which KFD's files of a process name it; empty where KFD can't be read"""


def gpu_nodes(host: Path) -> dict[Place, GpuNodes]:
    """The device nodes of all GPUs; those of the PCI devices where KFD can't be read."""
    nodes: dict[Place, GpuNodes] = {}
    for folder in _entries(host / "sys/class/kfd/kfd/topology/nodes"):
        properties = dict(_PROPERTY.findall(_read(folder / "properties")))
        render = int(properties.get("drm_render_minor", 0))
        location = int(properties.get("location_id", 0)) & 0xFFFFFFFF
        if render > 0 and "location_id" in properties:
            domain, function = int(properties.get("domain", 0)), location & 7
            address = f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{function:x}"
            drm = host / f"sys/class/drm/renderD{render}/device/drm"
            nodes[address, location >> 28] = GpuNodes(render, _card(drm), _read(folder / "gpu_id"))
    return nodes or _by_pci(host)


def gpu_processes(nodes: Mapping[Place, GpuNodes], host: Path) -> dict[int, tuple[ProcessUsage, ...]]:
    """The processes that compute and have memory of a GPU, by its render node; without a GPU whose processes can't be listed.

    KFD has a folder per process, named by its id on the host, with a file per GPU: `vram_<number of the GPU>`, in bytes.
    """
    folder = host / "sys/class/kfd/kfd/proc"
    if not folder.is_dir():
        return {}
    pids = [entry for entry in _entries(folder) if _NUMBER.fullmatch(entry.name)]
    return {
        node.render: tuple(
            ProcessUsage(int(entry.name), int(memory) if _NUMBER.fullmatch(memory) else None)
            for entry in pids
            if (memory := _read(entry / f"vram_{node.kfd}")) not in {"", "0"}
        )
        for node in nodes.values()
        if _NUMBER.fullmatch(node.kfd)
    }


def versions(buses: Iterable[str], host: Path) -> dict[str, str]:
    """Versions of the driver and of ROCm, and that of the GPUs' firmware if all have the same."""
    rocm = _VERSION.match(_read(host / "opt/rocm/.info/version"))
    firmware = common(_read(host / "sys/bus/pci/devices" / _function_0(bus) / "vbios_version") for bus in buses)
    facts = {
        "driver": _read(host / "sys/module/amdgpu/version"),
        "rocm": rocm[0] if rocm else "",
        "firmware": firmware if firmware.isprintable() else "",
    }
    return {name: value for name, value in facts.items() if value}


def _by_pci(host: Path) -> dict[Place, GpuNodes]:
    nodes: dict[Place, GpuNodes] = {}
    for folder in _entries(host / "sys/bus/pci/drivers/amdgpu"):
        drm = folder / "drm"
        render = next((match for entry in _entries(drm) if (match := _RENDER.fullmatch(entry.name))), None)
        if pci_address(folder.name) and render:
            nodes[pci_address(folder.name), 0] = GpuNodes(int(render[1]), _card(drm))
    return nodes


def _card(drm: Path) -> str:
    name = next((entry.name for entry in _entries(drm) if _CARD.fullmatch(entry.name)), "")
    return f"/dev/dri/{name}" if name else ""


def _function_0(bus: str) -> str:
    """The address of the GPU itself: tools count partitions as functions."""
    return f"{pci_address(bus)[:-1]}0"


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""

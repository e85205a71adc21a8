"""NVIDIA: descriptor, machine profiles, and readers of `nvidia-smi topo` (-m, -mp and -p2p).

Link codes NV1, NV2, ... are counts of NVLinks, which the model knows by itself.
"""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.vendors.link_table.layout import MARKS, LinkTable, Names, chosen, leading, line_of, split_row, tables
from linkwise.vendors.link_table.matrix import no_table, read_first
from linkwise.vendors.machine import MachineProfile, grouped, linked, measured
from linkwise.vendors.nvidia import inventory, nvbandwidth, p2p_test
from linkwise.vendors.nvidia.device_taints import TAINTS
from linkwise.vendors.reader import DeviceFacts, Reader, Reading
from linkwise.vendors.vendor import DriverFiles, NeedsRule, Vendor

if TYPE_CHECKING:
    from linkwise.model.topology import Topology

__all__ = ["READERS", "VENDOR", "machines"]

_DGX1_V100: Final = """
X        NV1+PIX  NV1+PHB  NV2+PHB  NV2+SYS  SYS      SYS      SYS
NV1+PIX  X        NV2+PHB  NV1+PHB  SYS      NV2+SYS  SYS      SYS
NV1+PHB  NV2+PHB  X        NV2+PIX  SYS      SYS      NV1+SYS  SYS
NV2+PHB  NV1+PHB  NV2+PIX  X        SYS      SYS      SYS      NV1+SYS
NV2+SYS  SYS      SYS      SYS      X        NV1+PIX  NV1+PHB  NV2+PHB
SYS      NV2+SYS  SYS      SYS      NV1+PIX  X        NV2+PHB  NV1+PHB
SYS      SYS      NV1+SYS  SYS      NV1+PHB  NV2+PHB  X        NV2+PIX
SYS      SYS      SYS      NV1+SYS  NV2+PHB  NV1+PHB  NV2+PIX  X
"""

_V100_PCIE: Final = """
X    PIX  PHB  PHB  SYS  SYS  SYS  SYS
PIX  X    PHB  PHB  SYS  SYS  SYS  SYS
PHB  PHB  X    PIX  SYS  SYS  SYS  SYS
PHB  PHB  PIX  X    SYS  SYS  SYS  SYS
SYS  SYS  SYS  SYS  X    PIX  PHB  PHB
SYS  SYS  SYS  SYS  PIX  X    PHB  PHB
SYS  SYS  SYS  SYS  PHB  PHB  X    PIX
SYS  SYS  SYS  SYS  PHB  PHB  PIX  X
"""

# Bridges join neighbours in pairs; seen in NVIDIA/k8s-device-plugin#546.
_A100_BRIDGED: Final = """
X         NV12+PXB  NODE      NODE      SYS       SYS       SYS       SYS
NV12+PXB  X         NODE      NODE      SYS       SYS       SYS       SYS
NODE      NODE      X         NV12+PXB  SYS       SYS       SYS       SYS
NODE      NODE      NV12+PXB  X         SYS       SYS       SYS       SYS
SYS       SYS       SYS       SYS       X         NV12+PXB  NODE      NODE
SYS       SYS       SYS       SYS       NV12+PXB  X         NODE      NODE
SYS       SYS       SYS       SYS       NODE      NODE      X         NV12+PXB
SYS       SYS       SYS       SYS       NODE      NODE      NV12+PXB  X
"""

# Two-way samples of one DGX-1 in GB/s, two of them bad: 0-4 and 1-4 differ threefold by direction.
_V100_MEASURED: Final = """
750.48  48.39   48.33   96.41   15.77   15.52   96.40   15.74
48.39   753.38  96.46   48.38   4.64    16.93   16.98   96.39
48.38   96.25   751.92  96.48   48.39   17.57   17.59   16.72
96.25   48.39   96.43   750.48  15.45   48.39   15.88   14.62
5.00    16.81   48.38   15.98   755.56  96.39   48.38   96.44
15.80   16.93   17.50   48.39   96.25   751.92  96.23   48.38
96.42   16.75   17.47   15.89   48.35   96.28   754.10  48.33
15.65   96.20   16.77   15.71   96.25   48.38   48.33   754.83
"""
_LINKS: Final = "nvidia-smi topo -m"
_PATHS: Final = "nvidia-smi topo -mp"
_PEERS: Final = "nvidia-smi topo -p2p"
_WORDS: Final = ("OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
_WORD: Final = rf"(?:{'|'.join(_WORDS)})(?=[ \t]|$)"
# A device's own X says nothing of the kind of matrix where a status word follows it.
_CODE: Final = rf"(?:NV[0-9]{{1,3}}|NODE|PIX|PXB|PHB|SYS|SOC|X(?![ \t]+{_WORD}))"
_GPUS: Final = Names("GPU[0-9]{1,3}", _CODE)
_PEER_ROW: Final = re.compile(rf"(?m)^{MARKS}GPU[0-9]{{1,3}}[ \t]+(?:X[ \t]+)?{_WORD}")
_COMMAND: Final = re.compile(r"nvidia-smi[ \t]+topo[ \t]+(?:-m|--matrix|-p2p)")
_OPTION: Final = re.compile(r"topo[ \t]+(-mp|-m|--matrix|-p2p)(?![A-Za-z0-9])")
_ERROR: Final = re.compile(
    r"ERROR: Option -m|NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found"
    r"|nvidia-smi: .{0,40}not found|'nvidia-smi' is not recognized|Unable to determine the device handle"
)
_HIDDEN: Final = "NVLink is not shown by -mp: devices may have better links than shown"


def machines() -> tuple[MachineProfile, ...]:
    """All of them."""
    return (
        _machine("dgx1-v100", "Tesla V100-SXM2-16GB", 16160, linked(_DGX1_V100), cpus=80, host_memory=512),
        _machine(
            "dgx1-v100-measured", "Tesla V100-SXM2-16GB", 16160, measured(_V100_MEASURED), cpus=80, host_memory=512
        ),
        _machine("v100-pcie", "Tesla V100-PCIE-16GB", 16160, linked(_V100_PCIE), cpus=80, host_memory=512),
        _machine("a100-bridged", "NVIDIA A100 80GB PCIe", 81920, linked(_A100_BRIDGED), cpus=128),
        _machine("dgx-a100", "NVIDIA A100-SXM4-40GB", 40960, grouped(8, "NV12"), cpus=256),
        _machine("hgx-h100", "NVIDIA H100 80GB HBM3", 81559, grouped(8, "NV18"), cpus=224, host_memory=2048),
        _machine("dgx2-v100", "Tesla V100-SXM3-32GB", 32510, grouped(16, "NV6"), host_memory=1536),
        _machine("p40-share", "Tesla P40", 22919, grouped(4, "PHB"), cpus=56, host_memory=256, shared=True),
    )


def _machine(  # noqa: PLR0913 - the fields of a profile
    name: str,
    model: str,
    memory: int,
    topology: Topology,
    *,
    cpus: int = 96,
    host_memory: int = 1024,
    shared: bool = False,
) -> MachineProfile:
    return MachineProfile(name, "nvidia", model, memory, topology, cpus=cpus, host_memory=host_memory, shared=shared)


class _Options:
    """Options of the commands in a text."""

    def __init__(self, text: str) -> None:
        options = list(_OPTION.finditer(text))
        self._starts = [match.start() for match in options]
        self._names = [match[1] for match in options]

    def at(self, start: int) -> str:
        """The last option before a position; without one, -mp if the text has no other."""
        before = bisect(self._starts, start)
        if before:
            return self._names[before - 1]
        return "-mp" if set(self._names) == {"-mp"} else ""


def _kind(text: str) -> str:
    """The kind of matrix in the text; empty if there is none."""
    if "GPU" in text:
        row = _GPUS.link_row.search(text)
        if row is None and _PEER_ROW.search(text):
            return _PEERS
        if row or _GPUS.whole_header.search(text):
            option = _Options(text).at(row.start() if row else len(text))
            alone = row is None or row[1] == "X"
            return _PATHS if option == "-mp" else _PEERS if option == "-p2p" and alone else _LINKS
    return _LINKS if _ERROR.search(text) or _COMMAND.search(text) else ""


def _read(text: str) -> Reading:
    options = _Options(text)
    links = list(leading(table for table in tables(text, _GPUS) if not _is_peer_access(table, options)))
    if not any(table.rows for table in links):
        peers = (table for table in tables(text, _GPUS) if _is_peer_access(table, options))
        if table := next(peers, None):
            return _peer_access(table)
    first = chosen(links)
    hidden = first is not None and options.at(first.start) == "-mp"
    reading = read_first(links, _PATHS if hidden else _LINKS)
    if reading is None:
        return no_table(_LINKS, line_of(text, _ERROR.search(text)), "the text has no table of GPUs")
    return replace(reading, warnings=(_HIDDEN, *reading.warnings)) if hidden else reading


def _is_peer_access(table: LinkTable, options: _Options) -> bool:
    codes = set(table.codes())
    return not codes.isdisjoint(_WORDS) or (codes == {"X"} and options.at(table.start) == "-p2p")


def _peer_access(table: LinkTable) -> Reading:
    """Status words are about access to memory, not about links."""
    status = tuple(f"peer access of {row.name}: {' '.join(split_row(row.text).codes)}" for row in table.rows.values())
    devices = tuple(table.rows)
    return Reading(_PEERS, "no matrix", devices, facts=tuple(map(DeviceFacts, devices)), warnings=status)


READERS: Final = (
    Reader(_LINKS, lambda text: _kind(text) == _LINKS, _read, yields="matrix of GPUs"),
    Reader(_PATHS, lambda text: _kind(text) == _PATHS, _read, yields="matrix of GPUs"),
    Reader(_PEERS, lambda text: _kind(text) == _PEERS, _read, yields="matrix of GPUs"),
)


VENDOR: Final = Vendor(
    name="nvidia",
    readers=(*READERS, *p2p_test.READERS, *nvbandwidth.READERS, *inventory.READERS),
    tools={
        "nvidia-smi": "nvidia-smi topo -m",
        "NVIDIA-SMI": "nvidia-smi topo -m",
        "nvbandwidth": "nvbandwidth -t device_to_device_memcpy_read_ce",
    },
    machines=machines,
    # rule 002.nodes: each device maps to a list of nodes, its own and those of the driver.
    container_needs=NeedsRule(
        node="/dev/nvidia{number}",
        control=("/dev/nvidiactl", "/dev/nvidia-uvm"),
        optional=("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
        visible="NVIDIA_VISIBLE_DEVICES",
        used="CUDA_VISIBLE_DEVICES",
        named_by="uuid",
        cdi="nvidia.com/gpu",
        # NVML's index differs from the minor on some hosts; a guess would open another device.
        first=None,
    ),
    driver_files=DriverFiles(
        toolkit=("nvidia-container-runtime", "nvidia-container-cli", "nvidia-ctk", "nvidia-cdi-hook"),
        libraries=(
            r"lib(?:cuda|cudadebugger"
            r"|nvidia-(?:ml|ptxjitcompiler|nvvm|gpucomp|allocator|fatbinaryloader|opencl|cfg|encode))\.so(?:\.[0-9.]+)?"
        ),
        programs=("nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"),
        inside="/usr/local/nvidia",
        folders=("usr/local/nvidia/toolkit", "opt/nvidia/toolkit"),
    ),
    device_taints=TAINTS,
)

"""Links between GPUs as NVML reports them: NVLinks, direct or through switches, and the PCIe path beside them.

The result is what `nvidia-smi topo -m` prints, with the PCIe path that it hides behind NVLinks.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.drivers.device_facts import Failure
from linkwise.drivers.host_files import pci_address
from linkwise.model.link import SELF, Link, Pcie

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from linkwise.drivers.nvml.devices import Gpu
    from linkwise.drivers.nvml.library import Library

__all__ = ["PciePaths", "link_rows"]

# rule 000.links: the levels of NVML are the PCIe paths that nvidia-smi prints.
_PATHS: Final = {0: Pcie.BOARD, 10: Pcie.PIX, 20: Pcie.PXB, 30: Pcie.PHB, 40: Pcie.NODE, 50: Pcie.SYS}
_SWITCH: Final = "switch"
"""the remote end of links to any NVSwitch"""
_TYPE_GPU: Final = 0
_TYPE_SWITCH: Final = 2
_SHOWN: Final = 4
_ACTIVE: Final = 1


class PciePaths:
    """PCIe paths between GPUs, read once: they do not change while the GPUs stay where they are.

    Walking all pairs takes seconds on some machines, so only what is not known yet is asked for.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Pcie] = {}

    def between(self, library: Library, a: Gpu, b: Gpu) -> Pcie:
        """The path; UNKNOWN if it can't be read now."""
        key = (f"{a.device.id} {a.device.bus_id}", f"{b.device.id} {b.device.bus_id}")
        if key not in self._known:
            level = library.number("nvmlDeviceGetTopologyCommonAncestor", a.handle, b.handle)
            path = Pcie.UNKNOWN if isinstance(level, Failure) else _PATHS.get(level, Pcie.UNKNOWN)
            if not path:
                return path
            self._known[key] = path
        return self._known[key]


def link_rows(
    library: Library, gpus: Sequence[Gpu], paths: PciePaths, others: Collection[str], *, complete: bool
) -> tuple[tuple[tuple[Link, ...], ...], list[str]]:
    """The link matrix, and sentences about links of which only one end is active.

    `others` are the bus ids of GPUs that can't be read now. `complete`: the bus ids of all GPUs are known, so that an
    end at any other one is a switch.
    """
    buses = {pci_address(gpu.device.bus_id): gpu.device.id for gpu in gpus} | {pci_address(bus): "" for bus in others}
    buses.pop("", None)
    ends = [_remote_ends(library, gpu, buses, complete=complete) for gpu in gpus]
    links: dict[tuple[int, int], Link] = {}
    uneven: list[str] = []
    for i, j in combinations(range(len(gpus)), 2):
        a, b = gpus[i].device, gpus[j].device
        one, other = ends[i][b.id], ends[j][a.id]
        # A link works only if both ends do.
        through_switches = min(ends[i][_SWITCH], ends[j][_SWITCH])
        links[i, j] = Link.of(min(one, other) + through_switches, paths.between(library, gpus[i], gpus[j]))
        if one != other and a.healthy and b.healthy:
            uneven.append(f"{a.index} and {b.index} ({one} and {other})")
    rows = tuple(
        tuple(SELF if i == j else links[min(i, j), max(i, j)] for j in range(len(gpus))) for i in range(len(gpus))
    )
    return rows, _sentence(uneven)


def _remote_ends(library: Library, gpu: Gpu, buses: dict[str, str], *, complete: bool) -> Counter[str]:
    """Active NVLinks of a GPU by the id of the GPU at the other end, or `switch`."""
    ends = Counter[str]()
    for number in range(library.most_links()):
        state = library.number("nvmlDeviceGetNvLinkState", gpu.handle, number)
        if isinstance(state, Failure) and state.dead:
            break
        if state == _ACTIVE:
            ends[_remote_end(library, gpu, number, buses, complete=complete)] += 1
    return ends


def _remote_end(library: Library, gpu: Gpu, number: int, buses: dict[str, str], *, complete: bool) -> str:
    bus_id = library.bus_id("nvmlDeviceGetNvLinkRemotePciInfo", gpu.handle, number)
    address = "" if isinstance(bus_id, Failure) else pci_address(bus_id)
    if address in buses:
        return buses[address]
    kind = library.number("nvmlDeviceGetNvLinkRemoteDeviceType", gpu.handle, number)
    # rule 000.nvswitch: behind a switch, the remote end is the switch and not the other GPU.
    if kind == _TYPE_SWITCH:
        return _SWITCH
    # Drivers without this function have no other sign of a switch than an end that is no GPU of this machine.
    return _SWITCH if isinstance(kind, Failure) and address and complete else ""


def _sentence(uneven: list[str]) -> list[str]:
    if not uneven:
        return []
    more = f", and {len(uneven) - _SHOWN} more pairs" if len(uneven) > _SHOWN else ""
    pairs = ", ".join(uneven[:_SHOWN])
    return [f"the two ends report different numbers of NVLinks between devices {pairs}{more}; the smaller one is used"]

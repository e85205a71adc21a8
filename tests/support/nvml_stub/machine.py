"""Machines that the stub of NVML simulates, with every way in which a GPU can fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.model.link import Pcie
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.vendors.machine import MachineProfile

__all__ = [
    "GPU_IS_LOST",
    "NOT_SUPPORTED",
    "NVLINK_GPU",
    "NVLINK_SWITCH",
    "UNKNOWN",
    "StubGpu",
    "StubLink",
    "StubMachine",
    "dgx1_v100",
    "nvswitch_a100",
    "of_profile",
    "two_pcie",
]

NOT_SUPPORTED: Final = 3
GPU_IS_LOST: Final = 15
UNKNOWN: Final = 999

NVLINK_GPU: Final = 0
NVLINK_SWITCH: Final = 2

LEVELS: Final = {Pcie.BOARD: 0, Pcie.PIX: 10, Pcie.PXB: 20, Pcie.PHB: 30, Pcie.NODE: 40, Pcie.SYS: 50}
"""of the common ancestor, as NVML numbers them"""
MOST_LINKS: Final = 18
SWITCHES: Final = 6
MIB: Final = 1024 * 1024
_UNSIGNED: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class StubLink:
    """An NVLink at its local end."""

    number: int
    remote: str
    """bus id of the other end"""
    type: int = NVLINK_GPU
    active: bool = True


@dataclass(frozen=True, slots=True)
class StubGpu:
    """One GPU; None for what it does not support."""

    uuid: str | None
    bus: str
    name: str | bytes = "Tesla V100-SXM2-16GB"
    memory: int | None = 16160 * MIB
    minor: int | None = None
    numa: int | None = None
    compute: tuple[int, int] | None = (7, 0)
    mig: bool | None = None
    brand: int | None = None
    vbios: str | None = None
    links: tuple[StubLink, ...] = ()
    used: int = 0
    utilization: tuple[int, int] | None = (0, 0)
    processes: tuple[tuple[int, int], ...] = ()
    """process ids with the bytes they use; -1 if that is not available"""
    drawing: tuple[tuple[int, int], ...] = ()
    """likewise, of processes that draw"""
    samples: tuple[tuple[int, int, int], ...] = ()
    """process ids with percent of compute, and the time in microseconds"""


@dataclass(frozen=True, slots=True)
class StubMachine:
    """The machine that the stub reports; its methods return changed copies."""

    gpus: tuple[StubGpu, ...]
    paths: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """level of the common ancestor of two GPUs; pairs that are not listed are not supported"""
    errors: tuple[tuple[str, int | None, int], ...] = ()
    """a symbol (* for all), the index of a GPU (None for every call) and the code that is returned"""
    xids: tuple[tuple[int, int], ...] = ()
    """the index of a GPU and the code of the event, in the order in which they happen"""
    count: int | None = None
    """the number of GPUs that is reported, if another than there are"""
    driver: str = "550.54.15"
    nvml: str = "12.550.54.15"
    cuda: int = 12040

    def failing(self, symbol: str, gpu: int | None = None, code: int = UNKNOWN) -> StubMachine:
        """A symbol returns an error, for one GPU or for all."""
        return replace(self, errors=(*self.errors, (symbol, gpu, code)))

    def losing(self, gpu: int) -> StubMachine:
        """The GPU has fallen off the bus: every call about it fails, and its index stays."""
        return self.failing("*", gpu, GPU_IS_LOST)

    def without(self, gpu: int) -> StubMachine:
        """The driver no longer lists the GPU, and those behind it move up."""
        kept = [number for number in range(len(self.gpus)) if number != gpu]
        return replace(
            self,
            gpus=tuple(self.gpus[number] for number in kept),
            paths={(kept.index(i), kept.index(j)): level for (i, j), level in self.paths.items() if gpu not in {i, j}},
        )

    def changing(self, gpu: int, **fields: object) -> StubMachine:
        """The GPU reports other values."""
        changed = replace(self.gpus[gpu], **fields)  # type: ignore[arg-type]
        return replace(self, gpus=(*self.gpus[:gpu], changed, *self.gpus[gpu + 1 :]))

    def with_xid(self, gpu: int, code: int) -> StubMachine:
        """One more Xid event; -1 for one that names no GPU."""
        return replace(self, xids=(*self.xids, (gpu, code)))

    def text(self) -> bytes:
        """The file that the stub reads."""
        return b"".join(line + b"\n" for line in self._lines())

    def _lines(self) -> Iterator[bytes]:
        yield f"gpus {len(self.gpus)}".encode()
        if self.count is not None:
            yield f"count {self.count}".encode()
        yield from (line.encode() for line in (f"driver {self.driver}", f"nvml {self.nvml}", f"cuda {self.cuda}"))
        for index, gpu in enumerate(self.gpus):
            yield from _gpu_lines(index, gpu)
        for (i, j), level in self.paths.items():
            yield f"path {i} {j} {level}".encode()
        for symbol, number, code in self.errors:
            yield f"error {symbol} {'*' if number is None else number} {code}".encode()
        for serial, (number, code) in enumerate(self.xids, 1):
            yield f"xid {serial} {number} {code}".encode()


def of_profile(machine: MachineProfile) -> StubMachine:
    """A machine with the devices and links of a profile; through switches where a GPU has too few links for all."""
    count, rows = machine.devices, machine.topology.links
    buses = [f"00000000:{0x07 + 4 * index:02X}:00.0" for index in range(count)]
    direct = {(i, j): rows[i][j].direct for i, j in combinations(range(count), 2)} if rows else {}
    links = _links(buses, direct)
    gpus = tuple(
        StubGpu(
            f"GPU-{index:08x}-0000-4000-8000-{index:012x}",
            buses[index],
            machine.model,
            machine.memory * MIB,
            minor=index,
            links=tuple(links[index]),
        )
        for index in range(count)
    )
    paths = {(i, j): LEVELS[rows[i][j].pcie] for i, j in combinations(range(count), 2) if rows and rows[i][j].pcie}
    return StubMachine(gpus, paths)


def dgx1_v100() -> StubMachine:
    """Eight V100 in a cube mesh of NVLinks."""
    return of_profile(profile("dgx1-v100"))


def nvswitch_a100() -> StubMachine:
    """Eight A100, each with twelve NVLinks to switches, beside PCIe paths as on an HGX board."""
    made = of_profile(profile("dgx-a100"))
    paths = {
        (i, j): LEVELS[Pcie.PXB if i // 2 == j // 2 else Pcie.NODE if i // 4 == j // 4 else Pcie.SYS]
        for i, j in combinations(range(8), 2)
    }
    gpus = tuple(replace(gpu, compute=(8, 0), mig=False) for gpu in made.gpus)
    return replace(made, gpus=gpus, paths=paths)


def two_pcie() -> StubMachine:
    """Two GPUs without NVLink, on one host bridge."""
    made = of_profile(profile("v100-pcie"))
    return StubMachine(made.gpus[:2], {(0, 1): LEVELS[Pcie.PHB]})


def _links(buses: list[str], direct: Mapping[tuple[int, int], int]) -> list[list[StubLink]]:
    ends = Counter[int]()
    for (i, j), number in direct.items():
        ends.update({i: number, j: number})
    links: list[list[StubLink]] = [[] for _ in buses]
    if max(ends.values(), default=0) > MOST_LINKS:
        for own in links:
            own += [
                StubLink(number, f"00000000:{0xC0 + number % SWITCHES:02X}:00.0", NVLINK_SWITCH)
                for number in range(max(direct.values()))
            ]
        return links
    for (i, j), number in direct.items():
        for _ in range(number):
            links[i].append(StubLink(len(links[i]), buses[j]))
            links[j].append(StubLink(len(links[j]), buses[i]))
    return links


def _gpu_lines(index: int, gpu: StubGpu) -> Iterator[bytes]:
    name = gpu.name if isinstance(gpu.name, bytes) else gpu.name.encode()
    yield b"name %d %s" % (index, name)
    values = {
        "uuid": gpu.uuid,
        "bus": gpu.bus,
        "memory": gpu.memory,
        "used": gpu.used,
        "minor": gpu.minor,
        "numa": gpu.numa,
        "compute": gpu.compute and f"{gpu.compute[0]} {gpu.compute[1]}",
        "mig": None if gpu.mig is None else int(gpu.mig),
        "brand": gpu.brand,
        "vbios": gpu.vbios,
        "utilization": gpu.utilization and f"{gpu.utilization[0]} {gpu.utilization[1]}",
    }
    for key, value in values.items():
        if value is not None:
            yield f"{key} {index} {value}".encode("utf-8", "surrogateescape")
    for process, used in gpu.processes:
        yield f"process {index} {process} {used % _UNSIGNED}".encode()
    for process, used in gpu.drawing:
        yield f"graphics {index} {process} {used % _UNSIGNED}".encode()
    for process, percent, time in gpu.samples:
        yield f"busy {index} {process} {percent} {time}".encode()
    for link in gpu.links:
        state = (
            f"link {index} {link.number} {link.type} {link.remote}" if link.active else f"down {index} {link.number}"
        )
        yield state.encode()

"""Machines that the stub of AMD SMI simulates, with the ways in which a GPU can fail."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["NOT_FOUND", "NOT_SUPPORTED", "PCIE", "XGMI", "StubAmd", "StubGpu", "cpx", "mi100_four", "mi300"]

PCIE: Final = 1
XGMI: Final = 2
NOT_SUPPORTED: Final = 2
NOT_FOUND: Final = 31


@dataclass(frozen=True, slots=True)
class StubGpu:
    """One GPU or partition; None for what it does not support."""

    key: str
    uuid: str | None
    bus: int
    socket: int
    partition: int = 0
    render: int | None = None
    card: int | None = None
    model: str | None = "AMD Instinct MI300X"
    driver: str | None = "6.12.12"
    vram: int | None = 196592 << 20
    used: int | None = 283 << 20
    busy: int | None = 0
    numa: int | None = 0
    compute: str | None = "SPX"
    memory_mode: str | None = "NPS1"
    ecc: tuple[int, int] | None = (0, 0)
    pages: int | None = 0
    threshold: int | None = 128

    @property
    def kfd(self) -> int:
        """The number that KFD gives it."""
        return 40000 + self.bus * 8 + self.partition


@dataclass(frozen=True, slots=True)
class StubAmd:
    """The machine that the stub and the kernel report; its methods return changed copies."""

    gpus: tuple[StubGpu, ...]
    links: Mapping[tuple[str, str], tuple[int, int, int]] = field(default_factory=dict)
    """type, weight and hops by the keys of two GPUs"""
    errors: tuple[tuple[str, str, int], ...] = ()
    """a symbol (* for all), a key (* for every call) and the code that is returned"""
    rocm: str = "6.4.1-83"
    processes: Mapping[int, Mapping[str, int | str]] | None = field(default_factory=dict)
    """the bytes that KFD lists, by process and by the key of a GPU; None if it lists no processes"""

    def changing(self, key: str, **fields: object) -> StubAmd:
        """The GPU reports other values."""
        gpus = [replace(one, **fields) if one.key == key else one for one in self.gpus]  # type: ignore[arg-type]
        return replace(self, gpus=tuple(gpus))

    def failing(self, symbol: str, key: str = "*", code: int = NOT_FOUND) -> StubAmd:
        """A symbol returns an error, for one GPU or for all."""
        return replace(self, errors=(*self.errors, (symbol, key, code)))

    def without(self, key: str) -> StubAmd:
        """The driver no longer lists the GPU."""
        return replace(self, gpus=tuple(one for one in self.gpus if one.key != key))

    def text(self) -> str:
        """The file that the stub reads."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for one in self.gpus:
            yield f"gpu {one.socket} {one.key}"
            values = {
                "uuid": one.uuid,
                "model": one.model,
                "driver": one.driver,
                "compute": one.compute,
                "memory_mode": one.memory_mode,
                "bdf": f"0 {one.bus:x} 0 {one.partition:x}",
                "vram": one.vram,
                "used": one.used,
                "busy": one.busy,
                "numa": one.numa,
                "ecc": one.ecc and " ".join(map(str, one.ecc)),
                "pages": one.pages,
                "threshold": one.threshold,
            }
            yield from (f"{name} {one.key} {value}" for name, value in values.items() if value is not None)
        yield from (f"link {a} {b} {' '.join(map(str, link))}" for (a, b), link in self.links.items())
        yield from (f"error {symbol} {key} {code}" for symbol, key, code in self.errors)

    def write_kernel_files(self, host: Path) -> None:
        """Write what the kernel shows in /sys below a folder, with ROCm's version."""
        shutil.rmtree(host / "sys", ignore_errors=True)
        topology = host / "sys/class/kfd/kfd/topology/nodes"
        _file(topology / "0/properties", "cpu_cores_count 96\nlocation_id 0\ndrm_render_minor 0\n")
        for number, one in enumerate(self.gpus, 1):
            pci = host / f"sys/bus/pci/devices/0000:{one.bus:02x}:00.0"
            _file(pci / "vbios_version", "113-M3000100-103\n")
            if one.numa is not None:
                _file(pci / "numa_node", f"{one.numa}\n")
            if one.render is not None:
                location = one.partition << 28 | one.bus << 8
                properties = f"simd_count 1216\nlocation_id {location}\ndomain 0\ndrm_render_minor {one.render}\n"
                _file(topology / f"{number}/properties", properties)
                _file(topology / f"{number}/gpu_id", f"{one.kfd}\n")
                drm = host / f"sys/class/drm/renderD{one.render}/device/drm"
                (drm / f"renderD{one.render}").mkdir(parents=True)
                if one.card is not None:
                    (drm / f"card{one.card}").mkdir()
        if self.processes is not None:
            (host / "sys/class/kfd/kfd/proc").mkdir(parents=True)
        numbers = {one.key: one.kfd for one in self.gpus}
        for pid, memory in (self.processes or {}).items():
            for key, used in memory.items():
                _file(host / f"sys/class/kfd/kfd/proc/{pid}/vram_{numbers[key]}", f"{used}\n")
        _file(host / "sys/module/amdgpu/version", "6.12.12\n")
        _file(host / "opt/rocm/.info/version", f"{self.rocm}\n")


def mi300(count: int = 8) -> StubAmd:
    """GPUs joined each to each by XGMI, half of them on each CPU socket; the first card of the host is its console."""
    gpus = tuple(
        StubGpu(
            f"g{n}",
            f"{0x10 + n:02x}ff74a1-0000-1000-80bd-5ee800000000",
            0x0C + 0x10 * n,
            n,
            render=128 + n,
            card=1 + n,
            numa=n // 4,
        )
        for n in range(count)
    )
    return StubAmd(gpus, {(f"g{a}", f"g{b}"): (XGMI, 15, 1) for a, b in combinations(range(count), 2)})


def mi100_four() -> StubAmd:
    """Four GPUs on PCIe, every other one on the same CPU socket."""
    machine = mi300(4)
    links = {
        (f"g{a}", f"g{b}"): (PCIE, 40, 2) if a % 2 == b % 2 else (PCIE, 72, 3) for a, b in combinations(range(4), 2)
    }
    return replace(machine, links=links)


def cpx() -> StubAmd:
    """One GPU that is divided into eight partitions, all with its UUID."""
    gpus = tuple(
        StubGpu(
            f"p{n}",
            "10ff74a1-0000-1000-80bd-5ee800000000",
            0x0C,
            0,
            partition=n,
            render=128 + n,
            card=1 + n,
            compute="CPX",
            memory_mode="NPS4",
            vram=24574 << 20,
        )
        for n in range(8)
    )
    return StubAmd(gpus, {(f"p{a}", f"p{b}"): (XGMI, 15, 1) for a, b in combinations(range(8), 2)})


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "ascii")

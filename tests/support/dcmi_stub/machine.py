"""Machines that the stub of DCMI simulates, with the ways in which a chip can fail."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["CRITICAL", "HCCS", "NOT_EXIST", "NOT_SUPPORTED", "UNREACHABLE", "StubChip", "StubNpus", "atlas_800", "duo"]

SYS: Final = 1
HCCS: Final = 3
PIX: Final = 5
CRITICAL: Final = 3
UNREACHABLE: Final = 3
"""network health"""
NOT_EXIST: Final = -8008
NOT_SUPPORTED: Final = -8255


@dataclass(frozen=True, slots=True)
class StubChip:
    """One NPU; None for what it does not support."""

    card: int
    chip: int
    physical: int
    name: str | None = "910A"
    hbm: int | None = 32768
    memory: int | None = None
    bus: tuple[int, int, int, int] | None = None
    health: int | None = 0
    network: int | None = 0
    codes: tuple[int, ...] = ()
    ip: str | None = None
    unit: int = 0
    hbm_used: int = 0
    memory_percent: int = 0
    """of memory other than HBM"""
    busy: int | None = None
    processes: tuple[tuple[int, int], ...] | None = None
    """process ids with the bytes they use"""


@dataclass(frozen=True, slots=True)
class StubNpus:
    """The machine that the stub reports; its methods return changed copies."""

    chips: tuple[StubChip, ...]
    paths: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """topology by the physical ids of two chips; pairs that are not listed are not supported"""
    errors: tuple[tuple[str, int | None, int], ...] = ()
    """a symbol (* for all), a card (None for every call) and the code that is returned"""
    driver: str = "23.0.3"

    def changing(self, physical: int, **fields: object) -> StubNpus:
        """The chip reports other values."""
        chips = [replace(one, **fields) if one.physical == physical else one for one in self.chips]  # type: ignore[arg-type]
        return replace(self, chips=tuple(chips))

    def faulty(self, physical: int, *codes: int) -> StubNpus:
        """The chip reports a critical fault."""
        return self.changing(physical, health=CRITICAL, codes=codes)

    def unreachable(self, physical: int) -> StubNpus:
        """Other machines can't reach the chip."""
        return self.changing(physical, network=UNREACHABLE)

    def failing(self, symbol: str, card: int | None = None, code: int = NOT_EXIST) -> StubNpus:
        """A symbol returns an error, for the chips of one card or for all."""
        return replace(self, errors=(*self.errors, (symbol, card, code)))

    def without(self, physical: int) -> StubNpus:
        """The driver no longer lists the chip."""
        return replace(self, chips=tuple(one for one in self.chips if one.physical != physical))

    def text(self) -> str:
        """The file that the stub reads."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"driver {self.driver}"
        for logic, one in enumerate(self.chips):
            where = f"{one.card} {one.chip}"
            yield f"chip {where} {logic} {one.physical}"
            values = {
                "type": "Ascend",
                "name": one.name,
                "hbm": one.hbm,
                "memory": one.memory,
                "bus": one.bus and " ".join(f"{part:x}" for part in one.bus),
                "health": one.health,
                "network": one.network,
                "ip": one.ip,
                "unit": one.unit,
                "hbm_used": one.hbm_used,
                "memory_percent": one.memory_percent,
                "busy": one.busy,
                "processes": None if one.processes is None else "",
            }
            yield from (f"{key} {where} {value}" for key, value in values.items() if value is not None)
            yield from (f"code {where} {code:x}" for code in one.codes)
            yield from (f"process {where} {process} {used}" for process, used in one.processes or ())
        yield from (f"path {a} {b} {path}" for (a, b), path in self.paths.items())
        yield from (f"error {symbol} {'*' if card is None else card} {code}" for symbol, card, code in self.errors)


def atlas_800() -> StubNpus:
    """Eight 910 in two rings of four, each with a network port."""
    chips = tuple(
        StubChip(number, 0, number, bus=(0, 0x11 + 0x10 * number, 0, 0), ip=f"192.168.100.{101 + number}")
        for number in range(8)
    )
    paths = {(a, b): HCCS if a // 4 == b // 4 else SYS for a, b in combinations(range(8), 2)}
    return StubNpus(chips, paths)


def duo() -> StubNpus:
    """Two inference cards, each with two chips and a management controller."""
    chips = tuple(
        StubChip(card, chip, 2 * number + chip, "310P3", None, 44280, unit=0)
        for number, card in enumerate((2, 5))
        for chip in range(2)
    )
    controllers = tuple(StubChip(card, 2, 90 + card, None, None, unit=1) for card in (2, 5))
    return StubNpus((*chips, *controllers), {(0, 1): PIX, (2, 3): PIX})

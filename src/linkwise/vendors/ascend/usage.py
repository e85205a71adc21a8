"""Reader of usage in the tables of `npu-smi info`: memory, busy AI cores, and the processes on each chip."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.model.usage import DeviceUsage, ProcessUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["chip_usages"]

_MIB: Final = 1 << 20
_PROCESSES: Final = "Process id"
_OWN_COLUMN: Final = re.compile(r"\|[ \t]*NPU[ \t]+ID[ \t]*\|[ \t]*Name")
"""the newest layout gives the number of the card a column of its own"""
_CARD: Final = re.compile(r"(?P<card>[0-9]{1,4})\s+\S.*")
_PLACE: Final = re.compile(r"(?P<chip>[0-9]{1,4})(?:\s+(?P<own>[0-9]{1,4}))?")
_LOAD: Final = re.compile(r"(?P<busy>[0-9]{1,3}|\S+)\s+(?P<memory>[0-9].*)")
_PAIR: Final = re.compile(r"([0-9]{1,9}) */ *([0-9]{1,9})")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


def chip_usages(text: str) -> dict[int, DeviceUsage]:
    """The usage by the number of the chip; ids are empty, because the table has none."""
    head, marker, tail = text.partition(_PROCESSES)
    found: dict[int, DeviceUsage] = {}
    numbers: dict[tuple[int, int], int] = {}
    for card, chip, own, load in _chips(head):
        number = own if own is not None else card
        numbers[card, chip] = number
        found.setdefault(number, load)
    running: dict[int, list[ProcessUsage]] = {}
    for card, chip, process in _processes(tail):
        if (card, chip) in numbers:
            running.setdefault(numbers[card, chip], []).append(process)
    return {
        number: DeviceUsage(
            "", one.total, one.used, one.utilization, tuple(running.get(number, ())) if marker else None
        )
        for number, one in found.items()
    }


def _chips(text: str) -> Iterator[tuple[int, int, int | None, DeviceUsage]]:
    """Card, chip, own number and load of each chip, which has two lines."""
    card: int | None = None
    split = _OWN_COLUMN.search(text) is not None
    for every in _lines(text):
        cells = [" ".join(every[:2]).strip(), *every[2:]] if split else every
        place = _PLACE.fullmatch(cells[0])
        if card is None:  # the model may be a number: only the order of lines tells both apart
            named = _CARD.fullmatch(cells[0])
            card = int(named["card"]) if named else None
        elif place and len(cells) > 2:
            yield card, int(place["chip"]), int(place["own"]) if place["own"] else None, _load(cells[2])
            card = None


def _load(cell: str) -> DeviceUsage:
    """The last pair is HBM where the chip has it; without, it is 0 / 0 or not printed."""
    load = _LOAD.fullmatch(cell)
    pairs = [(int(used), int(total)) for used, total in _PAIR.findall(load["memory"] if load else cell)]
    used, total = next((pair for pair in reversed(pairs) if pair[1]), (None, None))
    busy = int(load["busy"]) if load and load["busy"].isdecimal() else None
    return DeviceUsage("", _bytes(total), _bytes(used), busy)


def _processes(text: str) -> Iterator[tuple[int, int, ProcessUsage]]:
    """Card, chip and process of each row: | NPU Chip | process id | name | memory in MB |."""
    for cells in _lines(text):
        place = cells[0].split()
        if len(cells) == 4 and len(place) == 2 and all(map(_NUMBER.fullmatch, (*place, cells[1]))):
            memory = int(cells[3]) if _NUMBER.fullmatch(cells[3]) else None
            yield int(place[0]), int(place[1]), ProcessUsage(int(cells[1]), _bytes(memory))


def _lines(text: str) -> Iterator[list[str]]:
    """The cells of the lines of a table."""
    for line in text.splitlines():
        if line.lstrip().startswith("|"):
            cells = [cell.strip() for cell in line.strip().split("|")[1:-1]]
            if cells and cells[0]:
                yield cells


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * _MIB

"""Huawei Ascend: descriptor, and readers of `npu-smi info`: links (-t topo), device lists and usage.

A card (NPU ID) holds one or more chips, and a chip is a device. A device is named by the id in its row (Phy-ID,
Device), or by its card where the tool prints no other id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.model.device import MIB
from linkwise.model.usage import DeviceUsage, ProcessUsage
from linkwise.vendors.inventory_text import BUS_ID, believed, inventory, left_out, refusals, value_or_empty, whole_lines
from linkwise.vendors.link_table.layout import Names, leading, line_of, tables
from linkwise.vendors.link_table.matrix import no_table, read_first
from linkwise.vendors.machine import MachineProfile, grouped
from linkwise.vendors.reader import DeviceFacts, Reader, Reading
from linkwise.vendors.vendor import LinkCode, NeedsRule, Vendor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.model.link import Link

__all__ = [
    "HEALTH_STATES",
    "INVENTORY_READERS",
    "NETWORK_STATES",
    "READERS",
    "VENDOR",
    "chip_name",
    "chip_usages",
    "is_usable",
    "rings_of",
]

_TABLE: Final = "npu-smi info"
_MAP: Final = "npu-smi info -m"
_LIST: Final = "npu-smi info -l"

_REFUSALS: Final = (
    "dcmi module initialize failed",
    "dcmi model initialized failed",
    "there is no npu card",
    "npu-smi: command not found",
    "npu-smi: not found",
)
_TABLE_HEAD: Final = re.compile(r"^[ \t>#]*\|[ \t]*NPU[ \t]+(ID[ \t]*\|[ \t]*)?Name[ \t]*\|[ \t]*Health", re.MULTILINE)
_MAP_HEAD: Final = re.compile(r"^[ \t>#|]*NPU ID[ \t]+(?:Slot ID[ \t]+)?Chip ID[ \t][^\n]*Chip Name", re.MULTILINE)
_LIST_HEAD: Final = re.compile(r"^[ \t>#|]*(?:Total|Card) Count[ \t]*:", re.MULTILINE)
_MAP_COLUMNS: Final = re.compile(r"NPU ID|Slot ID|Chip ID|Chip Logic ID|Chip Phy-ID|Chip Name")
_VERSION: Final = re.compile(r"Version: (\S+)[ \t]*\|")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_USAGE: Final = re.compile(r"([0-9]{1,9}) */ *([0-9]{1,9})")
_LIST_KEYS: Final = {"Product Name", "Serial Number", "Chip Count"}
_NO_CHIPS: Final = {"Mcu", "MCU", "3559"}
_PROCESSES: Final = "Process id"
_OWN_COLUMN: Final = re.compile(r"\|[ \t]*NPU[ \t]+ID[ \t]*\|[ \t]*Name")
"""the newest layout gives the number of the card a column of its own"""
_CARD: Final = re.compile(r"(?P<card>[0-9]{1,4})\s+\S.*")
_PLACE: Final = re.compile(r"(?P<chip>[0-9]{1,4})(?:\s+(?P<own>[0-9]{1,4}))?")
_LOAD: Final = re.compile(r"(?P<busy>[0-9]{1,3}|\S+)\s+(?P<memory>[0-9].*)")
HEALTH_STATES: Final = {0: "OK", 1: "Warning", 2: "Alarm", 3: "Critical", 0xFFFFFFFF: "absent"}
"""by the number of DCMI: the words of `npu-smi info`"""
_USABLE: Final = frozenset({0, 1})
"""with a warning a chip computes on, and Huawei's device plugin keeps it allocatable"""
NETWORK_STATES: Final = {
    1: "the socket can't be opened",
    2: "no reply was received in time",
    3: "the destination is unreachable",
    4: "the time to live was exceeded",
    5: "the detection failed",
    7: "the detection thread failed",
    8: "its address is being set",
}
"""by the number of DCMI: states in which other machines can't reach a chip; others, 0 (OK) and 6 (starting), are fine"""
_KIND: Final = "npu-smi info -t topo"
_NPUS: Final = Names("(?:NPU|Phy-ID)[0-9]{1,3}")
_COMMAND: Final = re.compile(r"npu-smi[ \t]+info[ \t]+(?:-[a-z][ \t]+[^ \t\n]+[ \t]+){0,4}-t[ \t]+topo")
_REFUSAL: Final = re.compile(r"does not support querying topo")
_ERROR: Final = re.compile(
    r"does not support querying topo|npu-smi: .{0,40}not found|dcmi .{0,40}fail|(?i:error|failed)"
)


@dataclass(frozen=True, slots=True)
class _Card:
    """The first line of a device; the second has the id, the bus id and the memory."""

    number: int
    model: str
    health: str | None


def _read_table(text: str) -> Reading:
    devices: dict[str, DeviceFacts] = {}
    problems: list[str] = []
    warnings: list[str] = []
    for row in _table(text):
        if isinstance(row, str):
            problems.append(row)
        elif row.name in devices:
            warnings.append(f"{row.name} is listed twice; the first is used")
        else:
            devices[row.name] = row
    warnings += [f"{device.name}: health is {device.health}" for device in devices.values() if _unhealthy(device)]
    return inventory(_TABLE, list(devices.values()), problems, warnings, refusals(text, _REFUSALS))


def _table(text: str) -> Iterator[DeviceFacts | str]:
    """The devices of the first table, and sentences for what is cut."""
    head = _TABLE_HEAD.search(text)
    if head is None:
        return
    version = _VERSION.search(text, 0, head.end())
    driver = version[1] if version else ""
    card: _Card | None = None
    for line, _ in whole_lines(text[head.start() :]):
        if "Process id" in line or "No running processes" in line:
            break
        if left_out(line):
            yield "rows are left out: '...'"
        cells = _cells(line, split_id=head[1] is not None)
        if not cells:
            continue
        if card is not None and _is_second(cells):
            yield from _device(card, cells, driver)
            card = None
            continue
        if card is not None:
            yield f"NPU card {card.number}: the bus id and the memory are missing"
        elif _is_second(cells) and len(cells) > 1:
            yield f"the first line of the chip at {cells[1]} is missing"
        card = _card(cells)
    if card is not None:
        yield f"NPU card {card.number}: the bus id and the memory are missing"


def _cells(line: str, *, split_id: bool) -> list[str]:
    """The cells that end with a bar; what follows the last bar may be cut."""
    body = line.lstrip(" \t>#")
    if not body.startswith("|"):
        return []
    cells = [cell.strip() for cell in body.split("|")[1:-1]]
    # The newest layout gives the id a column of its own.
    return [" ".join(cells[:2]).strip(), *cells[2:]] if split_id and len(cells) > 1 else [] if split_id else cells


def _card(cells: list[str]) -> _Card | None:
    number, _, model = cells[0].partition(" ")
    if not _NUMBER.fullmatch(number) or not model:
        return None
    return _Card(int(number), model.strip(), cells[1] if len(cells) > 1 else None)


def _is_second(cells: list[str]) -> bool:
    """Whether it is the second line of a device: ids, then a bus id or none."""
    if not all(map(_NUMBER.fullmatch, cells[0].split())):
        return False
    return len(cells) == 1 or not value_or_empty(cells[1]) or BUS_ID.fullmatch(cells[1]) is not None


def _device(card: _Card, cells: list[str], driver: str) -> Iterator[DeviceFacts | str]:
    ids = [int(number) for number in cells[0].split()]
    name = _name(card.number, ids[0] if ids else 0, ids[1] if len(ids) > 1 else None)
    facts = DeviceFacts(name, model=card.model, health=value_or_empty(card.health or ""), driver=driver)
    if len(cells) > 1:
        facts = replace(facts, bus_id=value_or_empty(cells[1]))
    else:
        yield f"{name}: the bus id is cut off"
    usages = _USAGE.findall(cells[2]) if len(cells) > 2 else []
    if usages:
        # The last pair is HBM where the chip has it; without, it is 0 / 0 or not printed.
        used, total = next((pair for pair in reversed(usages) if int(pair[1])), usages[-1])
        facts = replace(facts, memory=int(total), memory_used=int(used))
    else:
        yield f"{name}: the memory is cut off"
    yield facts


def _unhealthy(device: DeviceFacts) -> bool:
    return device.health not in {"", "OK"}


def _name(card: int, chip: int, own: int | None) -> str:
    if own is not None:
        return f"NPU{own}"
    return f"NPU{card}-{chip}" if chip else f"NPU{card}"


def _read_map(text: str) -> Reading:
    devices: dict[str, DeviceFacts] = {}
    problems: list[str] = []
    warnings: list[str] = []
    columns: list[str] = []
    for line, ended in whole_lines(text):
        body = line.lstrip(" \t>#|")
        if not columns:
            columns = _MAP_COLUMNS.findall(body) if ended and _MAP_HEAD.match(line) else []
            continue
        if left_out(line):
            problems.append("rows are left out: '...'")
            continue
        row = dict(zip(columns, body.split(None, len(columns) - 1), strict=False))
        if not _NUMBER.fullmatch(row.get("NPU ID", "")):
            if body and ended:
                break
            continue
        if len(row) < len(columns):
            problems.append(f"the row of NPU card {row['NPU ID']} is cut off" if len(row) > 1 else "a row is cut off")
            break
        model = believed(row["Chip Name"].strip(), ended=ended)
        if model in _NO_CHIPS or not _ids(row):
            continue
        chip = _name(int(row["NPU ID"]), int(row["Chip ID"]), _number(row.get("Chip Phy-ID", "")))
        if model is None:
            problems.append(f"{chip}: the name is cut off")
        devices.setdefault(chip, DeviceFacts(chip, model=model or ""))
        if (logic := row.get("Chip Logic ID", row["NPU ID"])) != row["NPU ID"] and "Chip Phy-ID" not in row:
            warnings.append(f"{chip} has the logic id {logic}")
    return inventory(_MAP, list(devices.values()), problems, warnings, refusals(text, _REFUSALS))


def _ids(row: dict[str, str]) -> bool:
    """Whether every id is a number: rows of management chips have `-`."""
    return all(_NUMBER.fullmatch(row.get(column, "0")) for column in ("Chip ID", "Chip Logic ID", "Chip Phy-ID"))


def _number(value: str) -> int | None:
    return int(value) if _NUMBER.fullmatch(value) else None


def _read_list(text: str) -> Reading:
    blocks: dict[str, dict[str, str]] = {}
    count: int | None = None
    current: dict[str, str] = {}
    closed = False
    for line, ended in whole_lines(text):
        closed = closed or (ended and not line.strip())
        key, colon, value = (part.strip(" \t>#|") for part in line.partition(":"))
        if not colon or (known := believed(value, ended=ended)) is None:
            continue
        if key in {"Total Count", "Card Count"} and count is None:
            count = _number(known)
        elif key == "NPU ID" and _NUMBER.fullmatch(known):
            current, closed = blocks.setdefault(f"NPU{int(known)}", {}), False
        elif key in _LIST_KEYS:
            current.setdefault(key, known)
    expected = set[str]().union(*blocks.values())
    if not closed and blocks:
        # A block ends with this line, in newer versions with an empty one alone.
        expected.add("Chip Count")
    problems = [
        f"{name}: {', '.join(sorted(expected - block.keys()))} missing"
        for name, block in blocks.items()
        if expected - block.keys()
    ]
    if count is not None and count > len(blocks):
        problems.append(f"{len(blocks)} of {count} cards are in the text")
    facts = [DeviceFacts(name, model=value_or_empty(block.get("Product Name", ""))) for name, block in blocks.items()]
    return inventory(_LIST, facts, problems, _several(blocks.items()), refusals(text, _REFUSALS))


def _several(blocks: Iterable[tuple[str, dict[str, str]]]) -> list[str]:
    return [
        f"{name} is a card of {chips} chips; their ids are not in this list"
        for name, block in blocks
        if (chips := _number(block.get("Chip Count", ""))) is not None and chips > 1
    ]


def _read_refusal(text: str) -> Reading:
    return inventory("npu-smi", (), refused=refusals(text, _REFUSALS))


INVENTORY_READERS: Final = (
    Reader(_TABLE, lambda text: _TABLE_HEAD.search(text) is not None, _read_table, "devices"),
    Reader(_MAP, lambda text: _MAP_HEAD.search(text) is not None, _read_map, "devices"),
    Reader(_LIST, lambda text: _LIST_HEAD.search(text) is not None and "NPU ID" in text, _read_list, "devices"),
    Reader("npu-smi", lambda text: bool(refusals(text, _REFUSALS)), _read_refusal, "devices"),
)


def chip_usages(text: str) -> dict[int, DeviceUsage]:
    """The usage by the number of the chip; ids are empty, because the table has none."""
    head, marker, tail = text.partition(_PROCESSES)
    usages: dict[int, DeviceUsage] = {}
    numbers: dict[tuple[int, int], int] = {}
    for card, chip, own, load in _chips(head):
        number = own if own is not None else card
        numbers[card, chip] = number
        usages.setdefault(number, load)
    running: dict[int, list[ProcessUsage]] = {}
    for card, chip, process in _processes(tail):
        if (card, chip) in numbers:
            running.setdefault(numbers[card, chip], []).append(process)
    return {
        number: DeviceUsage(
            "", one.total, one.used, one.utilization, tuple(running.get(number, ())) if marker else None
        )
        for number, one in usages.items()
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
    pairs = [(int(used), int(total)) for used, total in _USAGE.findall(load["memory"] if load else cell)]
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
    return None if mebibytes is None else mebibytes * MIB


def chip_name(model: str, number: int) -> str:
    """The name of a chip in the lists of Huawei's tools: `Ascend910-3` for the fourth chip of any 910."""
    kind = "Ascend310P" if "310P" in model else "Ascend310" if "310" in model else "Ascend910"
    return f"{kind}-{number}"


def is_usable(health: int) -> bool:
    """Whether a chip in this state of health can be allocated."""
    return health in _USABLE


def _recognises(text: str) -> bool:
    if ("NPU" in text or "Phy-ID" in text) and (_NPUS.link_row.search(text) or _NPUS.whole_header.search(text)):
        return True
    return "topo" in text and bool(_REFUSAL.search(text) or _COMMAND.search(text))


def _read(text: str) -> Reading:
    reading = read_first(list(leading(tables(text, _NPUS))), _KIND)
    if reading is None:
        return no_table(_KIND, line_of(text, _ERROR.search(text)), "the text has no table of NPUs")
    return replace(reading, rings=rings_of(reading.links)) if reading.status == "ok" else reading


def rings_of(links: tuple[tuple[Link, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Sets of two or more devices that reach each other over direct links, by position."""
    left = set(range(len(links)))
    rings = []
    while left:
        reached = [min(left)]
        left.discard(reached[0])
        for device in reached:
            near = {other for other in left if links[device][other].direct or links[other][device].direct}
            left -= near
            reached += sorted(near)
        if len(reached) > 1:
            rings.append(tuple(sorted(reached)))
    return tuple(rings)


READERS: Final = (Reader(_KIND, _recognises, _read),)


def _machines() -> tuple[MachineProfile, ...]:
    return (
        MachineProfile(
            "atlas-800", "ascend", "Ascend 910A", 32768, grouped(8, "HCCS", group=4), "ascend-910", cpus=192
        ),
        MachineProfile("atlas-a2", "ascend", "Ascend 910B3", 65536, grouped(8, "HCCS"), "ascend-910b", cpus=192),
    )


VENDOR: Final = Vendor(
    name="ascend",
    readers=(*READERS, *INVENTORY_READERS),
    tools={"npu-smi": "npu-smi info -t topo"},
    links=(
        LinkCode("HCCS", "HCCS"),
        LinkCode("HCCS_SW", "HCCS"),  # through a switch
        LinkCode("SIO", "SIO", direct=2),  # between two dies of one module
        LinkCode("UB", "UB"),
    ),
    machines=_machines,
    container_needs=NeedsRule(
        node="/dev/davinci{number}",
        control=("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
        optional=("/dev/dvpp_cmdlist",),
        visible="ASCEND_VISIBLE_DEVICES",
        runtime=(
            "usr/local/Ascend/Ascend-Docker-Runtime/ascend-docker-runtime",
            "usr/local/bin/ascend-docker-runtime",
            "usr/bin/ascend-docker-runtime",
        ),
        runtime_options=(("ASCEND_RUNTIME_OPTIONS", ""),),  # whole chips; parts of chips are VIRTUAL
        cdi="huawei.com/npu",
    ),
)

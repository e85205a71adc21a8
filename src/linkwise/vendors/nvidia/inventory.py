"""Readers of NVIDIA's device lists, records and usage: `nvidia-smi -L`, `-q`, `--query-gpu`, and errors of the tool."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from linkwise.model.device import MIB
from linkwise.model.usage import DeviceUsage, ProcessUsage
from linkwise.vendors.inventory_text import (
    BUS_ID,
    amount,
    believed,
    free_numbers,
    inventory,
    left_out,
    prompt,
    refusals,
    value_or_empty,
    whole_lines,
)
from linkwise.vendors.reader import DeviceFacts, Reader, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "DEVICE_FIELDS",
    "PROCESS_FIELDS",
    "QUERY_READERS",
    "READERS",
    "REFUSALS",
    "NvLinks",
    "device_usages",
    "nvlinks",
]

REFUSALS: Final = (
    "nvidia-smi has failed",
    "failed to initialize nvml",
    "no devices were found",
    "unable to determine the device handle",
    "is not a valid field to query",
    "nvidia-smi: command not found",
    "nvidia-smi: not found",
)
"""error messages of the tool, or of the shell, in lower case"""

_LOG: Final = "nvidia-smi -q"
_CSV: Final = "nvidia-smi --query-gpu"

_BLOCK: Final = re.compile(rf"^[ \t>#|]*GPU ({BUS_ID.pattern})$", re.MULTILINE)
_MARK: Final = re.compile(r"[>#|] ?")
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_CELL: Final = re.compile(r"[a-z][\w.]*(?: \[[^\[\]]*\])?")

# Where the log has a fact. MIG devices have sections of the same names one level below.
_PATHS: Final = {
    ("Product Name",): "model",
    ("GPU UUID",): "uuid",
    ("FB Memory Usage", "Total"): "memory",
    ("FB Memory Usage", "Used"): "memory_used",
    ("MIG Mode", "Current"): "mig",
    ("MIG Device", "GPU Instance ID"): "instance",
    ("MIG Device", "Compute Instance ID"): "part",
}
_OTHER: Final = "other"
_ALWAYS: Final = {"uuid", "memory", "memory_used"}
"""facts of every device in a log that has product names"""

_COLUMNS: Final = {
    "index": "index",
    "name": "model",
    "gpu_name": "model",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "bus_id",
    "gpu_bus_id": "bus_id",
    "memory.total": "memory",
    "memory.used": "memory_used",
    "driver_version": "driver",
    "mig.mode.current": "mig",
}
_FORMS: Final = {
    "index": _NUMBER,
    "bus_id": BUS_ID,
    "memory": re.compile(r"[0-9]{1,9}(?: ?[MG]i?B)?"),
    "memory_used": re.compile(r"[0-9]{1,9}(?: ?[MG]i?B)?"),
    "uuid": re.compile(r"(?:GPU|MIG)-\S+"),
}
"""a line with another form is not a row"""

Facts = dict[str, str]
DEVICE_FIELDS: Final = ("uuid", "memory.total", "memory.used", "utilization.gpu")
PROCESS_FIELDS: Final = ("gpu_uuid", "pid", "used_memory")
_AMOUNT: Final = re.compile(r"[0-9]{1,9}")
_UUID: Final = re.compile(r"GPU-[0-9A-Za-z-]{1,59}")
_HEAD: Final = re.compile(r"[ \t>#|]*GPU ([0-9]{1,4}):(.*)")
_LISTED: Final = re.compile(r"^[ \t>#|]*GPU [0-9]{1,4}: [^\n]*\(UUID: ", re.MULTILINE)
_PART: Final = re.compile(r"[ \t>#|]*MIG (\S+)[ \t]+Device[ \t]+([0-9]{1,4}): \(UUID: ([^()\s]+)\)")
_LINK: Final = re.compile(
    r"^[ \t>#|]*Link ([0-9]{1,3}): (?:([0-9]{1,6}(?:\.[0-9]{1,6})?) GB/s|<inactive>)", re.MULTILINE
)
_CUT_LIST: Final = re.compile(r"[ \t>#|]*(?:GPU?$|GPU [0-9]*$|MIG)")
_CUT_LINK: Final = re.compile(r"[ \t>#|]*(?:GPU?$|GPU [0-9]*$|Link)")
# Messages instead of links, by driver, in lower case.
_ANSWERS: Final = {
    "information as all links are inactive": "all NVLinks are inactive",
    "supported for devices in mig mode": "NVLinks are not listed in MIG mode",
    "does not have or support nvlink": "there is no NVLink",
}


def _read_log(text: str) -> Reading:
    lost = refusals(text, REFUSALS)
    blocks, top, problems = _parse_query(text)
    expected = {fact for block in blocks for fact in block} - {"instance", "parts", _OTHER}
    expected |= _ALWAYS if "model" in expected else set()
    facts = []
    for number, block in zip(free_numbers(lost), blocks, strict=False):
        name = f"GPU{number}"
        facts.append(_record_facts(name, block | {"driver": next(iter(top.get("Driver Version", "").split()), "")}))
        if len(block) == 1:
            problems.append(f"{name}: only the bus id is in the text")
        elif missing := sorted(expected - block.keys()):
            problems.append(f"{name}: {', '.join(missing)} missing")
    attached = top.get("Attached GPUs", "")
    if _NUMBER.fullmatch(attached) and int(attached) > len(blocks):
        problems.append(f"{len(blocks)} of {int(attached)} GPUs are in the text")
    return inventory(_LOG, facts, problems, _mig(facts, blocks), lost)


def _parse_query(text: str) -> tuple[list[Facts], Facts, list[str]]:
    """The blocks of devices, the values above them, and what is cut."""
    blocks: list[Facts] = []
    top: Facts = {}
    titles: list[tuple[int, str]] = []
    for raw, ended in whole_lines(text):
        line = _MARK.sub("", raw, count=1) if raw.startswith((">", "#", "|")) else raw
        if not line.strip():
            continue
        if "NVSMI LOG" in line and blocks:
            break
        if match := _BLOCK.match(line):
            blocks.append({"bus_id": match[1]})
            titles.clear()
            continue
        key, colon, value = (part.strip() for part in line.partition(":"))
        indent = len(line) - len(line.lstrip())
        while titles and titles[-1][0] >= indent:
            titles.pop()
        if not colon:
            titles.append((indent, key))
            continue
        fact = _PATHS.get((*(title for _, title in titles), key), _OTHER) if blocks else key
        if (known := believed(value, ended=ended)) is not None:
            _add_fact(blocks[-1] if blocks else top, fact, known)
        elif fact != _OTHER:
            return blocks, top, [f"the text ends inside {key!r}"]
    return blocks, top, []


def _add_fact(block: Facts, fact: str, value: str) -> None:
    if fact == "part":
        block["parts"] = f"{block.get('parts', '')} {block.get('instance', '?')}/{value}"
    elif fact == "instance":
        block[fact] = value
    else:
        block.setdefault(fact, value)


def _read_csv(text: str) -> Reading:
    lost = refusals(text, REFUSALS)
    lines = list(whole_lines(text))
    start, columns = next(((at, names) for at, (line, _) in enumerate(lines) if (names := _header(line))), (0, []))
    numbers = free_numbers(lost)
    rows: dict[str, tuple[str, Facts]] = {}
    problems: list[str] = []
    warnings: dict[str, None] = {}
    for line, ended in islice(lines, start + 1, None) if columns else ():
        if not line.strip() or refusals(line, REFUSALS):
            continue
        row = _row(line, columns, ended=ended)
        if row is None:
            break
        if "index" in columns and not row.get("index"):
            problems.append(f"row {len(rows) + 1} has no index")
            break
        identity = next((row[key] for key in ("index", "bus_id", "uuid") if row.get(key)), f"row {len(rows)}")
        if identity in rows:
            warnings[f"{rows[identity][0]} is listed more than once; the first row is used"] = None
            continue
        name = f"GPU{int(row['index']) if 'index' in columns else next(numbers)}"
        rows[identity] = (name, row)
        if missing := [column for column in columns if column and column not in row]:
            problems.append(f"{name}: {', '.join(missing)} cut off")
    facts = [_record_facts(name, row) for name, row in rows.values()]
    return inventory(_CSV, facts, problems, [*warnings, *_mig(facts, [row for _, row in rows.values()])], lost)


def _header(line: str) -> list[str]:
    """The fact in each column, empty for those we do not use; nothing unless the line is a header."""
    cells = _cells(line)
    if not all(map(_CELL.fullmatch, cells)):
        return []
    names = [cell.partition(" [")[0] for cell in cells]
    known = [name for name in names if name in _COLUMNS]
    if len(known) < 2 and not any("." in name or "_" in name for name in known):
        return []
    return [_COLUMNS.get(name, "") for name in names]


def _row(line: str, columns: list[str], *, ended: bool) -> Facts | None:
    """The facts of a row, without the last cell of a text that may be cut there; None behind the table."""
    cells: list[str] = _cells(line)
    if len(cells) > len(columns) or (len(cells) < len(columns) and (ended or prompt(line))):
        return None
    if believed(cells[-1], ended=ended) is None:
        cells.pop()
    row = {fact: value_or_empty(cell) for fact, cell in zip(columns, cells, strict=False) if fact}
    wrong = (fact for fact, value in row.items() if value and fact in _FORMS and not _FORMS[fact].fullmatch(value))
    return row if next(wrong, None) is None else None


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.lstrip(" \t>#|").split(",")]


def _record_facts(name: str, row: Facts) -> DeviceFacts:
    return DeviceFacts(
        name,
        uuid=value_or_empty(row.get("uuid", "")),
        model=value_or_empty(row.get("model", "")),
        bus_id=row.get("bus_id", ""),
        memory=amount(row.get("memory", "")),
        memory_used=amount(row.get("memory_used", "")),
        driver=value_or_empty(row.get("driver", "")),
        parts=tuple(row.get("parts", "").split()),
    )


def _mig(facts: Iterable[DeviceFacts], rows: Iterable[Facts]) -> list[str]:
    pairs = zip(facts, rows, strict=True)
    return [f"{device.name} is in MIG mode" for device, row in pairs if row.get("mig") == "Enabled"]


def _is_log(text: str) -> bool:
    return "NVSMI LOG" in text or _BLOCK.search(text) is not None


QUERY_READERS: Final = (
    Reader(_LOG, _is_log, _read_log, "devices", yields="list of GPUs"),
    Reader(_CSV, lambda text: any(map(_header, text.split("\n"))), _read_csv, "devices", yields="list of GPUs"),
)


def device_usages(devices: str, processes: str | None) -> tuple[DeviceUsage, ...]:
    """The devices in both outputs; `processes` is None if they can't be listed. Values such as [N/A] are unknown."""
    running: dict[str, list[ProcessUsage]] = {}
    for uuid, pid, used in _rows(processes or "", len(PROCESS_FIELDS)):
        number = _number(pid)
        if number is not None:
            running.setdefault(uuid, []).append(ProcessUsage(number, _bytes(used)))
    usages: dict[str, DeviceUsage] = {}
    for uuid, total, used, busy in _rows(devices, len(DEVICE_FIELDS)):
        own = None if processes is None else tuple(running.get(uuid, ()))
        usages.setdefault(uuid, DeviceUsage(uuid, _bytes(total), _bytes(used), _number(busy), own))
    return tuple(usages.values())


def _rows(text: str, columns: int) -> Iterator[list[str]]:
    """Complete rows that begin with the UUID of a device; messages between them are left out."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == columns and _UUID.fullmatch(cells[0]):
            yield cells


def _number(text: str) -> int | None:
    return int(text) if _AMOUNT.fullmatch(text) else None


def _bytes(text: str) -> int | None:
    number = _number(text)
    return None if number is None else number * MIB


@dataclass(frozen=True, slots=True)
class NvLinks:
    """NVLinks of one device, as `nvlink -s` lists them."""

    device: str
    rates: tuple[float | None, ...]
    """GB/s of each link listed, by its number; None: inactive"""
    answer: str = ""
    """the message printed instead of a list"""

    @property
    def active(self) -> int:
        """Number of listed links that are active."""
        return sum(rate is not None for rate in self.rates)

    def __str__(self) -> str:
        rates = sorted({rate for rate in self.rates if rate is not None})
        speed = f", {' or '.join(f'{rate:g}' for rate in rates)} GB/s each" if rates else ""
        return f"{self.device}: {self.answer or f'{self.active} of {len(self.rates)} NVLinks are active{speed}'}"


@dataclass(slots=True)
class _Listed:
    name: str
    model: str
    uuid: str
    rest: str
    parts: dict[int, tuple[str, str]] = field(default_factory=dict)
    links: dict[int, float | None] = field(default_factory=dict)
    answer: str = ""


def nvlinks(text: str) -> tuple[NvLinks, ...]:
    """The NVLinks of each device, in the order listed, of a (cleaned) `nvlink -s` text."""
    return tuple(_links(device) for device in _linked(text)[0])


def _read_list(text: str) -> Reading:
    listed, problems, warnings = _walk(text, _CUT_LIST)
    problems += [f"{device.name}: the UUID is cut off" for device in listed if not device.uuid]
    warnings += [
        f"{device.name} is divided into {', '.join(profile for profile, _ in device.parts.values())}"
        for device in listed
        if device.parts
    ]
    return inventory("nvidia-smi -L", _facts(listed), problems, warnings, refusals(text, REFUSALS))


def _read_nvlinks(text: str) -> Reading:
    kind = "nvidia-smi nvlink -s"
    if not text.strip():
        # Driver 580 prints nothing at all for devices without NVLink.
        return Reading(kind, "no matrix", warnings=("nothing is printed: there may be no NVLink",))
    listed, problems, warnings = _linked(text)
    links = [str(_links(device)) for device in listed if device.links or device.answer]
    return inventory(
        kind, _facts(listed), problems, [*warnings, *links], refusals(text, (*REFUSALS, *_unnamed(listed)))
    )


def _read_refusal(text: str) -> Reading:
    return inventory("nvidia-smi", (), refused=refusals(text, REFUSALS))


def _walk(text: str, cut: re.Pattern[str]) -> tuple[list[_Listed], list[str], list[str]]:
    listed: dict[str, _Listed] = {}
    problems: list[str] = []
    warnings: list[str] = []
    current: _Listed | None = None
    for line, ended in whole_lines(text):
        if device := _head(line, ended=ended):
            current = listed.setdefault(device.name, device)
            if current.uuid != device.uuid:
                warnings.append(f"{device.name} is listed twice with different UUIDs; the first is used")
                current = None
            line = device.rest  # noqa: PLW2901 - some drivers answer on the line of the device
        if current and not _add(current, line) and (left_out(line) or (not ended and cut.match(line))):
            problems.append(f"{current.name}: lines are missing after it, at {line.strip()!r}")
    return list(listed.values()), problems, warnings


def _head(line: str, *, ended: bool) -> _Listed | None:
    match = _HEAD.match(line)
    if match is None:
        return None
    model, opened, tail = match[2].partition("(UUID: ")
    uuid, closed, rest = tail.partition(")")
    model = model.strip() if opened or ended else ""
    return _Listed(f"GPU{int(match[1])}", model, uuid if closed else "", rest)


def _add(device: _Listed, line: str) -> bool:
    """Add a line to its device; False if it has nothing about it."""
    if part := _PART.match(line):
        device.parts.setdefault(int(part[2]), (part[1], part[3]))
    elif link := _LINK.match(line):
        device.links.setdefault(int(link[1]), float(link[2]) if link[2] else None)
    elif answers := [answer for sign, answer in _ANSWERS.items() if sign in line.lower()]:
        device.answer = answers[0]
    else:
        return False
    return True


def _linked(text: str) -> tuple[list[_Listed], list[str], list[str]]:
    listed, problems, warnings = _walk(text, _CUT_LINK)
    most: dict[str, int] = defaultdict(int)
    for device in listed:
        most[device.model] = max(most[device.model], len(device.links))
    for device in listed:
        if not device.links and not device.answer:
            problems.append(f"{device.name}: its NVLinks are not listed")
        elif device.links and len(device.links) < most[device.model]:
            problems.append(f"{device.name}: {len(device.links)} NVLinks are listed, {most[device.model]} elsewhere")
    return listed, problems, warnings


def _links(device: _Listed) -> NvLinks:
    rates = tuple(rate for _, rate in sorted(device.links.items()))
    return NvLinks(device.name, rates, "" if rates else device.answer)


def _facts(listed: Iterable[_Listed]) -> list[DeviceFacts]:
    return [
        DeviceFacts(
            device.name,
            uuid=device.uuid,
            model=device.model,
            parts=tuple(uuid for _, uuid in device.parts.values()),
        )
        for device in listed
    ]


def _unnamed(listed: list[_Listed]) -> tuple[str, ...]:
    """Answers count as a refusal where no device is named beside them."""
    return () if listed else tuple(_ANSWERS)


def _is_nvlinks(text: str) -> bool:
    return _LINK.search(text) is not None or bool(refusals(text, tuple(_ANSWERS)))


READERS: Final = (
    Reader("nvidia-smi nvlink -s", _is_nvlinks, _read_nvlinks, "devices", yields="list of GPUs"),
    *QUERY_READERS,
    Reader(
        "nvidia-smi -L", lambda text: _LISTED.search(text) is not None, _read_list, "devices", yields="list of GPUs"
    ),
    Reader("nvidia-smi", lambda text: bool(refusals(text, REFUSALS)), _read_refusal, "devices", yields="list of GPUs"),
)
"""The most detailed first: a text with links also names devices, and an error stands alone."""

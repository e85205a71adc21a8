"""Readers of NVIDIA device records: the log of `nvidia-smi -q` and the table of `nvidia-smi --query-gpu --format=csv`."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from linkwise.vendors.inventory_text import (
    BUS_ID,
    amount,
    believed,
    free_numbers,
    inventory,
    prompt,
    refusals,
    value_or_empty,
    whole_lines,
)
from linkwise.vendors.reader import DeviceFacts, Reader, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["READERS", "REFUSALS"]

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


def _read_log(text: str) -> Reading:
    lost = refusals(text, REFUSALS)
    blocks, top, problems = _walk(text)
    expected = {fact for block in blocks for fact in block} - {"instance", "parts", _OTHER}
    expected |= _ALWAYS if "model" in expected else set()
    facts = []
    for number, block in zip(free_numbers(lost), blocks, strict=False):
        name = f"GPU{number}"
        facts.append(_facts(name, block | {"driver": next(iter(top.get("Driver Version", "").split()), "")}))
        if len(block) == 1:
            problems.append(f"{name}: only the bus id is in the text")
        elif missing := sorted(expected - block.keys()):
            problems.append(f"{name}: {', '.join(missing)} missing")
    attached = top.get("Attached GPUs", "")
    if _NUMBER.fullmatch(attached) and int(attached) > len(blocks):
        problems.append(f"{len(blocks)} of {int(attached)} GPUs are in the text")
    return inventory(_LOG, facts, problems, _mig(facts, blocks), lost)


def _walk(text: str) -> tuple[list[Facts], Facts, list[str]]:
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
        if found := _BLOCK.match(line):
            blocks.append({"bus_id": found[1]})
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
            _add(blocks[-1] if blocks else top, fact, known)
        elif fact != _OTHER:
            return blocks, top, [f"the text ends inside {key!r}"]
    return blocks, top, []


def _add(block: Facts, fact: str, value: str) -> None:
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
    facts = [_facts(name, row) for name, row in rows.values()]
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


def _facts(name: str, row: Facts) -> DeviceFacts:
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


READERS: Final = (
    Reader(_LOG, _is_log, _read_log, "devices", yields="list of GPUs"),
    Reader(_CSV, lambda text: any(map(_header, text.split("\n"))), _read_csv, "devices", yields="list of GPUs"),
)

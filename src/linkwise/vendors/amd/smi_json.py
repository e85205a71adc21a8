"""JSON of AMD's tools: the part of a text that is a document, and values in it.

`amd-smi` prints a list of records, one per GPU, since ROCm 7 below `gpu_data`; `rocm-smi` prints one object with a record
per card and one for the system. Values that can't be read are `N/A`.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["cards", "gpu_records", "integer", "mebibytes", "part", "text_of"]

_BEGINS: Final = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)
_CARD: Final = re.compile(r"card([0-9]{1,4})")
_INTEGER: Final = re.compile(r"[0-9]{1,18}")
_MIB: Final = {"B": 1 / (1 << 20), "KB": 1 / 1024, "MB": 1, "MIB": 1, "GB": 1024, "GIB": 1024}
_NOTHING: Final = {"", "N/A", "NA", "None", "unknown", "Unknown"}
_MOST_GPUS: Final = 1024
"""records of one text that are looked at"""


def gpu_records(text: str) -> list[tuple[int, Mapping[str, Any]]]:
    """The records of `amd-smi --json` with their GPU number, each number once; none if it did not write the text."""
    document = _document(text)
    if isinstance(document, dict):
        document = document.get("gpu_data", [document])
    records: dict[int, Mapping[str, Any]] = {}
    for record in document[:_MOST_GPUS] if isinstance(document, list) else []:
        number = integer(record.get("gpu")) if isinstance(record, dict) else None
        if number is not None:
            records.setdefault(number, record)
    return sorted(records.items())


def cards(text: str) -> tuple[dict[int, Mapping[str, Any]], Mapping[str, Any]]:
    """The records of `rocm-smi --json` by card number, and the one of the system; both empty for other texts."""
    document = _document(text)
    if not isinstance(document, dict):
        return {}, {}
    found = {}
    for name, record in list(document.items())[:_MOST_GPUS]:
        if (card := _CARD.fullmatch(name)) and isinstance(record, dict):
            found[int(card[1])] = record
    system = document.get("system", {})
    return dict(sorted(found.items())), system if isinstance(system, dict) else {}


def integer(value: object) -> int | None:
    """The number, which some versions print as a text; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 10**18 else None
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else None


def text_of(value: object) -> str:
    """The text without surrounding blanks; empty if the value is not a text, or stands for a missing value."""
    found = value.strip() if isinstance(value, str) else ""
    return "" if found in _NOTHING else found


def part(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The record in a record; empty for anything else."""
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def mebibytes(size: object) -> int | None:
    """MiB of `{"value": 196592, "unit": "MB"}` or `"196592 MB"`; AMD's MB are MiB."""
    if isinstance(size, str):
        size = dict(zip(("value", "unit"), size.split(" ", 1), strict=False))
    if not isinstance(size, dict):
        return None
    value, factor = integer(size.get("value")), _MIB.get(text_of(size.get("unit")).upper())
    return None if value is None or factor is None else int(value * factor)


def _document(text: str) -> Any:  # noqa: ANN401 - whatever the text holds
    """The first JSON document that begins a line: messages may stand before it. None if there is none."""
    decoder = json.JSONDecoder(parse_int=integer)
    for begin in islice(_BEGINS.finditer(text), 8):
        try:
            document, _ = decoder.raw_decode(text, begin.end() - 1)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, (dict, list)):
            return document
    return None

"""Readers of AMD's device lists and usage: `amd-smi list`, `static`, `metric`, and `rocm-smi` with any options.

All records of a GPU have its number, so that one reader takes any of the three and their facts are joined. A divided GPU
is listed once per partition, each with the UUID of the GPU: the number of the partition is added to it.

`amd-smi` prints a list of records, one per GPU, since ROCm 7 below `gpu_data`; `rocm-smi` prints one object with a record
per card and one for the system. Values that can't be read are `N/A`.

Both print GPUs by number, without ids.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from linkwise.model.device import MIB
from linkwise.model.usage import DeviceUsage
from linkwise.vendors.inventory_text import BUS_ID, inventory
from linkwise.vendors.reader import DeviceFacts, Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.vendors.reader import Reading

__all__ = [
    "READERS",
    "card_usages",
    "cards",
    "gpu_records",
    "gpu_usages",
    "integer",
    "mebibytes",
    "part",
    "text_of",
    "uncorrectable",
]

_AMD_SMI: Final = "amd-smi static --json"
_ROCM_SMI: Final = "rocm-smi --showuniqueid --json"
_AMD_KEYS: Final = frozenset({"uuid", "asic", "vram", "driver", "ecc"})
_ROCM_KEYS: Final = ("Unique ID", "PCI Bus", "VRAM Total Memory (B)", "Card Series", "Card series", "Driver version")
_UNIQUE: Final = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE)
_BEGINS: Final = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)
_CARD: Final = re.compile(r"card([0-9]{1,4})")
_INTEGER: Final = re.compile(r"[0-9]{1,18}")
_MIB_PER_UNIT: Final = {"B": 1 / (1 << 20), "KB": 1 / 1024, "MB": 1, "MIB": 1, "GB": 1024, "GIB": 1024}
_NOTHING: Final = {"", "N/A", "NA", "None", "unknown", "Unknown"}
_MOST_GPUS: Final = 1024
"""records of one text that are looked at"""


def uncorrectable(count: int) -> str:
    """The state of a device with this number of uncorrectable errors of its memory."""
    return f"{count} uncorrectable memory error{'s' * (count != 1)}"


def _read_amd_smi(text: str) -> Reading:
    records = gpu_records(text)
    uuids = {number: text_of(record.get("uuid")) for number, record in records}
    shared = {uuid for uuid, count in Counter(uuids.values()).items() if uuid and count > 1}
    facts = []
    for number, record in records:
        uuid, partition = uuids[number], integer(record.get("partition_id"))
        if uuid in shared and partition is not None:
            uuid = f"{uuid}-{partition}"
        facts.append(
            DeviceFacts(
                f"GPU{number}",
                uuid=uuid,
                model=text_of(part(record, "asic").get("market_name")),
                bus_id=_bus_id(record.get("bdf")) or _bus_id(part(record, "bus").get("bdf")),
                memory=mebibytes(part(record, "vram").get("size")),
                numa=_numa(part(record, "numa").get("node")),
                health=_health(part(record, "ecc")),
                driver=text_of(part(record, "driver").get("version")) or text_of(record.get("driver_version")),
            )
        )
    return inventory(_AMD_SMI, facts)


def _read_rocm_smi(text: str) -> Reading:
    by_card, system = cards(text)
    driver = text_of(system.get("Driver version"))
    facts = []
    for number, record in by_card.items():
        unique = _UNIQUE.fullmatch(text_of(record.get("Unique ID")))
        total = integer(record.get("VRAM Total Memory (B)"))
        facts.append(
            DeviceFacts(
                f"GPU{number}",
                # as ROCm's runtime calls it
                uuid=f"GPU-{int(unique[1], 16):016x}" if unique and int(unique[1], 16) else "",
                model=text_of(record.get("Card Series")) or text_of(record.get("Card series")),
                bus_id=_bus_id(record.get("PCI Bus")),
                memory=None if total is None else total >> 20,
                driver=driver or text_of(record.get("Driver version")),
            )
        )
    return inventory(_ROCM_SMI, facts)


def _lists_gpus(text: str) -> bool:
    return '"gpu"' in text and any(_AMD_KEYS & record.keys() for _, record in gpu_records(text))


def _lists_cards(text: str) -> bool:
    return '"card' in text and any(key in record for record in cards(text)[0].values() for key in _ROCM_KEYS)


READERS: Final = (
    Reader(_AMD_SMI, _lists_gpus, _read_amd_smi, subject="devices"),
    Reader(_ROCM_SMI, _lists_cards, _read_rocm_smi, subject="devices"),
)


def _bus_id(value: object) -> str:
    text = text_of(value)
    return text if BUS_ID.fullmatch(text) else ""


def _numa(value: object) -> str | None:
    number = integer(value)
    return None if number is None else str(number)


def _health(ecc: Mapping[str, Any]) -> str:
    count = integer(ecc.get("total_uncorrectable_count"))
    return "" if count is None else uncorrectable(count) if count else "OK"


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
    records = {}
    for name, record in list(document.items())[:_MOST_GPUS]:
        if (card := _CARD.fullmatch(name)) and isinstance(record, dict):
            records[int(card[1])] = record
    system = document.get("system", {})
    return dict(sorted(records.items())), system if isinstance(system, dict) else {}


def integer(value: object) -> int | None:
    """The number, which some versions print as a text; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 10**18 else None
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else None


def text_of(value: object) -> str:
    """The text without surrounding blanks; empty if the value is not a text, or stands for a missing value."""
    text = value.strip() if isinstance(value, str) else ""
    return "" if text in _NOTHING else text


def part(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The record in a record; empty for anything else."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def mebibytes(size: object) -> int | None:
    """MiB of `{"value": 196592, "unit": "MB"}` or `"196592 MB"`; AMD's MB are MiB."""
    if isinstance(size, str):
        size = dict(zip(("value", "unit"), size.split(" ", 1), strict=False))
    if not isinstance(size, dict):
        return None
    value, factor = integer(size.get("value")), _MIB_PER_UNIT.get(text_of(size.get("unit")).upper())
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


def gpu_usages(text: str) -> dict[int, DeviceUsage]:
    """The usage by the number of the GPU, as amd-smi prints it; ids are empty, and values such as N/A unknown."""
    return {
        number: DeviceUsage(
            "",
            _bytes(part(record, "mem_usage").get("total_vram")),
            _bytes(part(record, "mem_usage").get("used_vram")),
            _percent(part(record, "usage").get("gfx_activity")),
        )
        for number, record in gpu_records(text)
    }


def card_usages(text: str) -> dict[int, DeviceUsage]:
    """The usage by the number of the card, as rocm-smi prints it; ids are empty, and values such as N/A unknown."""
    return {
        number: DeviceUsage(
            "",
            integer(record.get("VRAM Total Memory (B)")),
            integer(record.get("VRAM Total Used Memory (B)")),
            integer(record.get("GPU use (%)")),
        )
        for number, record in cards(text)[0].items()
    }


def _bytes(size: object) -> int | None:
    """Early releases of amd-smi print the number of MiB alone."""
    number = integer(size)
    number = mebibytes(size) if number is None else number
    return None if number is None else number * MIB


def _percent(value: object) -> int | None:
    """`{"value": 47, "unit": "%"}`, or the number alone in early releases."""
    return integer(value.get("value") if isinstance(value, dict) else value)

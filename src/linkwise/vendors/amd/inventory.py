"""Readers of device lists in JSON: `amd-smi list`, `static` and `metric --ecc`, and `rocm-smi` with any of its options.

All records of a GPU have its number, so that one reader takes any of the three and their facts are joined. A divided GPU
is listed once per partition, each with the UUID of the GPU: the number of the partition is added to it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from linkwise.vendors.amd.smi_json import cards, gpu_records, integer, mebibytes, part, text_of
from linkwise.vendors.inventory_text import BUS_ID, inventory
from linkwise.vendors.reader import DeviceFacts, Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.vendors.reader import Reading

__all__ = ["READERS", "uncorrectable"]

_AMD_SMI: Final = "amd-smi static --json"
_ROCM_SMI: Final = "rocm-smi --showuniqueid --json"
_AMD_KEYS: Final = frozenset({"uuid", "asic", "vram", "driver", "ecc"})
_ROCM_KEYS: Final = ("Unique ID", "PCI Bus", "VRAM Total Memory (B)", "Card Series", "Card series", "Driver version")
_UNIQUE: Final = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE)


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
    found = text_of(value)
    return found if BUS_ID.fullmatch(found) else ""


def _numa(value: object) -> str | None:
    number = integer(value)
    return None if number is None else str(number)


def _health(ecc: Mapping[str, Any]) -> str:
    count = integer(ecc.get("total_uncorrectable_count"))
    return "" if count is None else uncorrectable(count) if count else "OK"

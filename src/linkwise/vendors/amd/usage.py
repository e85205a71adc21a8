"""Readers of usage in JSON: `amd-smi metric --usage --mem-usage` and `rocm-smi --showuse --showmeminfo vram`.

Both print GPUs by number, without ids.
"""

from __future__ import annotations

from typing import Final

from linkwise.model.usage import DeviceUsage
from linkwise.vendors.amd.smi_json import cards, gpu_records, integer, mebibytes, part

__all__ = ["card_usages", "gpu_usages"]

_MIB: Final = 1 << 20


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
    return None if number is None else number * _MIB


def _percent(value: object) -> int | None:
    """`{"value": 47, "unit": "%"}`, or the number alone in early releases."""
    return integer(value.get("value") if isinstance(value, dict) else value)

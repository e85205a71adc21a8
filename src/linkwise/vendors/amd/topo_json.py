"""Readers of `amd-smi topology --json` and `rocm-smi --showtopo --json`: the links between AMD devices.

The documents hold the values of the tables that `topo` reads from the plain outputs, and are graded like those.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from linkwise.model.topology import MAX_DEVICES
from linkwise.vendors.amd.smi_json import cards, gpu_records, integer, text_of
from linkwise.vendors.amd.topo import Table, reading_of, some_of
from linkwise.vendors.reader import Reader, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["READERS"]

_AMD_SMI: Final = "amd-smi topology --json"
_ROCM_SMI: Final = "rocm-smi --showtopo --json"

_FIELDS: Final = {"weight": "Weight", "num_hops": "Hops", "link_type": "Link Type", "link_status": "Access"}
"""of a link in amd-smi, by the title of the table that has the same values"""
_PAIR: Final = re.compile(
    r"\(Topology\) (Weight|Hops|Link type) between DRM devices ([0-9]{1,4}) and ([0-9]{1,4})", re.IGNORECASE
)
_NUMA: Final = "(Topology) Numa Node"
_GRADED: Final = ("Weight", "Hops", "Link Type")
"""tables without which a path can't be graded"""
_LACKING: Final = "N/A"
"""what stands in a table for a pair that the document lacks"""

Cells = dict[tuple[int, int], str]


def _read_amd_smi(text: str) -> Reading:
    records = [(number, record) for number, record in gpu_records(text) if isinstance(record.get("links"), list)]
    numbers = [number for number, _ in records]
    by_title: dict[str, Cells] = {}
    for number, record in records:
        for link in record["links"]:
            other = integer(link.get("gpu")) if isinstance(link, dict) else None
            for field, title in _FIELDS.items():
                if other is not None and (cell := _cell(link.get(field))):
                    by_title.setdefault(title, {})[number, other] = cell
    if len(numbers) > MAX_DEVICES:
        return _too_many(_AMD_SMI, len(numbers))
    reading = reading_of(_AMD_SMI, _tables(by_title, numbers), {}, gaps=_gaps(by_title, numbers))
    buses = {f"GPU{number}": text_of(record.get("bdf")) for number, record in records}
    return replace(reading, facts=tuple(replace(facts, bus_id=buses.get(facts.name, "")) for facts in reading.facts))


def _read_rocm_smi(text: str) -> Reading:
    by_card, system = cards(text)
    by_title: dict[str, Cells] = {}
    for key, value in system.items():
        if (pair := _PAIR.fullmatch(key)) and (cell := _cell(value)):
            cells = by_title.setdefault(pair[1].title(), {})
            a, b = int(pair[2]), int(pair[3])
            cells[a, b] = cells[b, a] = cell  # each pair is printed once
    numbers = sorted({number for cells in by_title.values() for pair in cells for number in pair} | by_card.keys())
    if len(numbers) > MAX_DEVICES:
        return _too_many(_ROCM_SMI, len(numbers))
    numa = {f"GPU{number}": node for number, card in by_card.items() if (node := text_of(card.get(_NUMA)))}
    return reading_of(_ROCM_SMI, _tables(by_title, numbers), numa, gaps=_gaps(by_title, numbers))


def _has_links(text: str) -> bool:
    return '"links"' in text and any(isinstance(record.get("links"), list) for _, record in gpu_records(text))


def _has_topology(text: str) -> bool:
    if "(Topology)" not in text:
        return False
    by_card, system = cards(text)
    records: Iterable[Mapping[str, Any]] = (system, *by_card.values())
    return any(key.startswith("(Topology)") for record in records for key in record)


READERS: Final = (
    Reader(_AMD_SMI, _has_links, _read_amd_smi),
    Reader(_ROCM_SMI, _has_topology, _read_rocm_smi),
)


def _cell(value: object) -> str:
    """The value as the plain output prints it; empty if there is none."""
    number = integer(value)
    if number is not None:
        return str(number)
    return text_of(value).upper() or ("N/A" if isinstance(value, str) else "")


def _tables(by_title: Mapping[str, Cells], numbers: list[int]) -> dict[str, Table]:
    """The tables by title. A value names its pair, so one that the document lacks leaves the others where they are."""
    names = tuple(f"GPU{number}" for number in numbers)
    found: dict[str, Table] = {}
    for title, cells in by_title.items():
        rows = {
            name: tuple("SELF" if a == b else cells.get((a, b), _LACKING) for b in numbers)
            for name, a in zip(names, numbers, strict=True)
        }
        found[title.lower()] = Table(title, names, rows)
    return found


def _gaps(by_title: Mapping[str, Cells], numbers: list[int]) -> tuple[str, ...]:
    """A sentence for each table that lacks pairs, in one direction or both."""
    pairs = list(combinations(numbers, 2))
    gaps = []
    for title in _GRADED:
        cells = by_title.get(title, {})
        lacking = [f"GPU{a}-GPU{b}" for a, b in pairs if not ((a, b) in cells and (b, a) in cells)]
        if cells and lacking:
            gaps.append(f"'{title}' lacks {len(lacking)} of {len(pairs)} pairs: {some_of(lacking)}")
    return tuple(gaps)


def _too_many(kind: str, count: int) -> Reading:
    return Reading(kind, "error", problems=(f"{count} devices are listed; a machine has at most {MAX_DEVICES}",))

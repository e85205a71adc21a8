"""Reader of NVIDIA's nvbandwidth: GB/s between devices, in tables whose title names the source.

`GPU(row) <- GPU(column)` has the destination in the row; such a table is transposed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.vendors.nvidia.bandwidth_table import Section, Title, failure, names, scan
from linkwise.vendors.reader import DeviceFacts, Reader, Reading, line_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.topology import Matrix

__all__ = ["READERS", "read", "sections"]

_KIND: Final = "nvbandwidth"
_SIGNS: Final = ("nvbandwidth Version:", "GPU(row)", "CPU(row)", "SUM device_to_", "SUM host_to_")
_RUNNING: Final = re.compile(r"Running (\w{1,100})\.")
_TITLE: Final = re.compile(
    r"[GC]PU\(row\) (?:<->|->|<-) [GC]PU\(column\)(?: (?P<part>Read[12]|Write[12]|Total))?(?: bandwidth)? \((?:GB/s|ns)\)"
)
_SUM: Final = re.compile(r"SUM (\w{1,100}) ([0-9]{1,12}\.[0-9]{2,6})")
_DEVICE: Final = re.compile(r"Device ([0-9]{1,3}): (.{1,200}?)(?: \(([0-9a-f]{8}:[0-9a-f]{2}:[0-9a-f]{2})\))?")
_PREFERRED: Final = (
    "device_to_device_memcpy_write_ce",
    "device_to_device_memcpy_read_ce",
    "device_to_device_memcpy_write_sm",
    "device_to_device_memcpy_read_sm",
)
_HALF_DIGIT: Final = 0.005
"""the most by which a printed value differs from the measured one"""


def recognises(text: str) -> bool:
    """Whether the tool's first line, a table's title or a sum stands in the text."""
    return any(sign in text for sign in _SIGNS)


def sections(text: str) -> dict[str, Section]:
    """Every table in the text by its test's name, `..._read1` or `..._total` where a test has several."""
    return scan(text.split("\n"), _Titles())


def read(text: str) -> Reading:
    """The preferred table, GB/s from row to column."""
    lines = text.split("\n")
    sections = scan(lines, _Titles())
    blank = Reading(_KIND, "no matrix", facts=_facts(lines))
    local = [section for section in sections.values() if _of_pairs(section) and not _of_ranks(section)]
    begun = [section for section in local if section.begun and "GB/s" in section.title.printed]
    if not begun:
        return _without_matrix(blank, sections.values(), lines)
    chosen = min(begun, key=_rank)
    latency = next((section for section in local if section.whole and "(ns)" in section.title.printed), None)
    problems = chosen.gaps()
    return replace(
        blank,
        kind=f"{_KIND} {chosen.key} (row {_arrow(chosen)} column)",
        status="incomplete" if problems else "ok",
        devices=names(chosen),
        bandwidth=chosen.matrix(turned=_arrow(chosen) == "<-"),
        latency=_microseconds(latency) if latency and latency.columns == chosen.columns else (),
        problems=problems,
        warnings=(*line_warnings(chosen.messages), *_remarks(sections, chosen, lines)),
    )


READERS: Final = (Reader(_KIND, recognises, read, "bandwidth"),)


@dataclass(slots=True)
class _Titles:
    """Names a table by the test that runs; a table without one by its own title."""

    running: str = ""

    def __call__(self, line: str) -> Title | None:
        if match := _RUNNING.search(line):
            self.running = match[1]
            return None
        match = _TITLE.search(line) if "(row)" in line else None
        if not match:
            return None
        part = f"_{match['part'].lower()}" if match["part"] else ""
        return Title(f"{self.running}{part}" if self.running else match[0], match[0])


def _of_pairs(section: Section) -> bool:
    return "CPU" not in section.title.printed


def _of_ranks(section: Section) -> bool:
    return section.key.startswith("multinode")


def _arrow(section: Section) -> str:
    return section.title.printed.split()[1]


def _rank(section: Section) -> tuple[bool, bool, bool, int]:
    """Whole before cut, one direction before both, the total before its parts, then in order of preference."""
    key, both = section.key, _arrow(section) == "<->"
    place = _PREFERRED.index(key) if key in _PREFERRED else len(_PREFERRED)
    return not section.whole, both, both and "Total" not in section.title.printed, place


def _without_matrix(blank: Reading, sections: Iterable[Section], lines: Sequence[str]) -> Reading:
    pairs = [section for section in sections if _of_pairs(section) and "GB/s" in section.title.printed]
    if ranks := [section.key for section in pairs if _of_ranks(section)]:
        wrong = f"{ranks[0]} numbers the processes of several nodes, not the devices of one"
        return replace(blank, status="error", problems=(wrong,))
    if error := failure(lines):
        return replace(blank, status="error", problems=(error,))
    if pairs:
        gaps = tuple(gap for section in pairs for gap in section.gaps())
        return replace(blank, status="incomplete", problems=gaps)
    return replace(blank, problems=("the text has no table of device to device bandwidth",))


def _microseconds(section: Section) -> Matrix:
    return tuple(tuple(cell / 1000 for cell in row) for row in section.matrix())


def _remarks(sections: Mapping[str, Section], chosen: Section, lines: Iterable[str]) -> Iterable[str]:
    if _arrow(chosen) == "<->":
        yield "measured in both directions at once"
    for sentence in chosen.without_value():
        yield f"{sentence}: no peer access" if chosen.whole else sentence
    if f"{chosen.key} #2" in sections:
        yield f"'{chosen.key}' is in the text more than once: the first complete one is read"
    if any(_of_ranks(section) for section in sections.values()):
        yield "tables of several nodes are left out"
    total = sum(map(sum, chosen.matrix()))
    near = _HALF_DIGIT * (len(chosen.columns) ** 2 + 1)
    printed = _sums(lines)[chosen.key]
    if chosen.whole and printed and all(abs(total - value) > near for value in printed):
        yield f"the values of '{chosen.key}' sum up to {total:.2f}, the text says {printed[0]:.2f}"


def _sums(lines: Iterable[str]) -> defaultdict[str, list[float]]:
    sums: defaultdict[str, list[float]] = defaultdict(list)
    for line in lines:
        if match := _SUM.search(line):
            sums[match[1]].append(float(match[2]))
    return sums


def _facts(lines: Sequence[str]) -> tuple[DeviceFacts, ...]:
    """Devices listed above the tables; the last line may be cut and is not read."""
    facts: dict[str, DeviceFacts] = {}
    for line in lines[:-1]:
        if match := _DEVICE.fullmatch(line.lstrip("# >\t")):
            bus = f"{match[3]}.0" if match[3] else ""
            fact = DeviceFacts(f"GPU{int(match[1])}", model=match[2], bus_id=bus)
            facts.setdefault(fact.name, fact)
    return tuple(facts.values())

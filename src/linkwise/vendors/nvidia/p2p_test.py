"""Reader of CUDA's p2pBandwidthLatencyTest: GB/s and latency between devices, with and without peer access.

One matrix is used, the first of `_PREFERRED` that is complete; numbers of different matrices are never mixed. A
matrix without peer access is used only if none with peer access was printed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.vendors.nvidia.bandwidth_table import Section, Title, failure, names, scan, some_pairs
from linkwise.vendors.reader import DeviceFacts, Reader, Reading, line_warnings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.model.topology import Matrix

__all__ = ["READERS", "read", "sections"]

_KIND: Final = "p2pBandwidthLatencyTest"
_SIGNS: Final = ("P2P=Enabled", "P2P=Disabled", "P2P Connectivity Matrix", "[P2P (Peer-to-Peer) GPU")
_TITLE: Final = re.compile(
    r"(?:(?P<way>Uni|Bi)directional )?P2P=(?P<peer>Enabled|Disabled)(?P<latency> Latency)?(?: Bandwidth)?"
    r"(?P<variant> \(P2P (?:Writes|Reads)\))? Matrix"
)
_CONNECTIVITY: Final = "P2P Connectivity"
_READS: Final = "Unidirectional P2P=Enabled (P2P Reads)"
_PREFERRED: Final = (
    "Unidirectional P2P=Enabled (P2P Writes)",
    "Unidirectional P2P=Enabled",
    _READS,
    "Bidirectional P2P=Enabled",
    "Unidirectional P2P=Disabled",
    "Bidirectional P2P=Disabled",
)
_LATENCY: Final = ("P2P=Enabled Latency (P2P Writes) GPU", "P2P=Enabled Latency GPU")
_DEVICE: Final = re.compile(
    r"Device: ([0-9]{1,3}), (.{1,200}), pciBusID: ([0-9a-f]{1,2}), pciDeviceID: ([0-9a-f]{1,2}), "
    r"pciDomainID: ?([0-9a-f]{1,8})"
)
_CANNOT: Final = re.compile(r"Device=([0-9]{1,3}) CANNOT Access Peer Device=([0-9]{1,3})")


def recognises(text: str) -> bool:
    """Whether a title of the test, or its first line, stands in the text."""
    return any(sign in text for sign in _SIGNS)


def sections(text: str) -> dict[str, Section]:
    """Every matrix in the text: `Unidirectional P2P=Enabled (P2P Writes)`, `P2P=Enabled Latency GPU`, ..."""
    return scan(text.split("\n"), _title)


def read(text: str) -> Reading:
    """The preferred matrix, GB/s from row to column."""
    lines = text.split("\n")
    sections = scan(lines, _title)
    blank = Reading(_KIND, "no matrix", facts=_facts(lines))
    chosen = _choose(sections)
    if chosen is None:
        return _without_matrix(blank, sections, lines)
    problems = (*chosen.gaps(), *_announced(sections, chosen))
    latency, remarks = _latency(sections, chosen)
    return replace(
        blank,
        kind=f"{_KIND} {chosen.key}",
        status="incomplete" if problems else "ok",
        devices=names(chosen),
        bandwidth=chosen.matrix(turned=chosen.key == _READS),
        latency=latency,
        problems=problems,
        warnings=(
            *line_warnings(chosen.messages),
            *chosen.without_value(),
            *_remarks(sections, chosen),
            *remarks,
            *_peerless(sections, chosen, lines),
        ),
    )


READERS: Final = (Reader(_KIND, recognises, read, "bandwidth"),)


def _title(line: str) -> Title | None:
    if "P2P" not in line:
        return None
    if "P2P Connectivity Matrix" in line:
        return Title(_CONNECTIVITY, "P2P Connectivity Matrix")
    match = _TITLE.search(line)
    if not match or bool(match["way"]) == bool(match["latency"]):
        return None
    way = f"{match['way']}directional " if match["way"] else ""
    return Title(f"{way}P2P={match['peer']}{match['latency'] or ''}{match['variant'] or ''}", match[0])


def _choose(sections: Mapping[str, Section]) -> Section | None:
    begun = [section for section in sections.values() if section.key in _PREFERRED and section.begun]
    return min(begun, key=_rank, default=None)


def _rank(section: Section) -> tuple[bool, bool, int]:
    """With peer access before without, whole before cut, then in order of preference."""
    return "Disabled" in section.key, not section.whole, _PREFERRED.index(section.key)


def _announced(sections: Mapping[str, Section], chosen: Section) -> list[str]:
    """Matrices with peer access of which only the title is there, where one without is all that can be read."""
    if "Enabled" in chosen.key:
        return []
    return [gap for key in _PREFERRED if key in sections and "Enabled" in key for gap in sections[key].gaps()]


def _without_matrix(blank: Reading, sections: Mapping[str, Section], lines: Sequence[str]) -> Reading:
    if error := failure(lines):
        return replace(blank, status="error", problems=(error,))
    if gaps := [gap for key in _PREFERRED if key in sections for gap in sections[key].gaps()]:
        return replace(blank, status="incomplete", problems=tuple(gaps))
    return replace(blank, problems=("the text has no bandwidth matrix",))


def _latency(sections: Mapping[str, Section], chosen: Section) -> tuple[Matrix, list[str]]:
    """Latency with peer access, timed by the GPU; one that is cut is left out, for 0 would look fast."""
    for key in _LATENCY:
        if key in sections and sections[key].whole and sections[key].columns == chosen.columns:
            return sections[key].matrix(), []
        if key in sections:
            return (), [f"'{key}' is cut or of other devices, and left out"]
    return (), []


def _remarks(sections: Mapping[str, Section], chosen: Section) -> list[str]:
    remarks = []
    if "Disabled" in chosen.key:
        remarks.append("measured without peer access: copies go through the host's memory")
    if "Bidirectional" in chosen.key:
        remarks.append("measured in both directions at once: the numbers are sums of both")
    if f"{chosen.key} #2" in sections:
        remarks.append(f"'{chosen.key}' is in the text more than once: the first complete one is read")
    cut = [key for key in _PREFERRED if key in sections and key != chosen.key and not sections[key].whole]
    return remarks + [f"'{key}' is cut and left out" for key in cut]


def _peerless(sections: Mapping[str, Section], chosen: Section, lines: Sequence[str]) -> list[str]:
    """Without peer access between two devices the test copies through the host and calls it Enabled all the same."""
    if "Disabled" in chosen.key:
        return []
    pairs = {(int(match[1]), int(match[2])) for line in lines if (match := _CANNOT.search(line))}
    if _CONNECTIVITY in sections:
        pairs.update(sections[_CONNECTIVITY].pairs_without_value())
    if not pairs:
        return []
    return [f"no peer access between {some_pairs(pairs)}: their numbers are of copies through the host's memory"]


def _facts(lines: Sequence[str]) -> tuple[DeviceFacts, ...]:
    """Devices listed above the matrices; the last line may be cut and is not read."""
    facts: dict[str, DeviceFacts] = {}
    for line in lines[:-1]:
        if match := _DEVICE.fullmatch(line.lstrip("# >\t")):
            number, model, *place = match.groups()
            bus, device, domain = (int(part, 16) for part in place)
            fact = DeviceFacts(f"GPU{int(number)}", model=model, bus_id=f"{domain:08x}:{bus:02x}:{device:02x}.0")
            facts.setdefault(fact.name, fact)
    return tuple(facts.values())

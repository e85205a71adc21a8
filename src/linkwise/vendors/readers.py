"""Entry point for tool outputs: finds which tools wrote a text and joins what they report into one machine.

Texts come pasted, cut and piped; `clean` brings them back to what the tool printed.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.errors import TopologyError
from linkwise.model.topology import MAX_DEVICES, Topology
from linkwise.vendors.registry import VENDORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.link import Link
    from linkwise.vendors.reader import DeviceFacts, Reader, Reading

__all__ = [
    "all_readers",
    "clean",
    "device_facts",
    "joined_facts",
    "parse_topology",
    "readings",
    "recognised",
    "vendor_of",
]

_ORDER: Final = ("links", "bandwidth", "devices")
_MOST_NAMED: Final = 4


def all_readers() -> tuple[Reader, ...]:
    """Readers of all vendors, in the order in which they are asked."""
    readers = [reader for vendor in VENDORS.values() for reader in vendor.readers]
    return tuple(sorted(readers, key=lambda reader: (_ORDER.index(reader.subject), bool(reader.yields))))


def recognised(text: str) -> bool:
    """Whether a known tool wrote the text or a part of it, or is named in it."""
    plain = clean(text)
    return _named_tool(plain) is not None or any(reader.recognises(plain) for reader in all_readers())


def readings(text: str) -> list[Reading]:
    """The content of the text by every tool that wrote a part of it, in the order of `all_readers`."""
    plain = clean(text)
    readers = [reader for reader in all_readers() if reader.recognises(plain)]
    claimed = {reader.claims for reader in readers if reader.claims}
    return [_remarked(reader.read(plain)) for reader in readers if reader.yields not in claimed]


def _remarked(reading: Reading) -> Reading:
    """The reading with a warning if it has pairs without a known link, whatever the tool prints for them."""
    pairs = list(combinations(range(len(reading.links)), 2))
    unknown = [
        f"{reading.devices[a]}-{reading.devices[b]}"
        for a, b in pairs
        if not (_is_known(reading.links[a][b]) and _is_known(reading.links[b][a]))
    ]
    if not unknown:
        return reading
    named = ", ".join(unknown[:_MOST_NAMED]) + (f" and {more} more" if (more := len(unknown) - _MOST_NAMED) > 0 else "")
    warning = f"no link is known for {len(unknown)} of {len(pairs)} pairs, which count as the slowest: {named}"
    return replace(reading, warnings=(*reading.warnings, warning))


def _is_known(link: Link) -> bool:
    return bool(link.direct or link.pcie)


def parse_topology(text: str) -> Topology:
    """Topology of the machine that the output of a topology tool describes, pasted, cut or piped.

    Links are kept as printed (SOC as SYS), bandwidth in GB/s from row to column. `problems` is empty when the text was
    complete; nothing that it lacks is filled in.

    Raises:
        TopologyError: no tool is recognised, or the tool printed an error instead of a table.
    """
    every = readings(text)
    if not every:
        raise TopologyError(_unknown(text))
    links = next((reading for reading in every if reading.links), None)
    speeds = next((reading for reading in every if reading.bandwidth), None)
    main = links or speeds
    if main is None:
        return _without_matrix(every)
    used = [reading for reading in (links, speeds) if reading and reading.devices == main.devices]
    return _topology(main, used, [reading for reading in every if reading not in used])


def _topology(main: Reading, used: list[Reading], others: list[Reading]) -> Topology:
    if len(main.devices) > MAX_DEVICES:
        raise TopologyError(f"{main.kind}: {len(main.devices)} devices; a machine has at most {MAX_DEVICES}")
    warnings = [warning for reading in used for warning in reading.warnings]
    for other in others:
        if other.links or other.bandwidth:
            warnings.append(f"{other.kind} lists {', '.join(other.devices)}: ignored, {main.kind} is used")
        else:
            warnings += [*other.warnings, *(f"{other.kind}: {problem}" for problem in other.problems)]
    return Topology(
        devices=main.devices,
        links=next((reading.links for reading in used if reading.links), ()),
        bandwidth=next((reading.bandwidth for reading in used if reading.bandwidth), ()),
        rings=next((reading.rings for reading in used if reading.rings), ()),
        problems=tuple(problem for reading in used for problem in reading.problems),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _tools() -> dict[str, str]:
    return {tool: command for vendor in VENDORS.values() for tool, command in vendor.tools.items()}


def _named_tool(text: str) -> str | None:
    """The first tool that the text names."""
    named = re.search("|".join(map(re.escape, _tools())), text)
    return named[0] if named else None


def _unknown(text: str) -> str:
    """Why no reader takes a text, for the person who pasted it."""
    tool = _named_tool(text)
    if tool is None:
        return "no known topology tool wrote this text; try `nvidia-smi topo -m`"
    if re.search(rf"{re.escape(tool)}: (?:command )?not found|{re.escape(tool)}: No such file", text):
        return f"{tool} is not installed where this was run"
    return f"the text names {tool} but has none of its tables; try `{_tools()[tool]}`"


def _without_matrix(every: list[Reading]) -> Topology:
    """The devices where no text has a matrix; the tool's own error where there are no devices either."""
    listed = next((reading for reading in every if reading.status != "error" and reading.devices), None)
    if listed is None:
        problem = next((problem for reading in every for problem in reading.problems), "the text lists no device")
        raise TopologyError(f"{every[0].kind}: {problem}")
    note = f"{listed.kind} has no data on links between devices"
    return Topology(listed.devices, problems=listed.problems, warnings=(note, *listed.warnings))


def device_facts(text: str) -> tuple[DeviceFacts, ...]:
    """Facts about each device, joined by name over all tools that wrote a part of the text."""
    return joined_facts(facts for reading in readings(text) for facts in reading.facts)


def joined_facts(every: Iterable[DeviceFacts]) -> tuple[DeviceFacts, ...]:
    """One value per name; of two values of a fact, the first counts."""
    joined: dict[str, DeviceFacts] = {}
    for facts in every:
        known = joined.setdefault(facts.name, facts)
        empty = {field.name: getattr(facts, field.name) for field in fields(facts) if not getattr(known, field.name)}
        joined[facts.name] = replace(known, **empty)
    return tuple(joined.values())


def vendor_of(reading: Reading) -> str:
    """The vendor whose reader returned the reading."""
    kinds = {reader.kind: vendor.name for vendor in VENDORS.values() for reader in vendor.readers}
    return kinds[max((kind for kind in kinds if reading.kind.startswith(kind)), key=len)]


_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_RULER: Final = re.compile(r"\s*\|(?:\s*:?-{3,}:?\s*\|)+\s*")
_ROW: Final = re.compile(r"\s*\|(.*)\|\s*")


def clean(text: str) -> str:
    """Remove terminal escapes, the byte order mark, carriage returns and trailing blanks."""
    plain = _ESCAPES.sub("", text.replace("\x00", "").removeprefix("\ufeff"))
    lines = plain.replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
    if any(_RULER.fullmatch(line) for line in lines):
        lines = [_from_markdown(line) for line in lines]
    return "\n".join(line.rstrip(" ") for line in lines)


def _from_markdown(line: str) -> str:
    """Turn a row of a Markdown table back into cells between tabs."""
    if _RULER.fullmatch(line):
        return ""
    row = _ROW.fullmatch(line)
    return "\t".join(cell.strip() for cell in row[1].split("|")) if row else line

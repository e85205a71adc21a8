"""All kinds of text that can be read, and the one way in: finding which tool wrote it.

Text as people paste, cut and pipe it, brought back to what the tool printed.
"""
# Joined from readers, text: one docstring for all.

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from linkwise.errors import TopologyError
from linkwise.model.topology import MAX_DEVICES, Topology
from linkwise.vendors import amd, ascend, metax
from linkwise.vendors.nvidia import (
    inventory as nvidia_inventory,
    nvbandwidth,
    p2p_test as nvidia_p2p_test,
    topo as nvidia_topo,
)

if TYPE_CHECKING:
    from linkwise.vendors.reader import DeviceFacts, Reading

__all__ = ["READERS", "clean", "device_facts", "parse_topology", "readings", "recognised"]

_TABLES: Final = {
    "nvidia-smi": "nvidia-smi topo -m",
    "NVIDIA-SMI": "nvidia-smi topo -m",
    "npu-smi": "npu-smi info -t topo",
    "rocm-smi": "rocm-smi --showtopo",
    "amd-smi": "amd-smi topology",
    "mx-smi": "mx-smi topo",
    "nvbandwidth": "nvbandwidth -t device_to_device_memcpy_read_ce",
}
_TOOLS: Final = re.compile("|".join(_TABLES))

# rule 002.vendors: one line a vendor's file. Texts that tell links come before those that tell bandwidth, and both
# before inventories; of two that fit, the one that stands first is asked first.
READERS: Final = (
    *ascend.TOPO_READERS,
    *metax.READERS,
    *amd.READERS,
    *nvidia_topo.READERS,
    *nvidia_p2p_test.READERS,
    *nvbandwidth.READERS,
    *ascend.INVENTORY_READERS,
    *nvidia_inventory.READERS,
)


def recognised(text: str) -> bool:
    """Whether a tool that we know wrote the text or a part of it, or is named in it."""
    plain = clean(text)
    return _TOOLS.search(plain) is not None or any(reader.recognises(plain) for reader in READERS)


def readings(text: str) -> list[Reading]:
    """What every tool that wrote a part of the text said, in the order of READERS."""
    plain = clean(text)
    return [reader.read(plain) for reader in READERS if reader.recognises(plain)]


def parse_topology(text: str) -> Topology:
    """The machine that the output of a topology tool describes, as people paste, cut and pipe it.

    Links stand as the tool printed them (SOC as SYS), bandwidth in GB/s from row to column. `problems` is empty when
    the text was whole; nothing that it lacks is filled in.

    Raises:
        TopologyError: no tool is recognised, or the tool printed an error instead of a table.
    """
    found = readings(text)
    if not found:
        raise TopologyError(_unknown(text))
    links = next((reading for reading in found if reading.links), None)
    speeds = next((reading for reading in found if reading.bandwidth), None)
    main = links or speeds
    if main is None:
        return _without_matrix(found)
    used = [reading for reading in (links, speeds) if reading and reading.devices == main.devices]
    return _topology(main, used, [reading for reading in found if reading not in used])


def _topology(main: Reading, used: list[Reading], others: list[Reading]) -> Topology:
    if len(main.devices) > MAX_DEVICES:
        raise TopologyError(f"{main.kind}: {len(main.devices)} devices; a machine has at most {MAX_DEVICES}")
    warnings = [warning for reading in used for warning in reading.warnings]
    for other in others:
        if other.links or other.bandwidth:
            warnings.append(f"{other.kind} tells of {', '.join(other.devices)}: left out beside {main.kind}")
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


def _unknown(text: str) -> str:
    """Why no reader takes a text, for the person who pasted it."""
    named = _TOOLS.search(text)
    if named is None:
        return "no topology tool that we know wrote this text: try `nvidia-smi topo -m`"
    tool = named[0]
    if re.search(rf"{tool}: (?:command )?not found|{tool}: No such file", text):
        return f"{tool} is not installed where this was run"
    return f"{tool} is named, but no table of it that we read: try `{_TABLES[tool]}`"


def _without_matrix(found: list[Reading]) -> Topology:
    """What can be said where no text tells of pairs: the devices, or the tool's own error."""
    listed = next((reading for reading in found if reading.status != "error" and reading.devices), None)
    if listed is None:
        said = next((problem for reading in found for problem in reading.problems), "it tells nothing of devices")
        raise TopologyError(f"{found[0].kind}: {said}")
    note = f"{listed.kind} tells nothing of links between devices"
    return Topology(listed.devices, problems=listed.problems, warnings=(note, *listed.warnings))


def device_facts(text: str) -> tuple[DeviceFacts, ...]:
    """What all tools that wrote a part of the text tell of each device, joined by its name."""
    joined: dict[str, DeviceFacts] = {}
    for facts in (facts for reading in readings(text) for facts in reading.facts):
        known = joined.setdefault(facts.name, facts)
        empty = {field.name: getattr(facts, field.name) for field in fields(facts) if not getattr(known, field.name)}
        joined[facts.name] = replace(known, **empty)
    return tuple(joined.values())


_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_RULER: Final = re.compile(r"\s*\|(?:\s*:?-{3,}:?\s*\|)+\s*")
_ROW: Final = re.compile(r"\s*\|(.*)\|\s*")


def clean(text: str) -> str:
    """The text without terminal escapes, byte order mark, carriage returns and blanks at the ends of lines."""
    plain = _ESCAPES.sub("", text.replace("\x00", "").removeprefix("\ufeff"))
    lines = plain.replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
    if any(_RULER.fullmatch(line) for line in lines):
        lines = [_from_markdown(line) for line in lines]
    return "\n".join(line.rstrip(" ") for line in lines)


def _from_markdown(line: str) -> str:
    """A row of a Markdown table as the tool printed it, with tabs."""
    if _RULER.fullmatch(line):
        return ""
    row = _ROW.fullmatch(line)
    return "\t".join(cell.strip() for cell in row[1].split("|")) if row else line

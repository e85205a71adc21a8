"""A fleet as users name it: so many nodes of each machine profile, on the command line or in a YAML file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from linkwise.cli.options.files import file_name
from linkwise.config.schema import refusal
from linkwise.config.validation import hint
from linkwise.config.yaml_tree import content_of, pairs, place_of, root_of
from linkwise.errors import InputError
from linkwise.model.verdict import Problem
from linkwise.vendors.machines import PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["DEFAULT", "MODES", "MOST", "fleet_of", "spread"]

DEFAULT: Final[Mapping[str, int]] = {
    "dgx1-v100": 2,
    "v100-pcie": 2,
    "dgx1-v100/percent": 2,
    "atlas-800": 2,
    "p40-share": 2,
}
"""something for manifests of all five systems"""

MODES: Final = ("whole", "share", "percent")
"""how the devices of a node can be handed out"""

MOST: Final = 20_000
"""nodes of a fleet: beyond them the memory and the patience of one machine come to their end"""

_EXPECTED: Final = "expected nodes: and below it PROFILE: COUNT"
_COUNT: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line, with the places of its two words."""

    machine: str
    count: str
    place: str
    place_of_count: str


def fleet_of(text: str) -> dict[str, int]:
    """The fleet that `PROFILE=COUNT,...`, a profile alone or a file names; InputError tells all that is wrong with it."""
    if not text.strip():
        raise InputError("--fleet: it is empty; write PROFILE=COUNT,... or name a file")
    return _checked(_in_file(Path(text)) if _is_file(text) else _written(text))


def spread(fleet: Mapping[str, int], nodes: int) -> dict[str, int]:
    """So many nodes in the proportions of a fleet, one of each profile at least as long as there are enough."""
    given = dict.fromkeys(list(fleet)[:nodes], 1)
    for _ in range(nodes - len(given)):  # the next one goes where the most are missing, as seats of a parliament do
        given[max(given, key=lambda kind: fleet[kind] / (2 * given[kind] + 1))] += 1
    return given


def _is_file(text: str) -> bool:
    """Whether a file is meant: one that is there, standard input, or a name with an ending, which no profile has."""
    return text == "-" or Path(text).exists() or ("." in text and "=" not in text)


def _checked(entries: Iterable[_Entry]) -> dict[str, int]:
    found: dict[str, int] = {}
    problems: list[Problem] = []
    for entry in entries:
        if sentence := _wrong_machine(entry.machine) or ("it stands there twice" if entry.machine in found else ""):
            problems.append(Problem(entry.place, entry.machine or "?", sentence))
        elif sentence := _wrong_count(entry.count):
            problems.append(Problem(entry.place_of_count, entry.machine, sentence))
        else:
            found[entry.machine] = int(entry.count)
    if problems:
        raise refusal(problems)
    if (total := sum(found.values())) > MOST:
        raise InputError(f"--fleet: {total} nodes are more than {MOST}, which is the most")
    return found


def _wrong_machine(machine: str) -> str:
    name, slash, mode = machine.partition("/")
    if name not in PROFILES:
        begun = [known for known in PROFILES if known.startswith(name.casefold())]
        return f"no such machine profile{hint(name, begun[:1] or PROFILES)}"
    if not slash:
        return ""
    if mode not in MODES:
        return f"{mode!r} is no way to hand out devices{hint(mode, MODES)}"
    profile = PROFILES[name]
    if profile.shared and mode != "share":
        return "its devices are shared by memory, and not otherwise"
    if profile.vendor != "nvidia" and mode != "whole":
        return f"devices of {profile.vendor} are handed out whole"
    return ""


def _wrong_count(count: str) -> str:
    if _COUNT.fullmatch(count) and int(count):
        return ""
    if count.isascii() and count.isdecimal() and count.strip("0"):
        return f"{count} nodes are more than {MOST}, which is the most"
    return f"{count!r} is no number of nodes; it is 1 or more" if count else "how many? Write PROFILE=COUNT"


def _written(text: str) -> Iterator[_Entry]:
    for part in text.split(","):
        machine, equals, count = part.partition("=")
        if not machine.strip():
            raise InputError(f"--fleet: a machine profile is missing in {text!r}; write PROFILE=COUNT,...")
        yield _Entry(machine.strip(), count.strip() if equals else "1", "--fleet", "--fleet")


def _in_file(file: Path) -> Iterator[_Entry]:
    name = file_name(str(file))
    for machine, key, value in pairs(_nodes_of(root_of(content_of(file), name), name)):
        count = value.value if isinstance(value, yaml.ScalarNode) else "a list or a mapping"
        yield _Entry(machine, count, f"{name}:{place_of(key)}", f"{name}:{place_of(value)}")


def _nodes_of(root: yaml.Node | None, name: str) -> yaml.MappingNode:
    """The one section of the file."""
    if root is None:
        raise InputError(f"{name}: it is empty; {_EXPECTED}")
    sections = list(pairs(root)) if isinstance(root, yaml.MappingNode) else []
    for key, node, _ in sections:
        if key != "nodes":
            raise InputError(f"{name}:{place_of(node)}: {key}: no such field; {_EXPECTED}")
    if len(sections) > 1:
        raise InputError(f"{name}:{place_of(sections[1][1])}: nodes: it stands there twice")
    inner = sections[0][2] if sections else root
    if not isinstance(inner, yaml.MappingNode) or not sections or not inner.value:
        raise InputError(f"{name}:{place_of(inner)}: {_EXPECTED}")
    return inner

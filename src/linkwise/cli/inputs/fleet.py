"""Parses a fleet: the number of nodes per machine profile, from the command line or a YAML file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from linkwise.cli.options.io import file_name
from linkwise.config.schema import hint, refusal
from linkwise.config.yaml_documents import content_of, pairs, place_of, root_of
from linkwise.dialects.registry import BY_NAME
from linkwise.errors import InputError
from linkwise.model.verdict import Problem
from linkwise.vendors.machines import PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["DEFAULT", "MAX_NODES", "MODES", "fleet_of", "spread", "with_dra"]

DEFAULT: Final[Mapping[str, int]] = {
    "dgx1-v100": 2,
    "v100-pcie": 2,
    "dgx1-v100/percent": 2,
    "atlas-800": 2,
    "p40-share": 2,
}
"""nodes for manifests of all supported systems"""

MODES: Final = ("whole", "share", "percent", "dra")
"""sharing modes of a node; `dra` are whole devices that a DRA driver publishes"""

MAX_NODES: Final = 20_000
"""what one machine can simulate in reasonable time and memory"""

_EXPECTED: Final = "expected `nodes:` with entries PROFILE: COUNT"
_COUNT: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class _Entry:
    """One profile with its count, and the positions of both."""

    machine: str
    count: str
    place: str
    place_of_count: str


def fleet_of(text: str) -> dict[str, int]:
    """Parse `PROFILE=COUNT,...`, a single profile or a file; InputError lists all problems."""
    if not text.strip():
        raise InputError("--fleet: empty value; expected PROFILE=COUNT,... or a file")
    return _checked(_in_file(Path(text)) if _is_file(text) else _written(text))


def spread(fleet: Mapping[str, int], nodes: int) -> dict[str, int]:
    """Distribute that number of nodes in the proportions of a fleet, with at least one per profile if possible."""
    counts = dict.fromkeys(list(fleet)[:nodes], 1)
    for _ in range(
        nodes - len(counts)
    ):  # Sainte-Laguë: the next node goes to the profile that is most under-represented
        counts[max(counts, key=lambda kind: fleet[kind] / (2 * counts[kind] + 1))] += 1
    return counts


def with_dra(fleet: Mapping[str, int]) -> dict[str, int]:
    """Give all nodes that can have one a DRA driver in place of a device plugin; InputError if none can.

    Nodes of percents are among them: they have the device plugin of whole devices, too, and with one such node in the
    cluster, pods are served by claims only if they say so.
    """
    changed: dict[str, int] = {}
    for machine, count in fleet.items():
        name, _, mode = machine.partition("/")
        served = f"{name}/dra" if mode != "share" and not _wrong_machine(f"{name}/dra") else machine
        changed[served] = changed.get(served, 0) + count
    if not any(machine.endswith("/dra") for machine in changed):
        raise InputError(
            "--dra: the fleet has no NVIDIA GPUs that are not shared by memory; others have no DRA driver here"
        )
    return changed


def _is_file(text: str) -> bool:
    """Whether the text names a file: an existing one, standard input, or a name with an extension."""
    return text == "-" or Path(text).exists() or ("." in text and "=" not in text)


def _checked(entries: Iterable[_Entry]) -> dict[str, int]:
    fleet: dict[str, int] = {}
    problems: list[Problem] = []
    for entry in entries:
        if sentence := _wrong_machine(entry.machine) or ("duplicate entry" if entry.machine in fleet else ""):
            problems.append(Problem(entry.place, entry.machine or "?", sentence))
        elif sentence := _wrong_count(entry.count):
            problems.append(Problem(entry.place_of_count, entry.machine, sentence))
        else:
            fleet[entry.machine] = int(entry.count)
    if problems:
        raise refusal(problems)
    if (total := sum(fleet.values())) > MAX_NODES:
        raise InputError(f"--fleet: {total} nodes are more than {MAX_NODES}, the maximum")
    return fleet


def _wrong_machine(machine: str) -> str:
    name, slash, mode = machine.partition("/")
    if name not in PROFILES:
        completions = [known for known in PROFILES if known.startswith(name.casefold())]
        return f"unknown machine profile{hint(name, completions[:1] or PROFILES)}"
    if not slash:
        return ""
    if mode not in MODES:
        return f"{mode!r} is not a sharing mode{hint(mode, MODES)}"
    profile = PROFILES[name]
    if profile.shared and mode != "share":
        return "this profile supports sharing by memory only"
    if profile.vendor != BY_NAME["aliyun"].vendor and mode != "whole":
        return f"{profile.vendor} devices support whole allocation {'by a device plugin ' if mode == 'dra' else ''}only"
    return ""


def _wrong_count(count: str) -> str:
    if _COUNT.fullmatch(count) and int(count):
        return ""
    if count.isascii() and count.isdecimal() and count.strip("0"):
        return f"{count} nodes are more than {MAX_NODES}, the maximum"
    return (
        f"{count!r} is not a valid number of nodes; expected 1 or more"
        if count
        else "count missing; expected PROFILE=COUNT"
    )


def _written(text: str) -> Iterator[_Entry]:
    for part in text.split(","):
        machine, equals, count = part.partition("=")
        if not machine.strip():
            raise InputError(f"--fleet: machine profile missing in {text!r}; expected PROFILE=COUNT,...")
        yield _Entry(machine.strip(), count.strip() if equals else "1", "--fleet", "--fleet")


def _in_file(file: Path) -> Iterator[_Entry]:
    name = file_name(str(file))
    for machine, key, value in pairs(_nodes_of(root_of(content_of(file), name), name)):
        count = value.value if isinstance(value, yaml.ScalarNode) else "a list or a mapping"
        yield _Entry(machine, count, f"{name}:{place_of(key)}", f"{name}:{place_of(value)}")


def _nodes_of(root: yaml.Node | None, name: str) -> yaml.MappingNode:
    """Return the `nodes` section of the file."""
    if root is None:
        raise InputError(f"{name}: empty file; {_EXPECTED}")
    sections = list(pairs(root)) if isinstance(root, yaml.MappingNode) else []
    for key, node, _ in sections:
        if key != "nodes":
            raise InputError(f"{name}:{place_of(node)}: {key}: unknown field; {_EXPECTED}")
    if len(sections) > 1:
        raise InputError(f"{name}:{place_of(sections[1][1])}: nodes: duplicate field")
    inner = sections[0][2] if sections else root
    if not isinstance(inner, yaml.MappingNode) or not sections or not inner.value:
        raise InputError(f"{name}:{place_of(inner)}: {_EXPECTED}")
    return inner

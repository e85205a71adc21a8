"""Where a machine's description comes from: a tool's output, a file of our own, standard input, or a profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from linkwise.cli.options.files import file_name
from linkwise.errors import InputError, TopologyError
from linkwise.vendors.machines import profile
from linkwise.vendors.readers import device_facts, parse_topology, recognised
from linkwise.wire.topology_json import FORMAT, read_topology

if TYPE_CHECKING:
    from linkwise.model.topology import Topology
    from linkwise.vendors.reader import DeviceFacts

__all__ = ["Source", "load_source", "load_topology"]


class Source(NamedTuple):
    """A machine, and what is told of its devices beside their links."""

    topology: Topology
    facts: tuple[DeviceFacts, ...] = ()


def load_topology(file: str | None, profile_name: str | None) -> Topology:
    """The machine that the user named; InputError names the file and the place."""
    return load_source(file, profile_name).topology


def load_source(file: str | None, profile_name: str | None) -> Source:
    """The same with what is told of its devices."""
    if profile_name is not None:
        return Source(profile(profile_name).topology)
    if file is None:
        raise InputError("name a machine: --topology FILE, or --profile NAME")
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    name = file_name(file)
    if not content.strip():
        raise InputError(f"{name} is empty")
    text = content.decode("utf-8", errors="replace")
    try:
        if recognised(text):
            return Source(parse_topology(text), device_facts(text))
        return Source(read_topology(_document(content)))
    except TopologyError as error:
        raise TopologyError(f"{name}: {error}") from error


def _document(content: bytes) -> dict[object, object]:
    found = _parse(content)
    if not isinstance(found, dict):
        raise TopologyError(f"neither a tool's output nor a machine file, which is written like this:\n{FORMAT}")
    return found


def _parse(content: bytes) -> object:
    """A document as JSON, or else as YAML: JSON allows tabs and numbers that YAML does not know."""
    import msgspec  # noqa: PLC0415 - only a file of our own needs it
    import yaml  # noqa: PLC0415 - same

    from linkwise.config.yaml_tree import fault_of  # noqa: PLC0415 - same

    try:
        if content.lstrip().startswith((b"{", b"[")):
            try:
                return msgspec.json.decode(content)
            except msgspec.DecodeError:
                pass  # flow style YAML begins with the same signs
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place, sentence = fault_of(error)
        where = f"{place[1:]}: " if place else ""
        raise TopologyError(f"neither a tool's output nor a machine file: {where}{sentence}") from error

"""Loads the description of a machine from a tool's output, a machine file, standard input or a profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from linkwise.cli.options.io import file_name
from linkwise.errors import InputError, TopologyError
from linkwise.vendors.machines import profile
from linkwise.vendors.readers import device_facts, parse_topology, recognised
from linkwise.wire.topology_json import FORMAT, read_topology

if TYPE_CHECKING:
    from linkwise.model.topology import Topology
    from linkwise.vendors.reader import DeviceFacts

__all__ = ["Source", "load_source", "load_topology"]


class Source(NamedTuple):
    """A machine: its topology and the facts of its devices."""

    topology: Topology
    facts: tuple[DeviceFacts, ...] = ()


def load_topology(file: str | None, profile_name: str | None) -> Topology:
    """Load the topology; InputError names the file and the position."""
    return load_source(file, profile_name).topology


def load_source(file: str | None, profile_name: str | None) -> Source:
    """Load the topology and the device facts."""
    if profile_name is not None:
        return Source(profile(profile_name).topology)
    if file is None:
        raise InputError("machine required: --topology FILE, or --profile NAME")
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
    document = _parse(content)
    if not isinstance(document, dict):
        raise TopologyError(
            f"neither the output of a supported tool nor a machine file; a machine file looks like this:\n{FORMAT}"
        )
    return document


def _parse(content: bytes) -> object:
    """Parse JSON, else YAML: JSON allows tabs and numbers that YAML does not."""
    import msgspec  # noqa: PLC0415 - only needed for a machine file
    import yaml  # noqa: PLC0415 - same

    from linkwise.config.yaml_documents import fault_of  # noqa: PLC0415 - same

    try:
        if content.lstrip().startswith((b"{", b"[")):
            try:
                return msgspec.json.decode(content)
            except msgspec.DecodeError:
                pass  # YAML in flow style begins with the same characters
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place, sentence = fault_of(error)
        where = f"{place[1:]}: " if place else ""
        raise TopologyError(f"neither the output of a supported tool nor a machine file: {where}{sentence}") from error

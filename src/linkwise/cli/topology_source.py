"""Where a machine's description comes from: a file, standard input, or a profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from linkwise.errors import InputError, TopologyError
from linkwise.vendors.profiles import profile
from linkwise.wire.topology_file import read_topology

if TYPE_CHECKING:
    from linkwise.model.topology import Topology

__all__ = ["load_topology"]


def load_topology(file: str | None, profile_name: str | None) -> Topology:
    """The machine that the user named; InputError names the file and the place."""
    if profile_name is not None:
        return profile(profile_name).topology
    if file is None:
        raise InputError("name a machine: --topology FILE, or --profile NAME")
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    try:
        return read_topology(_parse(text))
    except TopologyError as error:
        raise TopologyError(f"{file}: {error}") from error


def _parse(text: bytes) -> object:
    import yaml  # noqa: PLC0415 - only a description in a file needs it; JSON is YAML as well

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1} column {mark.column + 1}: " if mark else ""
        raise TopologyError(f"{place}{error.problem or error}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise TopologyError(f"neither YAML nor JSON: {error}") from error

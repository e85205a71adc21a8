"""Prints the topology of a machine as tables or JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console

from linkwise.cli.render.matrix import Marks, bandwidth_table, link_table
from linkwise.cli.render.tables import LabelledLines
from linkwise.engine.reasons.catalog import devices_text
from linkwise.topology.canonical import clean_samples
from linkwise.topology.fabric import fabric_of
from linkwise.topology.link_values import score_matrix
from linkwise.topology.rings import rings
from linkwise.wire.topology_json import encode_topology

if TYPE_CHECKING:
    from linkwise.cli.inputs.topology import Source
    from linkwise.model.topology import Topology
    from linkwise.vendors.reader import DeviceFacts

__all__ = ["show_topology", "topology_json"]


def show_topology(source: Source, console: Console | None = None) -> None:
    """Print the matrices, rings, suspicious samples, device facts and problems."""
    topology, terminal = source.topology, console or Console(highlight=False)
    marks = Marks((), range(len(topology.devices)))
    if topology.links:
        terminal.print(link_table(topology, score_matrix(topology), marks, terminal.width), "")
    if topology.bandwidth:
        fabric = fabric_of(topology.bandwidth, topology.links)
        terminal.print(bandwidth_table(fabric.values, marks, fabric.suspects, terminal.width), "[dim]GB/s[/]", "")
    lines = LabelledLines()
    lines.add("devices", ", ".join(topology.devices) or "none")
    for facts in source.facts:
        if text := _facts(facts):
            lines.add(facts.name, text)
    islands = _islands(topology)
    if islands:
        lines.add("rings", " ".join(map(devices_text, islands)))
    for i, j in _suspects(topology):
        ways = f"{topology.bandwidth[i][j]:g} and {topology.bandwidth[j][i]:g} GB/s in the two directions"
        lines.add("suspect", f"{i}-{j}: {ways}", "yellow")
    for warning in topology.warnings:
        lines.add("warning", warning, "yellow")
    for problem in topology.problems:
        lines.add("missing", problem, "bold red")
    terminal.print(lines.rows)


def topology_json(source: Source) -> str:
    """Return the topology as one JSON object."""
    topology = source.topology
    facts = tuple(asdict(facts) for facts in source.facts)
    return encode_topology(topology, _islands(topology), _suspects(topology), facts).decode()


def _islands(topology: Topology) -> tuple[tuple[int, ...], ...]:
    return tuple(ring for ring in rings(topology) if len(ring) > 1)


def _facts(facts: DeviceFacts) -> str:
    memory = f"{facts.memory} MiB" if facts.memory else ""
    numa = f"NUMA {facts.numa}" if facts.numa else ""
    return ", ".join(filter(None, (facts.model, facts.uuid, facts.bus_id, memory, numa, facts.health)))


def _suspects(topology: Topology) -> tuple[tuple[int, int], ...]:
    return clean_samples(topology.bandwidth, topology.links).suspects if topology.bandwidth else ()

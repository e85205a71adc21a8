"""Links of a node of a cluster, for `linkwise topo`: read from it, or checked against a machine and written on it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import click

from linkwise.assembly.cluster_reader import read_cluster, with_cluster
from linkwise.cli.inputs.topology import Source
from linkwise.dialects.nvidia import TOPOLOGY, matrix_annotation, read_matrix
from linkwise.engine.reasons.phrases import count_text
from linkwise.errors import InputError, NotFoundError, TopologyError
from linkwise.kube.client.objects import annotate_node
from linkwise.model.topology import NO_LINK_DATA, Topology, link_data_help
from linkwise.vendors.reader import DeviceFacts

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.kube.client.api import Connection
    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeInventory
    from linkwise.views.cluster import ClusterView

__all__ = ["annotate", "node_source"]


def node_source(name: str, kubeconfig: Path | None, context: str | None) -> Source:
    """Load the node of that name; a node without link data is incomplete."""
    reader = read_cluster(kubeconfig, context)
    inventory = reader.broker.inventories[reader.node(name)]
    if not inventory.devices:
        raise NotFoundError(f"node {name} has no devices")
    facts = tuple(_facts(inventory, device) for device in inventory.devices)
    if inventory.topology is not None:
        return Source(inventory.topology, facts)
    devices = tuple(device.id for device in inventory.devices)
    problem = f"{NO_LINK_DATA} for node {name}; {link_data_help(name)}"
    return Source(Topology(devices, problems=(problem,)), facts)


def annotate(name: str, topology: Topology, kubeconfig: Path | None, context: str | None, *, dry: bool) -> None:
    """Write the link matrix on the node and print what changed; errors say why nothing was written."""
    reader = read_cluster(kubeconfig, context)
    before = reader.broker.nodes[reader.node(name)].annotations.get(TOPOLOGY)
    text = matrix_annotation(topology)
    _check(reader, name, topology, text)
    for warning in topology.warnings:
        click.echo(f"warning: {warning}", err=True)
    if topology.bandwidth:
        click.echo("note: the annotation holds link kinds; the measured bandwidth is left out", err=True)

    async def work(connection: Connection) -> None:
        await annotate_node(connection, name, {TOPOLOGY: text}, dry=dry)

    if text != before:
        with_cluster(kubeconfig, context, work)
    result = "unchanged" if text == before else f"annotated: {_changed(before, text)}"
    click.echo(f"node/{name} {result}{' (server dry run)' if dry else ''}")
    if dry:
        click.echo(f"{TOPOLOGY}: {text}")


def _facts(inventory: NodeInventory, device: Device) -> DeviceFacts:
    numa = None if device.numa is None else str(device.numa)
    memory = {"MiB": device.memory, "GiB": device.memory * 1024}.get(inventory.unit) or None
    return DeviceFacts(
        f"device {device.index}",
        device.id,
        device.model,
        device.bus_id,
        memory,
        numa=numa,
        health="" if device.healthy else "unhealthy",
    )


def _check(reader: ClusterView, name: str, topology: Topology, text: str) -> None:
    """Raise InputError unless the scheduler would use the links, NotFoundError if the node has no devices."""
    broker, inventory = reader.broker, reader.broker.inventories[name]
    if not inventory.devices:
        raise NotFoundError(f"node {name} has no devices; check its device plugin")
    if inventory.by_claims:
        raise InputError(f"node {name}: ResourceClaims allocate its devices, so that links are not used")
    if len(inventory.devices) != len(topology.devices):
        links = f"links of {count_text(len(topology.devices), 'device')} given"
        raise InputError(
            f"{links}, but node {name} has {len(inventory.devices)}; run the topology tool on that node, outside of containers"
        )
    # What the scheduler would make of the node decides, so the node is observed with the annotation.
    view = broker.nodes[name]
    broker.observe(
        [replace(view, annotations={**view.annotations, TOPOLOGY: text}, version=view.version + 1)], reader.now
    )
    seen = broker.inventories[name]
    if seen.topology is None:
        why = "; ".join(problem.text for problem in seen.problems)
        raise InputError(f"node {name}: links would not be used{f': {why}' if why else ''}")
    written = read_matrix(text)
    if written is None or seen.topology.links != written.links:
        raise InputError(
            f"node {name}: an inventory object has its links already and is used instead of the annotation"
        )


def _changed(before: str | None, text: str) -> str:
    """Return what is written, and what it replaces."""
    rows = json.loads(text)
    now = f"links of {count_text(len(rows), 'device')}"
    try:
        known = read_matrix(before) if before is not None else None
    except TopologyError:
        return f"{now}, replacing an invalid matrix"
    if known is None:
        return now
    old = json.loads(matrix_annotation(known))
    if len(old) != len(rows):
        return f"{now}, replacing those of {count_text(len(old), 'device')}"
    pairs = list(combinations(range(len(rows)), 2))
    other = sum((old[i][j], old[j][i]) != (rows[i][j], rows[j][i]) for i, j in pairs)
    return f"{now}, replacing {other} of {count_text(len(pairs), 'link')}"

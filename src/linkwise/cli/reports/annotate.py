"""Body of `linkwise topo --annotate`: checks the links of a machine against a node, and writes them on the node."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import click

from linkwise.assembly.cluster_reader import read_cluster, with_cluster
from linkwise.dialects.nvidia.topology_annotation import TOPOLOGY, matrix_annotation, read_matrix
from linkwise.engine.reasons.phrases import count_text
from linkwise.errors import InputError, NotFoundError, TopologyError
from linkwise.kube.client.annotate import annotate_node

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.kube.client.api import Connection
    from linkwise.model.topology import Topology
    from linkwise.views.cluster import ClusterView

__all__ = ["annotate"]


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

"""Prints the details of a node, pod or group: links, device usage and explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text

from linkwise.cli.plan.planning import Planned
from linkwise.cli.plan.view import show as show_plans
from linkwise.cli.render.explanation import show_document
from linkwise.cli.render.matrix import Marks, bandwidth_table, bar, link_table
from linkwise.cli.render.tables import Table, print_sentences, print_table, terminal
from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.inspect import Holder, inspect_nodes
from linkwise.explain.reports.group import GroupExplanation
from linkwise.explain.reports.node import NodeExplanation
from linkwise.explain.reports.pod import Explanation
from linkwise.explain.text.node import health_text
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.link_data import NO_LINK_DATA, link_data_help
from linkwise.topology.fabric import fabric_of
from linkwise.topology.link_score import score_matrix
from linkwise.topology.rings import idle_by_ring
from linkwise.views.explanations import document_of, explain_object
from linkwise.views.links import links_text, rings_of
from linkwise.views.nodes import device_state, holder_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rich.console import Console

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.explain.reports.group import MemberReport
    from linkwise.views.cluster import ClusterView

__all__ = ["describe"]


def describe(reader: ClusterView, kind: str, name: str, namespace: str, form: str | None) -> None:
    """Print the details of an object to standard output."""
    console = terminal()
    explanation = explain_object(reader, kind, name, namespace)
    if form:
        show_document(document_of(explanation), form)
    elif isinstance(explanation, GroupExplanation):
        show_plans([Planned(explanation, _with_plan(reader, explanation))], explain=True, form=None)
    elif isinstance(explanation, NodeExplanation):
        _node(console, reader, explanation)
    elif isinstance(explanation, Explanation):
        _pod(console, reader, explanation)


def _with_plan(reader: ClusterView, explanation: GroupExplanation) -> tuple[NodeInspection, ...]:
    """Return the nodes of a group with all its members placed."""
    members = {(member.node, index): member for member in explanation.members for index in member.indices}
    nodes = []
    for host in explanation.hosts:
        for node in inspect_nodes(reader.broker, host.name, reader.now):
            devices = (_with_member(device, members.get((node.name, device.index))) for device in node.devices)
            nodes.append(replace(node, devices=tuple(devices)))
    return tuple(nodes)


def _with_member(device: InspectedDevice, member: MemberReport | None) -> InspectedDevice:
    if member is None or any(pod.uid == member.uid for pod in device.pods):
        return device
    namespace, _, name = member.name.partition("/")
    return replace(device, pods=(*device.pods, Holder(member.uid, namespace, name, "planned")))


def _node(console: Console, reader: ClusterView, explanation: NodeExplanation) -> None:
    heading, *lines = explanation_lines(explanation)
    print_sentences(console, [heading], 0, "bold")
    node = explanation.devices
    if not node.devices:
        print_sentences(console, lines)
        return
    console.print()
    print_table(console, _devices(node))
    idle = {device.index for device in node.devices if device.usable and not device.pods}
    if explanation.linked:
        _links(console, reader, explanation.name, (), idle)
    rings = rings_of(reader.broker.inventories[explanation.name])
    if len(rings) > 1:
        counts = idle_by_ring(rings, idle)
        console.print()
        for ring, free in zip(rings, counts, strict=True):
            console.print(f"ring {devices_text(ring)}: {free} of {len(ring)} devices idle")
    console.print()
    print_sentences(console, [*_unusable(node), *(line for line in lines if not line.startswith("device"))])


def _unusable(node: NodeInspection) -> Iterator[str]:
    """Yield why devices can't be allocated, which the table has no room for."""
    for device in node.devices:
        if device.fault or device.cordon_reason:
            yield f"device {device.index}: {health_text(device)}"


def _pod(console: Console, reader: ClusterView, explanation: Explanation) -> None:
    heading, *lines = explanation_lines(explanation)
    print_sentences(console, [heading], 0, "bold")
    print_sentences(console, lines)
    if not explanation.node or explanation.node not in reader.broker.inventories or not explanation.devices:
        return
    own = {index for part in explanation.devices for index in part.indices}
    (node,) = inspect_nodes(reader.broker, explanation.node, reader.now)
    idle = {device.index for device in node.devices if device.usable and not device.pods}
    if not any(NO_LINK_DATA in line for line in lines):
        _links(console, reader, explanation.node, own, own | idle)
    if node.mode in {"share", "percent"}:
        console.print()
        print_table(console, _devices(node, own))


def _devices(node: NodeInspection, only: Collection[int] | None = None) -> Table:
    """Return one row per device, with a usage bar for shared devices."""
    shared = node.mode in {"share", "percent"}
    table = Table(("device", "model", "state", *(("usage",) if shared else ()), "pods"))
    for device in node.devices:
        if only is not None and device.index not in only:
            continue
        state, style = device_state(node, device)
        health = health_text(device, short=True)
        cells = [
            Text(str(device.index)),
            Text(device.model or "-"),
            Text(f"{health} {'' if health and state == '-' else state}".strip(), "red" if health else style),
            *([_bar(device)] if shared else []),
            Text(", ".join(holder_text(pod, node.unit) for pod in device.pods) or "-"),
        ]
        table.add(*cells)
    return table


def _bar(device: InspectedDevice) -> Text:
    part = 1.0 if device.whole else device.share / device.memory if device.memory else 0.0
    return bar(part)


def _links(console: Console, reader: ClusterView, name: str, own: Collection[int], available: Collection[int]) -> None:
    """Print the link matrix of a node; rows are positions in its topology, in the order of device indexes."""
    inventory = reader.broker.inventories[name]
    topology = inventory.topology
    console.print()
    if topology is None or not (topology.links or topology.bandwidth):
        console.print(f"links: {links_text(inventory) or f'{NO_LINK_DATA} for node {name}; {link_data_help(name)}'}")
        return
    positions = reader.broker.usage[name].positions()
    at = {device.index: positions[device.id] for device in inventory.devices if device.id in positions}
    marks = Marks({at[index] for index in own if index in at}, {at[index] for index in available if index in at})
    console.print(f"links: {links_text(inventory)}")
    if topology.links:
        console.print(link_table(topology, score_matrix(topology), marks, console.width))
    if topology.bandwidth:
        fabric = fabric_of(topology.bandwidth, topology.links)
        console.print(bandwidth_table(fabric.values, marks, fabric.suspects, console.width))
        console.print(Text("GB/s", "dim"))

"""A node, a pod or a group in full: its links in colour, who has what, and the sentences of the service."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from linkwise.cli.get.nodes import device_state, holder_text
from linkwise.cli.plan.planning import Planned
from linkwise.cli.plan.view import show as show_plans
from linkwise.cli.render.explanation import explain_thing
from linkwise.cli.render.matrix import Marks, bandwidth_table, bar, link_table, links_text, rings_of
from linkwise.cli.render.tables import headed_table, print_table
from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.inspect import Holder
from linkwise.explain.reports.group import GroupExplanation
from linkwise.explain.reports.node import NodeExplanation
from linkwise.explain.text.pod import explanation_lines
from linkwise.topology.fabric import fabric_of
from linkwise.topology.link_score import score_matrix
from linkwise.topology.rings import idle_by_ring

if TYPE_CHECKING:
    from collections.abc import Collection

    from rich.table import Table

    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.explain.reports.group import ToldMember
    from linkwise.explain.reports.pod import Explanation

__all__ = ["describe"]


def describe(seen: ClusterReader, kind: str, name: str, namespace: str) -> None:
    """All of it, on standard output."""
    console = Console(highlight=False, markup=False)
    told = explain_thing(seen, kind, name, namespace)
    if isinstance(told, GroupExplanation):
        show_plans([Planned(told, _with_plan(seen, told))], explain=True, as_json=False)
    elif isinstance(told, NodeExplanation):
        _node(console, seen, told)
    else:
        _pod(console, seen, told)


def _with_plan(seen: ClusterReader, told: GroupExplanation) -> tuple[NodeInspection, ...]:
    """The nodes of a group as they are with all its members there."""
    coming = {(member.node, index): member for member in told.members for index in member.indices}
    found = []
    for host in told.hosts:
        for node in seen.broker.inspect(host.name, seen.now):
            devices = (_taken_by(device, coming.get((node.name, device.index))) for device in node.devices)
            found.append(replace(node, devices=tuple(devices)))
    return tuple(found)


def _taken_by(device: InspectedDevice, member: ToldMember | None) -> InspectedDevice:
    if member is None or any(pod.uid == member.uid for pod in device.pods):
        return device
    namespace, _, name = member.name.partition("/")
    return replace(device, pods=(*device.pods, Holder(member.uid, namespace, name, "planned")))


def _node(console: Console, seen: ClusterReader, told: NodeExplanation) -> None:
    heading, *lines = explanation_lines(told)
    console.print(Text(heading, "bold"))
    found = told.devices
    if not found.devices:
        _sentences(console, lines)
        return
    console.print()
    print_table(console, _devices(found))
    idle = {device.index for device in found.devices if device.healthy and not device.pods}
    _links(console, seen, told.name, (), idle)
    rings = rings_of(seen.broker.state.cluster.stocks[told.name])
    if len(rings) > 1:
        counts = idle_by_ring(rings, idle)
        console.print()
        for ring, free in zip(rings, counts, strict=True):
            console.print(f"ring {devices_text(ring)}: {free} of {len(ring)} idle")
    console.print()
    _sentences(console, [line for line in lines if not line.startswith("device")])


def _pod(console: Console, seen: ClusterReader, told: Explanation) -> None:
    heading, *lines = explanation_lines(told)
    console.print(Text(heading, "bold"))
    _sentences(console, lines)
    if not told.node or told.node not in seen.broker.state.cluster.stocks or not told.devices:
        return
    own = {index for part in told.devices for index in part.indices}
    (node,) = seen.broker.inspect(told.node, seen.now)
    idle = {device.index for device in node.devices if device.healthy and not device.pods}
    _links(console, seen, told.node, own, own | idle)
    if node.mode in {"share", "percent"}:
        console.print()
        print_table(console, _devices(node, own))


def _sentences(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(Padding.indent(Text(line), 2))


def _devices(node: NodeInspection, only: Collection[int] | None = None) -> Table:
    """A row a device, with a bar where it is handed out in parts."""
    shared = node.mode in {"share", "percent"}
    columns = ("device", "model", "state", *(("fill",) if shared else ()), "pods")
    table = headed_table(*columns, names=("device", "model", "state", "fill"))
    for device in node.devices:
        if only is not None and device.index not in only:
            continue
        state, style = device_state(node, device)
        broken = "" if device.healthy else "broken"
        cells = [
            Text(str(device.index)),
            Text(device.model or "-"),
            Text(f"{broken} {'' if broken and state == '-' else state}".strip(), "red" if broken else style),
            *([_bar(device)] if shared else []),
            Text(", ".join(holder_text(pod, node.unit) for pod in device.pods) or "-"),
        ]
        table.add_row(*cells)
    return table


def _bar(device: InspectedDevice) -> Text:
    part = 1.0 if device.whole else device.share / device.memory if device.memory else 0.0
    return bar(part)


def _links(console: Console, seen: ClusterReader, name: str, own: Collection[int], open_ones: Collection[int]) -> None:
    """The matrix of a node; rows are positions of its topology, which are the devices in the order of their indices."""
    stock = seen.broker.state.cluster.stocks[name]
    topology = stock.topology
    console.print()
    if topology is None or not (topology.links or topology.bandwidth):
        console.print(f"links: {links_text(stock) or f'nobody tells how the devices of node {name} are linked'}")
        return
    positions = seen.broker.state.cluster.index.nodes[name].positions()
    at = {device.index: positions[device.id] for device in stock.devices if device.id in positions}
    marks = Marks({at[index] for index in own if index in at}, {at[index] for index in open_ones if index in at})
    console.print(f"links: {links_text(stock)}")
    if topology.links:
        console.print(link_table(topology, score_matrix(topology), marks, console.width))
    if topology.bandwidth:
        fabric = fabric_of(topology.bandwidth, topology.links)
        console.print(bandwidth_table(fabric.values, marks, fabric.suspects, console.width))
        console.print(Text("GB/s", "dim"))

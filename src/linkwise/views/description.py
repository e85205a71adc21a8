"""Descriptions of nodes, pods and groups as blocks of sentences, tables and matrices, which the command line lays out.

The service sends them as it sends tables, so that users who may not read the cluster get the same pages.
"""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.inspect import Holder, inspect_nodes
from linkwise.explain.node import NodeExplanation, health_text
from linkwise.explain.reports import Explanation, GroupExplanation
from linkwise.explain.text.group import group_lines, level_text, speed_text
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.topology import NO_LINK_DATA, link_data_help
from linkwise.topology.fabric import fabric_of
from linkwise.topology.link_values import score_matrix
from linkwise.topology.rings import idle_by_ring
from linkwise.views.blocks import Grid, Pairs, Sentences, bandwidth_forms, bar, link_forms
from linkwise.views.explanations import explain_object
from linkwise.views.nodes import device_state, holder_text, links_text, rings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.explain.reports import MemberReport
    from linkwise.views.blocks import Page, Paragraph, Spans
    from linkwise.views.cluster import ClusterView
    from linkwise.views.explanations import AnyExplanation

    Span = tuple[str, str]

__all__ = ["description_of", "group_page"]


def description_of(cluster: ClusterView, kind: str, name: str, namespace: str) -> Page:
    """Describe an object; NotFoundError suggests similar names."""
    explanation = explain_object(cluster, kind, name, namespace)
    if isinstance(explanation, GroupExplanation):
        return group_page(explanation, _with_plan(cluster, explanation), explain=True)
    if isinstance(explanation, NodeExplanation):
        return tuple(_node(cluster, explanation))
    return tuple(_pod(cluster, explanation))


def _with_plan(cluster: ClusterView, explanation: GroupExplanation) -> tuple[NodeInspection, ...]:
    """Return the nodes of a group with all its members placed."""
    members = {(member.node, index): member for member in explanation.members for index in member.indices}
    nodes = []
    for host in explanation.hosts:
        for node in inspect_nodes(cluster.broker, host.name, cluster.now, cluster.only):
            devices = (_with_member(device, members.get((node.name, device.index))) for device in node.devices)
            nodes.append(replace(node, devices=tuple(devices)))
    return tuple(nodes)


def _with_member(device: InspectedDevice, member: MemberReport | None) -> InspectedDevice:
    if member is None or any(pod.uid == member.uid for pod in device.pods):
        return device
    namespace, _, name = member.name.partition("/")
    return replace(device, pods=(*device.pods, Holder(member.uid, namespace, name, "planned")))


def _heading(heading: str) -> Sentences:
    return Sentences((heading,), 0, "bold")


def _node(cluster: ClusterView, explanation: NodeExplanation) -> Iterator[Paragraph]:
    heading, *lines = explanation_lines(explanation)
    node = explanation.devices
    if not node.devices:
        yield (_heading(heading), Sentences(tuple(lines)))
        return
    yield (_heading(heading),)
    yield (_devices(node),)
    idle = {device.index for device in node.devices if device.usable and not device.pods}
    if explanation.linked:
        yield _links(cluster, explanation.name, (), idle)
    rings = rings_of(cluster.broker.inventories[explanation.name])
    if len(rings) > 1:
        counts = zip(rings, idle_by_ring(rings, idle), strict=True)
        of_rings = (f"ring {devices_text(ring)}: {free} of {len(ring)} devices idle" for ring, free in counts)
        yield (Sentences(tuple(of_rings), 0),)
    yield (Sentences((*_unusable(node), *(line for line in lines if not line.startswith("device")))),)


def _unusable(node: NodeInspection) -> Iterator[str]:
    """Yield why devices can't be allocated, which the table has no room for."""
    for device in node.devices:
        if device.fault or device.cordon_reason:
            yield f"device {device.index}: {health_text(device)}"


def _pod(cluster: ClusterView, explanation: AnyExplanation) -> Iterator[Paragraph]:
    heading, *lines = explanation_lines(explanation)
    yield (_heading(heading), Sentences(tuple(lines)))
    if not isinstance(explanation, Explanation) or explanation.node not in cluster.broker.inventories:
        return
    if not explanation.devices:
        return
    own = {index for part in explanation.devices for index in part.indices}
    (node,) = inspect_nodes(cluster.broker, explanation.node, cluster.now, cluster.only)
    idle = {device.index for device in node.devices if device.usable and not device.pods}
    if not any(NO_LINK_DATA in line for line in lines):
        yield _links(cluster, explanation.node, own, own | idle)
    if node.mode in {"share", "percent"}:
        yield (_devices(node, own),)


def _devices(node: NodeInspection, only: Collection[int] | None = None) -> Grid:
    """Return one row per device, with a usage bar for shared devices."""
    shared = node.mode in {"share", "percent"}
    rows = []
    for device in node.devices:
        if only is not None and device.index not in only:
            continue
        state, style = device_state(node, device)
        health = health_text(device, short=True)
        cells: list[Spans] = [
            ((str(device.index), ""),),
            ((device.model or "-", ""),),
            ((f"{health} {'' if health and state == '-' else state}".strip(), "red" if health else style),),
            *([_bar(device)] if shared else []),
            ((", ".join(holder_text(pod, node.unit) for pod in device.pods) or "-", ""),),
        ]
        rows.append(tuple(cells))
    return Grid(("device", "model", "state", *(("usage",) if shared else ()), "pods"), tuple(rows))


def _bar(device: InspectedDevice) -> Spans:
    return bar(1.0 if device.whole else device.share / device.memory if device.memory else 0.0)


def _links(cluster: ClusterView, name: str, own: Collection[int], available: Collection[int]) -> Paragraph:
    """Return the link matrices of a node; rows are positions in its topology, in the order of device indexes."""
    inventory = cluster.broker.inventories[name]
    topology = inventory.topology
    if topology is None or not (topology.links or topology.bandwidth):
        sentence = f"links: {links_text(inventory) or f'{NO_LINK_DATA} for node {name}; {link_data_help(name)}'}"
        return (Sentences((sentence,), 0),)
    positions = cluster.broker.usage[name].positions()
    at = {device.index: positions[device.id] for device in inventory.devices if device.id in positions}
    chosen, free = (tuple(sorted(at[index] for index in some if index in at)) for some in (own, available))
    paragraph: list[Sentences | Pairs] = [Sentences((f"links: {links_text(inventory)}",), 0)]
    if topology.links:
        paragraph.append(Pairs(link_forms(topology), score_matrix(topology), chosen, free))
    if topology.bandwidth:
        fabric = fabric_of(topology.bandwidth, topology.links)
        forms = bandwidth_forms(fabric.values, fabric.suspects)
        paragraph += [Pairs(forms, fabric.values, chosen, free), Sentences(("GB/s",), 0, "dim")]
    return tuple(paragraph)


LETTERS: Final = ascii_uppercase + ascii_lowercase
COLOURS: Final = ("green", "cyan", "yellow", "magenta", "blue", "red")
FREE: Final = "."
IN_USE: Final = "x"
UNHEALTHY: Final = "!"
MAX_NODES: Final = 16
"""nodes in the device map, unless output is wide"""
_UNPLACED: Final = {"left out": "does not fit", "extra": "scheduled alone", "gated": "gated"}


def group_page(
    group: GroupExplanation,
    nodes: Sequence[NodeInspection],
    *,
    explain: bool,
    wide: bool = False,
    in_file: bool = False,
) -> Page:
    """Return the page of a group, whose members exist or are those of a file; `nodes` are those of the map, with the plan applied."""
    heading, *lines = group_lines(group, in_file=in_file, tables=True)
    return tuple(_paragraphs(group, nodes, heading, lines if explain or not group.whole else (), wide=wide))


def _paragraphs(
    group: GroupExplanation, nodes: Sequence[NodeInspection], heading: str, lines: Sequence[str], *, wide: bool
) -> Iterator[Paragraph]:
    yield (Sentences((heading,), 0, "bold" if group.whole else "bold yellow"),)
    marks = _marks(group)
    if group.hosts:
        yield (_members(group, marks),)
    if nodes:
        yield (_device_map(nodes, group, marks, None if wide else MAX_NODES),)
    if group.levels:
        yield (_levels(group),)
    if lines:
        yield (Sentences(tuple(lines)),)


def _marks(group: GroupExplanation) -> dict[str, Span]:
    """Return the mark of every member with devices, by UID."""
    members = [member for member in group.members if member.devices]
    letters = LETTERS if len(members) <= len(LETTERS) else [str(number) for number in range(len(members))]
    return {
        member.uid: (letters[place], f"bold {COLOURS[place % len(COLOURS)]}") for place, member in enumerate(members)
    }


def _members(group: GroupExplanation, marks: Mapping[str, Span]) -> Grid:
    rows = ((marks.get(member.uid, ("", "")), (member.name, ""), *_place(member)) for member in group.members)
    return Grid(
        ("map", "member", "node", "devices", "slowest pair"), tuple(tuple((cell,) for cell in row) for row in rows)
    )


def _place(member: MemberReport) -> tuple[Span, Span, Span]:
    if not member.node:
        return (_UNPLACED.get(member.state, "Pending"), "yellow"), ("", ""), ("", "")
    parts = [part for part in member.devices if part.indices]
    several = len(parts) > 1
    devices = ", ".join(
        f"{part.container} {devices_text(part.indices)}" if several else devices_text(part.indices) for part in parts
    )
    bound = " (bound)" if member.state in {"bound", "terminating"} else ""
    return (member.node + bound, ""), (devices or "none", ""), (speed_text(member.bottleneck) or "-", "")


def _device_map(
    nodes: Sequence[NodeInspection], group: GroupExplanation, marks: Mapping[str, Span], most: int | None
) -> Grid:
    """Return one row per node: nodes with members first, then those with the most idle devices."""
    homes = {host.name for host in group.hosts}
    order = sorted(
        nodes, key=lambda node: (node.name not in homes, -node.idle if node.name not in homes else 0, node.name)
    )
    shown = order[:most]
    width = max((len(node.devices) for node in shown), default=0)
    cell = max([len(str(width)), *(len(mark) for mark, _ in marks.values())])
    unrecorded = {node.name: sum(pod.devices for pod in node.unattributed) for node in shown}
    more = ("unrecorded",) if any(unrecorded.values()) else ()
    rows: list[tuple[Spans, ...]] = []
    for node in shown:
        cells = [_cell(device, marks) for device in node.devices]
        row = tuple((f"{'' if not place else ' '}{text:>{cell}}", style) for place, (text, style) in enumerate(cells))
        rows.append((((node.name, ""),), row, *(((str(unrecorded[node.name] or "-"), ""),) for _ in more)))
    if len(order) > len(shown):
        rows.append((((f"and {len(order) - len(shown)} more", ""),), (("", ""),), *((("", ""),) for _ in more)))
    return Grid(("node", " ".join(f"{place:>{cell}}" for place in range(width)), *more), tuple(rows))


def _cell(device: InspectedDevice, marks: Mapping[str, Span]) -> Span:
    own = next((marks[pod.uid] for pod in device.pods if pod.uid in marks), None)
    if own is not None:
        return own
    if not device.usable:
        return UNHEALTHY, "red"
    return (IN_USE, "dim") if device.pods or device.whole or device.share else (FREE, "")


def _levels(group: GroupExplanation) -> Grid:
    rows = [
        (level.name, "yes" if level.proven else "no", text.partition(";")[0])
        for level in group.levels
        if (text := level_text(level, group))
    ]
    return Grid(("level", "proven", "result of the plan"), tuple(tuple(((cell, ""),) for cell in row) for row in rows))

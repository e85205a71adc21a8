"""Descriptions of nodes, pods and groups as blocks of sentences, tables and matrices, which the command line lays out.

The service sends them as it sends tables, so that users who may not read the cluster get the same pages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

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
from linkwise.views.blocks import Grid, Pairs, Sentences, bandwidth_forms, bar, link_forms
from linkwise.views.explanations import explain_object
from linkwise.views.links import links_text, rings_of
from linkwise.views.nodes import device_state, holder_text
from linkwise.views.plan import group_page

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.explain.reports.group import MemberReport
    from linkwise.views.blocks import Page, Paragraph, Spans
    from linkwise.views.cluster import ClusterView
    from linkwise.views.explanations import AnyExplanation

__all__ = ["DESCRIBED", "description_of"]

DESCRIBED: Final = ("node", "pod", "group")
"""kinds of which there are descriptions"""


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

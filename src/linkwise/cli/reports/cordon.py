"""Body of `linkwise cordon` and `linkwise uncordon`: finds the devices of a node, and changes its annotation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from linkwise.assembly.cluster_reader import read_cluster, with_cluster
from linkwise.dialects.linkwise.cordon import CORDONED, LONGEST_REASON, cordon_annotation, cordons_of
from linkwise.errors import InputError, NotFoundError
from linkwise.explain.inspect import inspect_nodes
from linkwise.kube.client.objects import update_annotation
from linkwise.model.views import NodeView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.kube.client.api import Connection
    from linkwise.views.cluster import ClusterView

__all__ = ["Target", "cordon", "uncordon"]

_Cordons = dict[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """Devices of a node, as they were named on the command line."""

    node: str
    devices: tuple[str, ...]
    """by index or ID"""
    kubeconfig: Path | None
    context: str | None
    dry: bool


def cordon(target: Target, reason: str) -> None:
    """Cordon the devices and print what changed; errors say why nothing was written."""
    _check(target, "cordon", reason)
    reader = read_cluster(target.kubeconfig, target.context)
    node = _node(reader, target)
    if node.by_claims:
        raise InputError(
            f"node {node.name}: ResourceClaims allocate its devices; taint one with a DeviceTaintRule of Kubernetes instead"
        )
    chosen = [_device(node, word) for word in target.devices]

    def change(cordons: _Cordons) -> _Cordons:
        for device in chosen:
            cordons.pop(f"#{device.index}", None)
            cordons[device.id] = reason
        return cordons

    before = _update(target, change)
    for device in chosen:
        known = before.get(device.id, before.get(f"#{device.index}"))
        result = "cordoned" if known is None else "already cordoned" if known == reason else "cordoned: reason changed"
        click.echo(f"node/{node.name} device {_name(device)} {result}{' (server dry run)' if target.dry else ''}")
        for note in _notes(node, device):
            click.echo(f"note: {note}", err=True)


def uncordon(target: Target) -> None:
    """Uncordon the devices and print what changed; errors say why nothing was written."""
    _check(target, "uncordon")
    reader = read_cluster(target.kubeconfig, target.context)
    node = _node(reader, target, empty=True)
    known, _ = cordons_of(reader.broker.nodes[node.name])
    # A device that was replaced is only in the annotation.
    chosen = [({word}, word) if word in known else _keys(_device(node, word)) for word in target.devices]

    def change(cordons: _Cordons) -> _Cordons:
        gone = {key for keys, _ in chosen for key in keys}
        return {device: reason for device, reason in cordons.items() if device not in gone}

    before = _update(target, change)
    for keys, name in chosen:
        result = "already uncordoned" if keys.isdisjoint(before) else "uncordoned"
        click.echo(f"node/{node.name} device {name} {result}{' (server dry run)' if target.dry else ''}")


def _check(target: Target, verb: str, reason: str = "") -> None:
    if not target.devices:
        raise InputError(f"--device required: the index or ID of a device; for a whole node use `kubectl {verb}`")
    if len(reason) > LONGEST_REASON:
        raise InputError(f"--reason has {len(reason)} characters; at most {LONGEST_REASON} are allowed")
    if not reason.isprintable():
        raise InputError("--reason must be one line of printable text")


def _node(reader: ClusterView, target: Target, *, empty: bool = False) -> NodeInspection:
    (node,) = inspect_nodes(reader.broker, reader.node(target.node), reader.now)
    if not node.devices and not empty:
        raise NotFoundError(f"node {node.name} has no devices; check its device plugin")
    return node


def _device(node: NodeInspection, word: str) -> InspectedDevice:
    match = next(
        (device for device in node.devices if word in {device.id, str(device.index), f"#{device.index}"}), None
    )
    if match is None:
        known = ", ".join(str(device.index) for device in node.devices) or "none"
        raise InputError(f"--device {word}: node {node.name} has no such device; its devices are {known}")
    return match


def _keys(device: InspectedDevice) -> tuple[set[str], str]:
    return {device.id, f"#{device.index}"}, _name(device)


def _name(device: InspectedDevice) -> str:
    return str(device.index) if device.id == f"#{device.index}" else f"{device.index} ({device.id})"


def _update(target: Target, change: Callable[[_Cordons], _Cordons]) -> _Cordons:
    """Change the cordons of the node; those from before are returned."""
    before: _Cordons = {}

    def changed(text: str) -> str | None:
        cordons, problems = cordons_of(NodeView(target.node, annotations={CORDONED: text}))
        for problem in problems:
            click.echo(f"warning: {problem.key}: {problem.sentence}", err=True)
        before.clear()
        before.update(cordons)
        return cordon_annotation(change(dict(cordons)))

    async def work(connection: Connection) -> None:
        await update_annotation(connection, target.node, CORDONED, changed, dry=target.dry)

    with_cluster(target.kubeconfig, target.context, work)
    return before


def _notes(node: NodeInspection, device: InspectedDevice) -> Iterator[str]:
    for pod in device.pods:
        if pod.seen:
            name = f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name
            yield f"pod {name} keeps device {device.index} until it ends"
    if not node.enforced:
        yield (
            f"another device plugin allocates the devices of node {node.name}, and may still choose device {device.index};"
            " no more pods are placed there than other devices remain"
        )

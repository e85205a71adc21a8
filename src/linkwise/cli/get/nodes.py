"""Rows of `linkwise get nodes` and `linkwise get devices`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.cli.render.explanation import plain
from linkwise.cli.render.matrix import links_text, rings_of
from linkwise.cli.render.tables import Cell, Row
from linkwise.engine.drift import drift_text
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.published.lists import named
from linkwise.explain.text.node import by_index_text, cordon_text, health_text
from linkwise.explain.text.phrases import share_text

if TYPE_CHECKING:
    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.inspect import Holder, InspectedDevice, NodeInspection

__all__ = ["device_rows", "device_state", "holder_text", "node_rows"]

MODES: Final = {"any": "any", "whole": "whole", "share": "memory", "percent": "percent"}
GIB: Final = 1024


def node_rows(reader: ClusterReader, name: str | None) -> list[Row]:
    """Return rows for the node of that name, or for all nodes with devices."""
    return [_node(reader, node) for node in inspect_nodes(reader.broker, name, reader.now)]


def device_rows(reader: ClusterReader, name: str | None) -> list[Row]:
    """Return rows for all devices, or for those of one node."""
    return [_device(node, device) for node in inspect_nodes(reader.broker, name, reader.now) for device in node.devices]


def _node(reader: ClusterReader, node: NodeInspection) -> Row:
    broker = reader.broker
    stock, view = broker.inventories[node.name], broker.nodes[node.name]
    unhealthy = sum(not device.healthy for device in node.devices) + stock.sick
    problems = [
        *([] if view.ready else ["NotReady"]),
        *(["cordoned"] if view.unschedulable else []),
        *([f"{unhealthy} unhealthy"] if unhealthy else []),
        *(f"device {device.index} {cordon_text(device)}" for device in node.devices if device.cordoned),
        *([by_index_text(node.by_index)] if node.by_index else []),
        *(drift_text(drift, broker.pod_name) for drift in broker.drift.get(node.name, ())),
        *(problem.text for problem in stock.problems),
    ]
    models = ", ".join(sorted({device.model for device in node.devices if device.model}))
    links = links_text(stock)
    cells = {
        "node": Cell(node.name, short=True),
        "sharing": Cell(MODES[node.mode], short=True),
        "idle": Cell(f"{node.idle}/{len(node.devices)}", "green" if node.idle else "", short=True),
        "reserved": Cell(_reserved(reader, node), "cyan"),
        "links": Cell(links),
        "memory": Cell(_memory(node), short=True),
        "model": Cell(models, wide=True),
        "profile": Cell(node.profile, wide=True),
        "address": Cell(reader.addresses.get(node.name, ""), wide=True),
        "allocated by": Cell(_allocator(node), wide=True),
        "problems": Cell("; ".join(problems), "yellow"),
    }
    return Row(
        cells,
        lambda: {
            **plain(node),
            "address": reader.addresses.get(node.name, ""),
            "links": links,
            "rings": [list(ring) for ring in rings_of(stock)],
            "problems": problems,
        },
    )


def _reserved(reader: ClusterReader, node: NodeInspection) -> str:
    """Return the devices that plans reserve, by group: `8 for llm`."""
    devices: dict[str, set[int]] = {}
    for device in node.devices:
        for pod in device.pods:
            if pod.state == "planned":
                key = reader.broker.group_of(pod.uid)
                devices.setdefault(named(key)[1] if key else "a deleted pod", set()).add(device.index)
    return ", ".join(f"{len(indices)} for {group}" for group, indices in sorted(devices.items()))


def _allocator(node: NodeInspection) -> str:
    if node.by_claims:
        names = [device.id for device in node.devices if device.claim]
        return f"ResourceClaims: {', '.join(names)}" if names else "ResourceClaims"
    return "Linkwise agent" if node.enforced else "device plugin"


def _memory(node: NodeInspection) -> str:
    """Return used and total memory where it is shared, else the total."""
    if node.mode in {"share", "percent"}:
        return f"{node.taken}/{share_text(node.memory, node.unit)}"
    if not node.memory:
        return ""
    return (
        f"{node.memory // GIB} GiB" if node.unit in {"", "MiB"} and node.memory >= GIB else f"{node.memory} {node.unit}"
    )


def _device(node: NodeInspection, device: InspectedDevice) -> Row:
    state, style = device_state(node, device)
    cells = {
        "node": Cell(node.name, short=True),
        "device": Cell(str(device.index), short=True),
        "id": Cell(device.id, wide=True),
        "model": Cell(device.model),
        "health": Cell(_health(device), "" if device.usable and device.reachable else "red", short=True),
        "state": Cell(state, style, short=True),
        "pods": Cell(", ".join(sorted(holder_text(pod, node.unit) for pod in device.pods)) or _claim(device)),
        "problem": Cell(", ".join(filter(None, (device.fault, cordon_text(device)))), "yellow"),
    }
    return Row(cells, lambda: {"node": node.name, "unit": node.unit, **plain(device)})


def _health(device: InspectedDevice) -> str:
    return health_text(device, short=True).capitalize() or "Healthy"


def _claim(device: InspectedDevice) -> str:
    return f"ResourceClaim {device.claim}" if device.claim else ""


def device_state(node: NodeInspection, device: InspectedDevice) -> tuple[str, str]:
    """Return the usage of a device and its colour."""
    if device.whole:
        return "in use", "cyan"
    if device.share or device.core:
        core = f", {device.core}% compute" if device.core else ""
        return f"{device.share}/{share_text(device.memory, node.unit)}{core}", "cyan"
    return ("idle", "green") if device.usable else ("-", "red")


def holder_text(pod: Holder, unit: str) -> str:
    """Return the name of a pod with its share of a device."""
    name = f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name
    part = f" {share_text(pod.share, unit)}" if pod.share and not pod.whole else ""
    return f"{name}{part}{'' if pod.state == 'bound' else f' ({pod.state})'}"

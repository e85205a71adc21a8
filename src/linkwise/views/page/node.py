"""A node on the page: its devices, the pods on each, its links, and what still fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.errors import NotFoundError
from linkwise.explain.node import cordon_text, explain_node, fits_lines
from linkwise.explain.published.allocations import node_usage_rows
from linkwise.explain.text.pod import explanation_lines
from linkwise.views.nodes import MODES, allocator_text, device_state, health_state, holder_text, node_problems
from linkwise.views.page.cluster import model_of
from linkwise.views.page.documents import DeviceDetail, DevicePod, DeviceUsage, NodePage
from linkwise.views.page.links import links_of

if TYPE_CHECKING:
    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.model.device import Device
    from linkwise.views.cluster import ClusterView

__all__ = ["node_page"]


def node_page(cluster: ClusterView, name: str) -> NodePage:
    """Describe a node; NotFoundError suggests similar names."""
    broker = cluster.broker
    explanation = explain_node(broker, cluster.node(name), cluster.now, cluster.only)
    if explanation is None:
        raise NotFoundError(f"node {name} not found")
    node, stock = explanation.devices, broker.inventories[name]
    headline, *lines = explanation_lines(explanation)
    usage = _usage(cluster, name)
    hardware = {device.id: device for device in stock.devices}
    return NodePage(
        name,
        model_of(node.devices),
        broker.nodes[name].address if cluster.only is None else "",
        MODES[node.mode],
        allocator_text(node),
        headline,
        tuple(lines),
        tuple(node_problems(cluster, node)),
        tuple(_device(node, one, hardware.get(one.id), usage.get(one.id)) for one in node.devices),
        links_of(stock, broker.usage[name]),
        explanation.sizes,
        "; ".join(fits_lines(explanation)),
    )


def _usage(cluster: ClusterView, name: str) -> dict[str, DeviceUsage]:
    """Return what the agent has published last about the devices of a node, by id."""
    rows = node_usage_rows(cluster.broker, cluster.now, name).nodes
    return {
        one.device: DeviceUsage(
            one.utilization, round(100 * one.used / one.total) if one.used is not None and one.total else None
        )
        for row in rows
        for one in row.by_device
    }


def _device(
    node: NodeInspection, device: InspectedDevice, hardware: Device | None, usage: DeviceUsage | None
) -> DeviceDetail:
    return DeviceDetail(
        device.index,
        device.id,
        device.model,
        device_state(node, device)[0],
        health_state(device),
        device.fault,
        cordon_text(device),
        device.memory,
        device.memory if device.whole else device.share,
        node.unit,
        hardware.numa if hardware else None,
        hardware.bus_id if hardware else "",
        tuple(
            DevicePod(pod.full_name if pod.namespace else "", holder_text(pod, node.unit), pod.state)
            for pod in device.pods
        ),
        usage,
    )

"""What people are told of a node, once when it appears: devices that stop working, and what is wrong with its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.effects import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeInventory

__all__ = ["node_news"]


def node_news(cluster: Cluster) -> list[Event]:
    """Of all nodes that changed since this was last asked."""
    changed, cluster.restocked = cluster.restocked, {}
    pairs = [(before, cluster.inventories[name]) for name, before in changed.items() if name in cluster.inventories]
    return [event for before, after in pairs for event in (*_problems(before, after), *_health(cluster, before, after))]


def _problems(before: NodeInventory | None, after: NodeInventory) -> Iterator[Event]:
    """A matrix that is rejected, counts that differ."""
    known = before.problems if before else ()
    for problem in after.problems:
        if problem not in known:
            yield Event("Warning", "InventoryProblem", f"{problem.key}: {problem.sentence}", node=after.name)


def _health(cluster: Cluster, before: NodeInventory | None, after: NodeInventory) -> Iterator[Event]:
    """Devices that worked and do not, told to the node and to the pods that have them; and those that work again."""
    was = {device.id: device.healthy for device in before.devices} if before else {}
    changed = [device for device in after.devices if was.get(device.id, device.healthy) != device.healthy]
    working = sum(device.healthy for device in after.devices)
    for device in changed:
        count = f"{working} of {len(after.devices)} devices are healthy"
        if device.healthy:
            yield Event(
                "Normal", "DeviceRecovered", f"device {_name(device)} is healthy again; {count}", node=after.name
            )
            continue
        yield Event("Warning", "DeviceFailed", f"device {_name(device)} became unhealthy; {count}", node=after.name)
        for uid in _holders(cluster, after, device):
            pod = cluster.pods[uid]
            sentence = f"device {_name(device)} on node {after.name}, which this pod uses, became unhealthy"
            yield Event("Warning", "DeviceFailed", sentence, pod.namespace, pod.name, uid)


def _holders(cluster: Cluster, stock: NodeInventory, device: Device) -> list[str]:
    """Pods that have the device, by what the node's agent saw, or else by their records."""
    known = {device.id, f"#{device.index}"}
    held = {
        entry.pod: stock.allocations.get(entry.pod) or entry.grant.offer.devices
        for entry in cluster.ledger.on(stock.name)
    }
    return [uid for uid, devices in held.items() if uid in cluster.pods and not known.isdisjoint(devices)]


def _name(device: Device) -> str:
    return str(device.index) if device.id == f"#{device.index}" else f"{device.index} ({device.id})"

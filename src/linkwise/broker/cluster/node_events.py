"""Events about nodes: devices that become unhealthy or recover, and problems of the inventory, each reported once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.cluster.recorded_grants import usage_of_entry
from linkwise.broker.effects import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeInventory

__all__ = ["inventory_events"]


def inventory_events(cluster: Cluster) -> list[Event]:
    """Return events of all nodes that changed since the last call."""
    changed, cluster.changes.inventories = cluster.changes.inventories, {}
    pairs = [(before, cluster.inventories[name]) for name, before in changed.items() if name in cluster.inventories]
    return [event for before, after in pairs for event in (*_problems(before, after), *_health(cluster, before, after))]


def _problems(before: NodeInventory | None, after: NodeInventory) -> Iterator[Event]:
    """Yield new inventory problems: a rejected matrix, counts that differ."""
    known = before.problems if before else ()
    for problem in after.problems:
        if problem not in known:
            yield Event("Warning", "InventoryProblem", problem.text, node=after.name)


def _health(cluster: Cluster, before: NodeInventory | None, after: NodeInventory) -> Iterator[Event]:
    """Yield health changes: on the node, and on the pods that use a device that became unhealthy."""
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


def _holders(cluster: Cluster, inventory: NodeInventory, device: Device) -> list[str]:
    """Return the pods that use the device, as the agent reports or else by their records."""
    entries = [entry for entry in cluster.ledger.on(inventory.name) if entry.pod in cluster.pods]
    return [entry.pod for entry in entries if device.id in usage_of_entry(inventory, entry).used]


def _name(device: Device) -> str:
    return str(device.index) if device.id == f"#{device.index}" else f"{device.index} ({device.id})"

"""Events about nodes: devices that fail, recover or are cordoned, and problems of the inventory, each reported once."""

from __future__ import annotations

from dataclasses import replace
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
    return [
        event for before, after in pairs for event in (*_problems(before, after), *_devices(cluster, before, after))
    ]


def _problems(before: NodeInventory | None, after: NodeInventory) -> Iterator[Event]:
    """Yield new inventory problems: a rejected matrix, counts that differ."""
    known = before.problems if before else ()
    for problem in after.problems:
        if problem not in known:
            yield Event("Warning", "InventoryProblem", problem.text, node=after.name)


def _devices(cluster: Cluster, before: NodeInventory | None, after: NodeInventory) -> Iterator[Event]:
    """Yield changes of devices that are known from before: on the node, and on the pods that use them."""
    if before is None:
        return
    known, usable = {device.id for device in before.devices}, sum(device.healthy for device in after.devices)
    left = f"{usable} of {len(after.devices)} devices are usable"
    for device in after.devices:
        if device.id in known:
            yield from _health(cluster, before, after, device, left)
            yield from _cordon(cluster, before, after, device, left)


def _health(
    cluster: Cluster, before: NodeInventory, after: NodeInventory, device: Device, left: str
) -> Iterator[Event]:
    failed, name = device.id in after.faults, _name(device)
    if failed is (device.id in before.faults):
        return
    if not failed:
        yield Event("Normal", "DeviceRecovered", f"device {name} is healthy again; {left}", node=after.name)
        return
    why = f": {after.faults[device.id]}" if after.faults[device.id] else ""
    yield Event("Warning", "DeviceFailed", f"device {name} became unhealthy{why}; {left}", node=after.name)
    sentence = f"device {name} on node {after.name}, which this pod uses, became unhealthy{why}"
    yield from _to_users(cluster, after, device, Event("Warning", "DeviceFailed", sentence))


def _cordon(
    cluster: Cluster, before: NodeInventory, after: NodeInventory, device: Device, left: str
) -> Iterator[Event]:
    cordoned, name = device.id in after.cordoned, _name(device)
    if cordoned is (device.id in before.cordoned):
        return
    if not cordoned:
        yield Event("Normal", "DeviceUncordoned", f"device {name} is no longer cordoned; {left}", node=after.name)
        return
    why = f": {after.cordoned[device.id]}" if after.cordoned[device.id] else ""
    yield Event("Normal", "DeviceCordoned", f"device {name} was cordoned{why}; {left}", node=after.name)
    sentence = f"device {name} on node {after.name}, which this pod keeps using, was cordoned{why}"
    yield from _to_users(cluster, after, device, Event("Normal", "DeviceCordoned", sentence))


def _to_users(cluster: Cluster, inventory: NodeInventory, device: Device, event: Event) -> Iterator[Event]:
    """Yield the event for each pod that uses the device, as the agent reports or else by their records."""
    for entry in cluster.ledger.on(inventory.name):
        pod = cluster.pods.get(entry.pod)
        if pod is not None and device.id in usage_of_entry(inventory, entry).used:
            yield replace(event, namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _name(device: Device) -> str:
    return str(device.index) if device.id == f"#{device.index}" else f"{device.index} ({device.id})"

"""Reports on devices: the objects that say which devices a node has, and which are healthy or cordoned.

They are the hardware of a simulated node: its devices are read from them, and fail in them. A node has its devices still if
its inventory is deleted. Kubelets report cordoned devices as not allocatable, as they do for Linkwise's agent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.cluster.kubelet_choice import idle_node
from linkwise.dialects.aliyun import COUNT
from linkwise.dialects.linkwise.cordon import CORDONED, cordoned_devices, cordons_of
from linkwise.dialects.linkwise.inventory import KIND, inventory_enforced
from linkwise.dialects.registry import by_priority
from linkwise.embedded.nodes.slices import set_slice_health
from linkwise.errors import InputError
from linkwise.wire.kubernetes.objects import decode_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.cluster.kubelet_choice import IdleNode
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.list_watch import WatchEvent
    from linkwise.embedded.store import Store
    from linkwise.model.device import Device
    from linkwise.model.views import NodeView

__all__ = ["INVENTORIES", "CordonedDevices", "DeviceReports", "NodeReport"]

INVENTORIES: Final = "deviceinventories.linkwise.dev"
KOORDINATOR: Final = "devices.scheduling.koordinator.sh"
CONFIG_MAPS: Final = ("unhealthy-gpu-", "mindx-dl-deviceinfo-")
"""of device plugins; the name of the node follows"""
_LISTS: Final = ((INVENTORIES, ("index", "healthy")), (KOORDINATOR, ("minor", "health")))
"""objects that list devices, with their keys for index and health"""
_MARK: Final = f'"{CORDONED}"'.encode()


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node and the objects that describe it."""

    node: NodeView
    objects: Mapping[str, Raw]
    """by kind, as dialects name it"""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices, by the source that has precedence."""
        facts = (dialect.node(self.node, self.objects) for dialect in by_priority())
        return next((found.devices for found in facts if found is not None and found.devices), ())

    @property
    def usable(self) -> tuple[Device, ...]:
        """The devices as they are allocated: cordoned ones are not."""
        devices = self.devices
        cordoned = cordoned_devices(devices, cordons_of(self.node)[0])
        return tuple(replace(device, healthy=False) if device.id in cordoned else device for device in devices)

    @property
    def idle_node(self) -> IdleNode:
        """The node as the scheduler sees it while no pod is known."""
        return idle_node(self.node, self.objects)

    @property
    def has_agent(self) -> bool:
        """Whether Linkwise's agent serves the devices."""
        return inventory_enforced(self.objects.get(KIND))


class DeviceReports:
    """The reports on the devices of all nodes in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._deleted: dict[str, Stored] = {}
        """inventories of nodes that are still there"""
        store.database.removal_listeners.append(self._on_removal)

    def read(self, node: str) -> NodeReport | None:
        """The report on a node; None if the node does not exist."""
        stored = self._store.find("nodes", node)
        if stored is None:
            return None
        sources = [(KIND, INVENTORIES, node, ""), ("Device", KOORDINATOR, node, "")]
        sources += [(f"ConfigMap/{name}{node}", "configmaps", f"{name}{node}", "kube-system") for name in CONFIG_MAPS]
        found = {kind: self._store.find(resource, name, namespace) for kind, resource, name, namespace in sources}
        found[KIND] = found[KIND] or self._deleted.get(node)
        return NodeReport(decode_node(stored.data), {kind: each.read() for kind, each in found.items() if each})

    def positions(self, node: str) -> list[int]:
        """The device indexes of a node."""
        for kind, (index_key, _) in _LISTS:
            if source := self._store.find(kind, node):
                return [device[index_key] for device in source.read()["spec"]["devices"]]
        return list(range(int(self._store.get("nodes", node).read()["status"]["capacity"].get(COUNT, 0))))

    def set_health(self, node: str, index: int, *, healthy: bool) -> None:
        """Set the health of a device in every object that reports it."""
        updated = [self._set_health_in(kind, node, index, keys, healthy=healthy) for kind, keys in _LISTS]
        if not any(updated):
            updated = [self._set_share_health(node, index, healthy=healthy)]
        if not any(updated):
            raise InputError(f"node {node}: no object reports device {index}")
        set_slice_health(self._store, node, index, healthy=healthy)

    def _on_removal(self, resource: Resource, last: Stored) -> None:
        if resource.group_resource == INVENTORIES and self._store.find("nodes", last.name) is not None:
            self._deleted[last.name] = last
        elif resource.group_resource == "nodes":
            self._deleted.pop(last.name, None)

    def _set_health_in(self, kind: str, node: str, index: int, keys: tuple[str, str], *, healthy: bool) -> bool:
        source = self._store.find(kind, node)
        if source is None:
            return False
        index_key, health_key = keys
        spec = source.read()["spec"]
        devices = [
            {**device, health_key: healthy} if device[index_key] == index else device for device in spec["devices"]
        ]
        if not any(device[index_key] == index for device in devices):
            known = ", ".join(str(device[index_key]) for device in devices)
            raise InputError(f"node {node} has no device {index}; its devices are {known}")
        healthy_count = sum(device[health_key] for device in devices)
        count_field = {"healthyCount": healthy_count} if kind == INVENTORIES else {}
        self._store.patch(kind, node, {"spec": {"devices": devices, **count_field}})
        self.update_allocatable(node)
        return True

    def update_allocatable(self, node: str) -> None:
        """Kubelet reports only healthy devices that are not cordoned as allocatable."""
        report = self.read(node)
        document: Any = report.objects.get(KIND, {}) if report else {}
        if report is None or not report.devices or document.get("spec", {}).get("mode") == "share":
            return
        total, healthy = len(report.devices), sum(device.healthy for device in report.usable)
        status = self._store.get("nodes", node).read()["status"]
        allocatable = {
            name: str(int(amount) // total * healthy)
            for name, amount in status["capacity"].items()
            if "/" in name and amount.isdecimal() and int(amount) % total == 0
        }
        self._store.patch("nodes", node, {"status": {"allocatable": allocatable}}, subresource="status")

    def _set_share_health(self, node: str, index: int, *, healthy: bool) -> bool:
        """The ConfigMap of the gpushare device plugin."""
        if "gpushare" not in self._store.get("nodes", node).labels:
            return False
        name = f"{CONFIG_MAPS[0]}{node}"
        config_map = self._store.find("configmaps", name, "kube-system")
        text = config_map.read().get("data", {}).get("gpus", "") if config_map else ""
        unhealthy = {int(number) for number in text.split(",") if number} - {index} | (set() if healthy else {index})
        data = {"data": {"gpus": ",".join(map(str, sorted(unhealthy)))}}
        if config_map is None:
            self._store.create("configmaps", {"metadata": {"name": name}, **data}, "kube-system")
        else:
            self._store.patch("configmaps", name, data, "kube-system")
        return True


class CordonedDevices:
    """Updates the allocatable devices of nodes whose cordons change; pass it the watch events of nodes."""

    def __init__(self, reports: DeviceReports) -> None:
        self._reports = reports
        self._known: dict[str, str] = {}

    def on_node(self, event: WatchEvent) -> None:
        """Apply the cordons of a node."""
        name = event.stored.name
        if event.type == "DELETED":
            self._known.pop(name, None)
        elif _MARK in event.stored.data or name in self._known:
            text = (event.object["metadata"].get("annotations") or {}).get(CORDONED, "")
            if text != self._known.get(name, ""):
                self._known[name] = text
                self._reports.update_allocatable(name)
            if not text:
                self._known.pop(name, None)

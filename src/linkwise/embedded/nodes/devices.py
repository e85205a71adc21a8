"""Device manager: which pod uses which devices, and which devices are unhealthy, as node agents and device plugins report it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.aliyun import ASSIGNED, COUNT
from linkwise.dialects.registry import held_by
from linkwise.errors import InputError
from linkwise.wire.kubernetes.objects import pod_view

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["DeviceManager"]

INVENTORIES: Final = "deviceinventories.linkwise.dev"
KOORDINATOR: Final = "devices.scheduling.koordinator.sh"


class DeviceManager:
    """The devices of all nodes in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._allocations: dict[str, dict[str, Raw]] = {}
        """by node and pod UID, the allocation as the inventory lists it"""

    def of(self, pod: Raw) -> tuple[str, ...]:
        """The device ids allocated to a pod; empty if none were chosen."""
        holding = held_by(pod_view(pod))
        return holding.grant.offer.devices if holding.grant else ()

    def unhealthy_of(self, pod: Raw) -> list[str]:
        """The pod's devices that are unhealthy."""
        inventory = self._store.find(INVENTORIES, pod["spec"]["nodeName"])
        if inventory is None:
            return []
        unhealthy = {device["uuid"] for device in inventory.read()["spec"]["devices"] if not device["healthy"]}
        return [allocated for allocated in self.of(pod) if allocated in unhealthy]

    def allocate(self, pod: Raw) -> None:
        """Record the devices of a pod whose containers are about to start."""
        meta, node = pod["metadata"], pod["spec"]["nodeName"]
        if (meta.get("annotations") or {}).get(ASSIGNED) == "false":
            change = {"metadata": {"annotations": {ASSIGNED: "true"}}}
            self._store.patch("pods", meta["name"], change, meta["namespace"])
        devices = self.of(pod)
        if devices:
            allocation = {"podUID": meta["uid"], "namespace": meta["namespace"], "name": meta["name"]}
            self._allocations.setdefault(node, {})[meta["uid"]] = {**allocation, "devices": list(devices)}
            self._write_allocations(node)

    def release(self, node: str, uid: str) -> None:
        """Release the devices of a pod whose containers have stopped."""
        allocations = self._allocations.get(node, {})
        if allocations.pop(uid, None) is not None:
            self._write_allocations(node)
        if not allocations:
            self._allocations.pop(node, None)

    def users(self, node: str, index: int) -> list[str]:
        """UIDs of the pods that use a device."""
        ids = {f"#{index}"}  # the id of a device without one
        for kind, (index_key, _), id_key in _SOURCES:
            source = self._store.find(kind, node)
            devices = source.read()["spec"]["devices"] if source else ()
            ids |= {device[id_key] for device in devices if device[index_key] == index}
        return [uid for uid, allocation in self._allocations.get(node, {}).items() if ids & set(allocation["devices"])]

    def positions(self, node: str) -> list[int]:
        """The device indexes of a node."""
        for kind, (index_key, _), _ in _SOURCES:
            if source := self._store.find(kind, node):
                return [device[index_key] for device in source.read()["spec"]["devices"]]
        return list(range(int(self._store.get("nodes", node).read()["status"]["capacity"].get(COUNT, 0))))

    def set_health(self, node: str, index: int, *, healthy: bool) -> None:
        """Set the health of a device in every object that reports it."""
        updated = [self._set_health_in(kind, node, index, keys, healthy=healthy) for kind, keys, _ in _SOURCES]
        if not any(updated):
            updated = [self._set_share_health(node, index, healthy=healthy)]
        if not any(updated):
            raise InputError(f"node {node}: no object reports device {index}")

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
        if spec.get("mode") != "share":
            self._update_allocatable(node, healthy_count, len(devices))
        return True

    def _update_allocatable(self, node: str, healthy: int, total: int) -> None:
        """Kubelet reports only healthy devices as allocatable."""
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
        name = f"unhealthy-gpu-{node}"
        config_map = self._store.find("configmaps", name, "kube-system")
        text = config_map.read().get("data", {}).get("gpus", "") if config_map else ""
        unhealthy = {int(number) for number in text.split(",") if number} - {index} | (set() if healthy else {index})
        data = {"data": {"gpus": ",".join(map(str, sorted(unhealthy)))}}
        if config_map is None:
            self._store.create("configmaps", {"metadata": {"name": name}, **data}, "kube-system")
        else:
            self._store.patch("configmaps", name, data, "kube-system")
        return True

    def _write_allocations(self, node: str) -> None:
        if self._store.find(INVENTORIES, node) is None:
            return  # no agent reports allocations on this node
        change: dict[str, Any] = {"status": {"allocations": list(self._allocations.get(node, {}).values())}}
        self._store.patch(INVENTORIES, node, change, subresource="status")


_SOURCES: Final = (
    (INVENTORIES, ("index", "healthy"), "uuid"),
    (KOORDINATOR, ("minor", "health"), "id"),
)
"""objects that report devices, with their keys for index, health and id"""

"""What tells of a node's devices, kept up to date as our agent and other plugins do: who has which, and which are dead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.aliyun import ASSIGNED, COUNT
from linkwise.dialects.registry import held_by
from linkwise.errors import InputError
from linkwise.wire.kubernetes.objects import pod_view

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["Devices"]

INVENTORIES: Final = "deviceinventories.linkwise.dev"
KOORDINATOR: Final = "devices.scheduling.koordinator.sh"


class Devices:
    """The devices of all nodes of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._holds: dict[str, dict[str, Raw]] = {}
        """by node and pod UID, the allocation as the inventory lists it"""

    def of(self, pod: Raw) -> tuple[str, ...]:
        """The ids that a pod was given; none if nobody chose any."""
        held = held_by(pod_view(pod))
        return held.grant.offer.devices if held.grant else ()

    def dead_of(self, pod: Raw) -> list[str]:
        """Those of its devices that do not work."""
        found = self._store.find(INVENTORIES, pod["spec"]["nodeName"])
        if found is None:
            return []
        dead = {one["uuid"] for one in found.read()["spec"]["devices"] if not one["healthy"]}
        return [device for device in self.of(pod) if device in dead]

    def take(self, pod: Raw) -> None:
        """A pod's containers are about to start: tell which devices they have."""
        meta, node = pod["metadata"], pod["spec"]["nodeName"]
        if (meta.get("annotations") or {}).get(ASSIGNED) == "false":
            change = {"metadata": {"annotations": {ASSIGNED: "true"}}}
            self._store.patch("pods", meta["name"], change, meta["namespace"])
        devices = self.of(pod)
        if devices:
            told = {"podUID": meta["uid"], "namespace": meta["namespace"], "name": meta["name"]}
            self._holds.setdefault(node, {})[meta["uid"]] = {**told, "devices": list(devices)}
            self._write(node)

    def give_back(self, node: str, uid: str) -> None:
        """A pod's containers have stopped."""
        holds = self._holds.get(node, {})
        if holds.pop(uid, None) is not None:
            self._write(node)
        if not holds:
            self._holds.pop(node, None)

    def users(self, node: str, index: int) -> list[str]:
        """UIDs of the pods that have a device."""
        ids = {f"#{index}"}  # its name where nobody names it
        for kind, (number, _), word in _PLACES:
            found = self._store.find(kind, node)
            ids |= {one[word] for one in found.read()["spec"]["devices"] if one[number] == index} if found else set()
        return [uid for uid, told in self._holds.get(node, {}).items() if ids & set(told["devices"])]

    def positions(self, node: str) -> list[int]:
        """The numbers of a node's devices, as whatever tells of them counts."""
        for kind, (number, _), _ in _PLACES:
            if found := self._store.find(kind, node):
                return [one[number] for one in found.read()["spec"]["devices"]]
        return list(range(int(self._store.get("nodes", node).read()["status"]["capacity"].get(COUNT, 0))))

    def mark(self, node: str, index: int, *, healthy: bool) -> None:
        """A device dies, or works again: whatever tells of the node's devices says so."""
        told = [self._mark_in(kind, node, index, words, healthy=healthy) for kind, words, _ in _PLACES]
        if not any(told):
            told = [self._mark_share(node, index, healthy=healthy)]
        if not any(told):
            raise InputError(f"node {node} has nothing that tells of a device {index}")

    def _mark_in(self, kind: str, node: str, index: int, words: tuple[str, str], *, healthy: bool) -> bool:
        found = self._store.find(kind, node)
        if found is None:
            return False
        number, health = words
        spec = found.read()["spec"]
        devices = [{**one, health: healthy} if one[number] == index else one for one in spec["devices"]]
        if not any(one[number] == index for one in devices):
            raise InputError(f"node {node} has no device {index}: {', '.join(str(one[number]) for one in devices)}")
        sound = sum(one[health] for one in devices)
        counted = {"healthyCount": sound} if kind == INVENTORIES else {}
        self._store.patch(kind, node, {"spec": {"devices": devices, **counted}})
        if spec.get("mode") != "share":
            self._count(node, sound, len(devices))
        return True

    def _count(self, node: str, sound: int, there: int) -> None:
        """Kubelet counts what works."""
        status = self._store.get("nodes", node).read()["status"]
        left = {
            name: str(int(amount) // there * sound)
            for name, amount in status["capacity"].items()
            if "/" in name and amount.isdecimal() and int(amount) % there == 0
        }
        self._store.patch("nodes", node, {"status": {"allocatable": left}}, subresource="status")

    def _mark_share(self, node: str, index: int, *, healthy: bool) -> bool:
        """As the plugin of GPU sharing tells it."""
        if "gpushare" not in self._store.get("nodes", node).labels:
            return False
        name = f"unhealthy-gpu-{node}"
        found = self._store.find("configmaps", name, "kube-system")
        text = found.read().get("data", {}).get("gpus", "") if found else ""
        sick = {int(number) for number in text.split(",") if number} - {index} | (set() if healthy else {index})
        data = {"data": {"gpus": ",".join(map(str, sorted(sick)))}}
        if found is None:
            self._store.create("configmaps", {"metadata": {"name": name}, **data}, "kube-system")
        else:
            self._store.patch("configmaps", name, data, "kube-system")
        return True

    def _write(self, node: str) -> None:
        if self._store.find(INVENTORIES, node) is None:
            return  # nobody tells there who has what
        change: dict[str, Any] = {"status": {"allocations": list(self._holds.get(node, {}).values())}}
        self._store.patch(INVENTORIES, node, change, subresource="status")


_PLACES: Final = (
    (INVENTORIES, ("index", "healthy"), "uuid"),
    (KOORDINATOR, ("minor", "health"), "id"),
)
"""what tells of devices, and its words for their number, their health and their id"""

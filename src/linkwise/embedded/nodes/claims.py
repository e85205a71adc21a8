"""Prepared claims: the devices that the containers of simulated nodes have by ResourceClaims.

A kubelet prepares the claims of a pod before it starts containers. It refuses a claim that is not reserved for the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.nodes.slices import DRIVER, device_name, tainted_devices
from linkwise.embedded.writes.claim_rules import CLAIMS
from linkwise.embedded.writes.pod_claims import claims_named_by

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["PreparedClaims"]


class PreparedClaims:
    """Devices by pod, on all nodes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._devices: dict[str, tuple[str, frozenset[str]]] = {}
        """node and names of the devices, by UID of the pod"""

    def prepare(self, pod: Raw) -> str:
        """Prepare the claims of a pod; returns why that is not possible, or an empty text."""
        meta, devices = pod["metadata"], set[str]()
        for name in claims_named_by(pod):
            claim = self._store.find(CLAIMS, name, meta["namespace"])
            if claim is None:
                return f'failed to fetch ResourceClaim {name} referenced by pod {meta["name"]}: resourceclaims.resource.k8s.io "{name}" not found'
            status = claim.read().get("status") or {}
            if all(each["uid"] != meta["uid"] for each in status.get("reservedFor") or ()):
                return f"pod {meta['name']} ({meta['uid']}) is not allowed to use ResourceClaim {name} ({claim.uid})"
            results = status["allocation"].get("devices", {}).get("results") or ()
            devices |= {each["device"] for each in results if each["driver"] == DRIVER}
        if devices:
            self._devices[meta["uid"]] = pod["spec"]["nodeName"], frozenset(devices)
        return ""

    def release(self, uid: str) -> None:
        """Release the devices of a pod whose containers have stopped."""
        self._devices.pop(uid, None)

    def users(self, node: str, index: int) -> list[str]:
        """UIDs of the pods that use a device."""
        name = device_name(index)
        return [uid for uid, (place, devices) in self._devices.items() if place == node and name in devices]

    def has_failed_devices(self, uid: str) -> bool:
        """Whether a pod has devices that do not work."""
        node, devices = self._devices.get(uid, ("", frozenset[str]()))
        return bool(devices) and not devices.isdisjoint(tainted_devices(self._store, node))

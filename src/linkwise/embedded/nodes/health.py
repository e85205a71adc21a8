"""Taints and conditions of nodes, as the node lifecycle controller of Kubernetes writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.kinds.builtin import UNREACHABLE

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["NodeHealth"]


class NodeHealth:
    """Tracks unreachable nodes and writes their taints and Ready condition."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unreachable: set[str] = set()

    def is_unreachable(self, node: str) -> bool:
        """Whether the node's kubelet stopped posting its status."""
        return node in self._unreachable

    def mark_unreachable(self, node: str) -> None:
        """Taint the node as unreachable, with Ready unknown."""
        now = self._store.database.now
        taints = [{"key": UNREACHABLE, "effect": effect, "timeAdded": now} for effect in ("NoSchedule", "NoExecute")]
        condition = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        self._write(node, [*self._other_taints(node), *taints], condition)
        self._unreachable.add(node)

    def mark_ready(self, node: str) -> None:
        """Remove the taints and set Ready."""
        self._unreachable.discard(node)
        self._write(node, self._other_taints(node), ("True", "KubeletReady", "kubelet is posting ready status"))

    def _other_taints(self, node: str) -> list[Raw]:
        taints = self._store.get("nodes", node).read()["spec"].get("taints") or ()
        return [taint for taint in taints if taint["key"] != UNREACHABLE]

    def _write(self, node: str, taints: list[Raw], condition: tuple[str, str, str]) -> None:
        status, reason, message = condition
        now = self._store.database.now
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
        self._store.patch("nodes", node, {"spec": {"taints": taints or None}})
        self._store.patch("nodes", node, {"status": {"conditions": [ready]}}, subresource="status")

"""Nodes that are heard of and nodes that are not, as the node controller of Kubernetes writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["UNREACHABLE", "Health"]

UNREACHABLE: Final = "node.kubernetes.io/unreachable"


class Health:
    """Which nodes of a store are silent."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._silent: set[str] = set()

    def is_silent(self, node: str) -> bool:
        """Whether nobody has heard of it lately."""
        return node in self._silent

    def silence(self, node: str) -> None:
        """Nothing is heard of a node any more."""
        now = self._store.shelves.now
        taints = [{"key": UNREACHABLE, "effect": effect, "timeAdded": now} for effect in ("NoSchedule", "NoExecute")]
        told = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        self._write(node, [*self._others(node), *taints], told)
        self._silent.add(node)

    def wake(self, node: str) -> None:
        """It is heard of again."""
        self._silent.discard(node)
        self._write(node, self._others(node), ("True", "KubeletReady", "kubelet is posting ready status"))

    def _others(self, node: str) -> list[Raw]:
        taints = self._store.get("nodes", node).read()["spec"].get("taints") or ()
        return [taint for taint in taints if taint["key"] != UNREACHABLE]

    def _write(self, node: str, taints: list[Raw], told: tuple[str, str, str]) -> None:
        status, reason, message = told
        now = self._store.shelves.now
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
        self._store.patch("nodes", node, {"spec": {"taints": taints or None}})
        self._store.patch("nodes", node, {"status": {"conditions": [ready]}}, part="status")

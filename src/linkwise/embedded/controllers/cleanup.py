"""Pod garbage collection, taint-based eviction and event expiry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.kinds.builtin import UNREACHABLE
from linkwise.embedded.writes.delete import DeleteOptions, Preconditions
from linkwise.engine.selectors import tolerates
from linkwise.model.views import Taint
from linkwise.wire.kubernetes.objects import decode_pod

if TYPE_CHECKING:
    from linkwise.embedded.runtime import Timers
    from linkwise.embedded.storage.collection import Change, Stored
    from linkwise.embedded.store import Store

__all__ = ["Cleanup", "CleanupSettings"]

_UNREACHABLE_TAINT: Final = Taint(UNREACHABLE, effect="NoExecute")
_MARK: Final = UNREACHABLE.encode("ascii")


@dataclass(frozen=True, slots=True)
class CleanupSettings:
    """Delays in seconds of cluster time, and the number of events to keep."""

    orphan_delay: float = 20.0
    """until pods of a deleted node are deleted"""
    eviction_delay: float = 300.0
    """until pods of an unreachable node are evicted"""
    event_interval: float = 30.0
    """between two runs of event expiry"""
    max_events: int = 5000
    """the newest are kept; kube-apiserver keeps events for an hour"""


class Cleanup:
    """Deletes orphaned pods, evicts pods from unreachable nodes and expires events."""

    def __init__(self, store: Store, timers: Timers, settings: CleanupSettings | None = None) -> None:
        self._store, self._timers = store, timers
        self._settings = settings or CleanupSettings()
        self._nodes = store.database.collection(store.resource("nodes"))

    def start(self) -> None:
        """Start watching nodes."""
        self._nodes.listeners.add(self._on_node)
        self._timers.after(self._settings.event_interval, self._expire_events)

    def stop(self) -> None:
        """Stop watching nodes."""
        self._nodes.listeners.discard(self._on_node)

    def _on_node(self, change: Change) -> None:
        name = change.stored.name
        if change.type == "DELETED":
            self._timers.after(self._settings.orphan_delay, partial(self._delete_orphans, name))
        elif _MARK in change.stored.data and not (change.before and _MARK in change.before.data):
            self._timers.after(self._settings.eviction_delay, partial(self._evict, name))

    def _delete_orphans(self, node: str) -> None:
        """Force-delete the pods of a deleted node: no kubelet is left to stop their containers."""
        if self._store.find("nodes", node) is None:
            for pod in self._pods_on(node):
                self._delete(pod, DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=pod.uid)))

    def _evict(self, node: str) -> None:
        stored = self._store.find("nodes", node)
        if stored is None or _MARK not in stored.data:
            return
        for pod in self._pods_on(node):
            if b'"deletionTimestamp"' not in pod.data and not tolerates(
                decode_pod(pod.data).tolerations, _UNREACHABLE_TAINT
            ):
                self._delete(pod, DeleteOptions(preconditions=Preconditions(uid=pod.uid)))

    def _pods_on(self, node: str) -> list[Stored]:
        return self._store.list("pods", self._store.select("pods", fields=f"spec.nodeName={node}")).items

    def _delete(self, pod: Stored, options: DeleteOptions) -> None:
        try:
            self._store.delete("pods", pod.name, pod.namespace, options)
        except ApiError:
            return

    def _expire_events(self) -> None:
        events = self._store.database.collection(self._store.resource("events")).objects
        surplus = len(events) - self._settings.max_events
        if surplus > 0:
            for event in sorted(events.values(), key=lambda stored: stored.version)[:surplus]:
                self._store.delete("events", event.name, event.namespace)
        self._timers.after(self._settings.event_interval, self._expire_events)

"""What else a cluster tidies up: pods of nodes that are gone or silent for long, and events that are old."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.nodes.faults import UNREACHABLE
from linkwise.embedded.writes.delete import DeleteOptions, Preconditions
from linkwise.engine.selectors import tolerates
from linkwise.model.views import Taint
from linkwise.wire.kubernetes.objects import decode_pod

if TYPE_CHECKING:
    from linkwise.embedded.runtime import Timers
    from linkwise.embedded.storage.collection import Change, Stored
    from linkwise.embedded.store import Store

__all__ = ["Cleanup", "CleanupSettings"]

_TAINT: Final = Taint(UNREACHABLE, effect="NoExecute")
_MARK: Final = UNREACHABLE.encode("ascii")


@dataclass(frozen=True, slots=True)
class CleanupSettings:
    """After which time, in seconds of the cluster's own time, something goes."""

    orphans: float = 20.0
    """pods of a node that is gone"""
    silent: float = 300.0
    """pods of a node that is not heard of are asked to go"""
    look: float = 30.0
    """between two looks at the events"""
    events: int = 5000
    """that are kept, the newest; a real cluster keeps those of an hour"""


class Cleanup:
    """Tidies up a store as time goes by."""

    def __init__(self, store: Store, timers: Timers, settings: CleanupSettings | None = None) -> None:
        self._store, self._timers = store, timers
        self._settings = settings or CleanupSettings()
        self._nodes = store.database.collection(store.resource("nodes"))

    def start(self) -> None:
        """Begin to look."""
        self._nodes.listeners.add(self._hear)
        self._timers.after(self._settings.look, self._look_at_events)

    def stop(self) -> None:
        """Look no more."""
        self._nodes.listeners.discard(self._hear)

    def _hear(self, change: Change) -> None:
        name = change.stored.name
        if change.type == "DELETED":
            self._timers.after(self._settings.orphans, partial(self._bury, name))
        elif _MARK in change.stored.data and not (change.before and _MARK in change.before.data):
            self._timers.after(self._settings.silent, partial(self._evict, name))

    def _bury(self, node: str) -> None:
        """Nobody will ever stop the containers of a node that is gone."""
        if self._store.find("nodes", node) is None:
            for pod in self._on(node):
                self._delete(pod, DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=pod.uid)))

    def _evict(self, node: str) -> None:
        found = self._store.find("nodes", node)
        if found is None or _MARK not in found.data:
            return
        for pod in self._on(node):
            if b'"deletionTimestamp"' not in pod.data and not tolerates(decode_pod(pod.data).tolerations, _TAINT):
                self._delete(pod, DeleteOptions(preconditions=Preconditions(uid=pod.uid)))

    def _on(self, node: str) -> list[Stored]:
        return self._store.list("pods", self._store.select("pods", fields=f"spec.nodeName={node}")).items

    def _delete(self, pod: Stored, options: DeleteOptions) -> None:
        try:
            self._store.delete("pods", pod.name, pod.namespace, options)
        except ApiError:
            return

    def _look_at_events(self) -> None:
        events = self._store.database.collection(self._store.resource("events")).objects
        surplus = len(events) - self._settings.events
        if surplus > 0:
            for event in sorted(events.values(), key=lambda one: one.version)[:surplus]:
                self._store.delete("events", event.name, event.namespace)
        self._timers.after(self._settings.look, self._look_at_events)

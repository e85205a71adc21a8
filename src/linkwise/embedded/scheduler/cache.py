"""What a scheduler knows of a cluster, kept up to date by its news: nodes, who is where, and who waits for a node."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pods import FINISHED
from linkwise.embedded.runtime import follow
from linkwise.embedded.scheduler.nodes import Hosts, placed_of
from linkwise.embedded.scheduler.queue import Queue
from linkwise.wire.kubernetes.objects import decode_node, decode_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.scheduler.nodes import Placed
    from linkwise.embedded.scheduler.queue import QueueSettings
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.storage.watches import WatchEvent
    from linkwise.embedded.store import Store
    from linkwise.model.views import PodView

__all__ = ["Known", "Waiting"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that waits for a node."""

    stored: Stored
    view: PodView


class Known:
    """Nodes and pods as far as a scheduler cares."""

    def __init__(
        self, store: Store, names: tuple[str, ...], settings: QueueSettings, clock: Callable[[], float]
    ) -> None:
        self.queue: Final = Queue(settings)
        self.hosts: Final = Hosts()
        self.pods: Final[dict[str, Waiting]] = {}
        """those that wait for a node, by UID"""
        self.nominated: Final[dict[str, tuple[str, frozenset[str]]]] = {}
        """where room is being made for whom, and the UIDs of those who have to go first"""
        self.wakeup: Final = asyncio.Event()
        self._store, self._names, self._clock = store, names, clock

    def follow(self, tasks: asyncio.TaskGroup) -> None:
        """Keep up to date for as long as the tasks run."""
        heard = {"nodes": self._see_node, "pods": self._see_pod, "persistentvolumeclaims": self._see_claim}
        for kind, see in heard.items():
            tasks.create_task(follow(self._store, kind, see), name=f"scheduler {kind}")

    def wait(self, stored: Stored) -> None:
        """A pod has no node, whatever was thought before."""
        self.pods[stored.uid] = Waiting(stored, decode_pod(stored.data))

    def expected(self, view: PodView) -> dict[str, list[Placed]]:
        """Who else is expected on which node, of those that are as important."""
        found: dict[str, list[Placed]] = {}
        for uid, (node, _) in self.nominated.items():
            other = self.pods.get(uid)
            if other is not None and uid != view.uid and other.view.priority >= view.priority:
                found.setdefault(node, []).append(placed_of(other.view))
        return found

    def take_back(self, uid: str, node: str) -> None:
        """A pod will not be on a node where it was expected."""
        if self.hosts.where(uid) == node and self.hosts.take_away(uid):
            self._wake_all()

    def _see_node(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self.hosts.lose(event.stored.name)
        elif self.hosts.see(decode_node(event.stored.data)):
            self._wake_all()

    def _see_claim(self, event: WatchEvent) -> None:
        if event.type == "ADDED":
            self._wake_all()

    def _see_pod(self, event: WatchEvent) -> None:
        stored = event.stored
        node, over = stored.fields.get("spec.nodeName", ""), stored.fields.get("status.phase") in FINISHED
        if event.type == "DELETED" or over:
            self._leave(stored.uid)
            if self.hosts.take_away(stored.uid):
                self._wake_all()
        elif node:
            self._see_bound(stored, node)
        elif stored.fields.get("spec.schedulerName") in self._names:
            self._see_waiting(stored)

    def _see_bound(self, stored: Stored, node: str) -> None:
        self._leave(stored.uid)
        known = self.hosts.on(stored.uid)
        if known is None or self.hosts.where(stored.uid) != node or known.view.labels != stored.labels:
            self.hosts.place(placed_of(decode_pod(stored.data)), node)

    def _see_waiting(self, stored: Stored) -> None:
        if self.hosts.where(stored.uid):
            return  # it is about to be bound, and this is older than that
        known, view = self.pods.get(stored.uid), decode_pod(stored.data)
        if view.gates or view.deleting:
            self._leave(stored.uid)
            return
        self.pods[stored.uid] = Waiting(stored, view)
        if known is None:
            self.queue.put(stored.uid, view.priority, view.created)
            self.wakeup.set()
        elif _wishes(known.view) != _wishes(view):
            self.queue.wake(stored.uid, self._clock())
            self.wakeup.set()

    def _leave(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.nominated.pop(uid, None)
        self.queue.drop(uid)

    def _wake_all(self) -> None:
        self.queue.wake_all(self._clock())
        self.wakeup.set()


def _wishes(view: PodView) -> PodView:
    """What of a pod matters when it is tried again: not what the scheduler itself writes."""
    return replace(view, version=0, nominated="", phase="")

"""Scheduler cache: nodes, assigned and assumed pods, and pending pods, kept up to date by watches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.embedded.runtime import follow
from linkwise.embedded.scheduler.nodes import NodeCache, pod_info
from linkwise.embedded.scheduler.queue import SchedulingQueue
from linkwise.model.views import FINISHED
from linkwise.wire.kubernetes.objects import decode_node, decode_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.scheduler.nodes import PodInfo
    from linkwise.embedded.scheduler.queue import QueueSettings
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.storage.watches import WatchEvent
    from linkwise.embedded.store import Store
    from linkwise.model.views import PodView

__all__ = ["PendingPod", "SchedulerCache"]


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod without a node."""

    stored: Stored
    view: PodView


class SchedulerCache:
    """The scheduler's view of the cluster."""

    def __init__(
        self, store: Store, names: tuple[str, ...], settings: QueueSettings, clock: Callable[[], float]
    ) -> None:
        self.queue: Final = SchedulingQueue(settings)
        self.node_cache: Final = NodeCache()
        self.pods: Final[dict[str, PendingPod]] = {}
        """pending pods by UID"""
        self.nominated: Final[dict[str, tuple[str, frozenset[str]]]] = {}
        """nominated node of preempting pods, and the UIDs of their victims"""
        self.wakeup: Final = asyncio.Event()
        self._store, self._names, self._clock = store, names, clock

    def follow(self, tasks: asyncio.TaskGroup) -> None:
        """Watch nodes, pods and claims while the task group runs."""
        handlers = {"nodes": self._on_node, "pods": self._on_pod, "persistentvolumeclaims": self._on_claim}
        for kind, handle in handlers.items():
            tasks.create_task(follow(self._store, kind, handle), name=f"scheduler {kind}")

    def set_pending(self, stored: Stored) -> None:
        """Record that a pod has no node."""
        self.pods[stored.uid] = PendingPod(stored, decode_pod(stored.data))

    def nominated_pods(self, view: PodView) -> dict[str, list[PodInfo]]:
        """By node, the other nominated pods of equal or higher priority."""
        nominated: dict[str, list[PodInfo]] = {}
        for uid, (node, _) in self.nominated.items():
            other = self.pods.get(uid)
            if other is not None and uid != view.uid and other.view.priority >= view.priority:
                nominated.setdefault(node, []).append(pod_info(other.view))
        return nominated

    def forget_assumed(self, uid: str, node: str) -> None:
        """Forget an assumed pod that was not bound."""
        if self.node_cache.node_of(uid) == node and self.node_cache.remove_pod(uid):
            self._move_all()

    def _on_node(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self.node_cache.remove_node(event.stored.name)
        elif self.node_cache.update_node(decode_node(event.stored.data)):
            self._move_all()

    def _on_claim(self, event: WatchEvent) -> None:
        if event.type == "ADDED":
            self._move_all()

    def _on_pod(self, event: WatchEvent) -> None:
        stored = event.stored
        node, finished = stored.fields.get("spec.nodeName", ""), stored.fields.get("status.phase") in FINISHED
        if event.type == "DELETED" or finished:
            self._forget(stored.uid)
            if self.node_cache.remove_pod(stored.uid):
                self._move_all()
        elif node:
            self._on_assigned_pod(stored, node)
        elif stored.fields.get("spec.schedulerName") in self._names:
            self._on_pending_pod(stored)

    def _on_assigned_pod(self, stored: Stored, node: str) -> None:
        self._forget(stored.uid)
        cached = self.node_cache.get_pod(stored.uid)
        if cached is None or self.node_cache.node_of(stored.uid) != node or cached.view.labels != stored.labels:
            self.node_cache.assign(pod_info(decode_pod(stored.data)), node)

    def _on_pending_pod(self, stored: Stored) -> None:
        if self.node_cache.node_of(stored.uid):
            return  # assumed: the event is older than the pending bind
        cached, view = self.pods.get(stored.uid), decode_pod(stored.data)
        if view.gates or view.deleting:
            self._forget(stored.uid)
            return
        self.pods[stored.uid] = PendingPod(stored, view)
        if cached is None:
            self.queue.add(stored.uid, view.priority, view.created)
            self.wakeup.set()
        elif _scheduling_fields(cached.view) != _scheduling_fields(view):
            self.queue.activate(stored.uid, self._clock())
            self.wakeup.set()

    def _forget(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.nominated.pop(uid, None)
        self.queue.delete(uid)

    def _move_all(self) -> None:
        self.queue.move_all(self._clock())
        self.wakeup.set()


def _scheduling_fields(view: PodView) -> PodView:
    """The fields whose change requeues a pod: all except those that the scheduler writes, and conditions."""
    return replace(
        view, version=0, nominated="", phase="", condition=None, unschedulable_since=0.0, unschedulable_message=""
    )

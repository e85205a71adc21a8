"""Scheduler cache: nodes, assigned and assumed pods with their requests, and pending pods, by watches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.dialects.pod_resources import effective, whole_quantity
from linkwise.dialects.registry import is_native
from linkwise.embedded.runtime import follow
from linkwise.embedded.scheduler.queue import SchedulingQueue
from linkwise.errors import InputError
from linkwise.model.ask import Capacity, Load
from linkwise.model.views import FINISHED, NodeView
from linkwise.wire.kubernetes.objects import decode_node, decode_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from linkwise.embedded.scheduler.queue import QueueSettings
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.storage.list_watch import WatchEvent
    from linkwise.embedded.store import Store
    from linkwise.engine.feasibility import Neighbour
    from linkwise.model.ask import Demand
    from linkwise.model.views import PodView

__all__ = ["NodeCache", "NodeInfo", "PendingPod", "PodInfo", "SchedulerCache", "pod_info"]

_NATIVE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod without a node."""

    stored: Stored
    view: PodView


class SchedulerCache:
    """The scheduler's view of the cluster."""

    def __init__(
        self,
        store: Store,
        names: tuple[str, ...],
        settings: QueueSettings,
        clock: Callable[[], float],
        is_waiting: Callable[[Stored], bool],
    ) -> None:
        """`is_waiting` returns whether a pod must not be scheduled before its claims exist."""
        self.queue: Final = SchedulingQueue(settings)
        self.node_cache: Final = NodeCache()
        self.pods: Final[dict[str, PendingPod]] = {}
        """pending pods by UID"""
        self.nominated: Final[dict[str, tuple[str, frozenset[str]]]] = {}
        """nominated node of preempting pods, and the UIDs of their victims"""
        self.wakeup: Final = asyncio.Event()
        self._store, self._names, self._clock = store, names, clock
        self._is_waiting = is_waiting
        self._waiting: dict[str, Stored] = {}
        """pods whose claims do not exist, by UID"""

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

    def on_claims_changed(self) -> None:
        """Retry the pods that wait for claims or for devices."""
        for stored in tuple(self._waiting.values()):
            self._on_pending_pod(stored)
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
        if self._is_waiting(stored):
            self._forget(stored.uid)
            self._waiting[stored.uid] = stored
            return
        self._waiting.pop(stored.uid, None)
        self.pods[stored.uid] = PendingPod(stored, view)
        if cached is None:
            self.queue.add(stored.uid, view.priority, view.created)
            self.wakeup.set()
        elif _scheduling_fields(cached.view) != _scheduling_fields(view):
            self.queue.activate(stored.uid, self._clock())
            self.wakeup.set()

    def _forget(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self._waiting.pop(uid, None)
        self.nominated.pop(uid, None)
        self.queue.delete(uid)

    def _move_all(self) -> None:
        self.queue.move_all(self._clock())
        self.wakeup.set()


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod and what it requests of its node."""

    view: PodView
    demand: Demand
    counts: Mapping[str, int]
    """extended resources"""


@dataclass(slots=True)
class NodeInfo:
    """One node with its pods."""

    view: NodeView
    capacity: Capacity = field(default_factory=Capacity)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    used: dict[str, int] = field(default_factory=dict)
    pods: dict[str, PodInfo] = field(default_factory=dict)

    def neighbours(self) -> Iterator[Neighbour]:
        """Namespace and labels of its pods, for inter-pod affinity."""
        return ((pod.view.namespace, pod.view.labels) for pod in self.pods.values())

    def add(self, pod: PodInfo) -> None:
        """Add a pod."""
        self.pods[pod.view.uid] = pod
        self.load = self.load.plus(pod.demand)
        for name, count in pod.counts.items():
            self.used[name] = self.used.get(name, 0) + count

    def remove(self, uid: str) -> PodInfo | None:
        """Remove a pod."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.load = self.load.minus(pod.demand)
            for name, count in pod.counts.items():
                self.used[name] -= count
        return pod

    def without(self, pods: Mapping[str, PodInfo]) -> NodeInfo:
        """A copy of the node without these pods."""
        copy = NodeInfo(self.view, self.capacity, self.allocatable, self.load, dict(self.used), dict(self.pods))
        for uid in pods:
            copy.remove(uid)
        return copy


class NodeCache:
    """All nodes, with the assigned and assumed pods on them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self._imaginary: dict[str, NodeInfo] = {}
        """nodes that have pods but are deleted or not observed yet"""
        self._node_of: dict[str, str] = {}

    def update_node(self, view: NodeView) -> bool:
        """Update a node; whether the change may make a pod schedulable."""
        existing = self.nodes.get(view.name)
        node = existing or self._imaginary.pop(view.name, None) or NodeInfo(view)
        before = existing and (
            existing.view.labels,
            existing.view.taints,
            existing.allocatable,
            existing.capacity,
            _schedulable(existing.view),
        )
        node.view, node.capacity, node.allocatable = view, capacity_of(view), _extended_resources(view)
        self.nodes[view.name] = node
        return before != (view.labels, view.taints, node.allocatable, node.capacity, _schedulable(view))

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        node = self.nodes.pop(name, None)
        if node is not None and node.pods:
            self._imaginary[name] = node

    def node_of(self, uid: str) -> str:
        """The node of a pod; empty if it has none."""
        return self._node_of.get(uid, "")

    def get_pod(self, uid: str) -> PodInfo | None:
        """A pod that is assigned to a node, or None."""
        node = self._node_info(self.node_of(uid))
        return node.pods.get(uid) if node else None

    def assign(self, pod: PodInfo, node: str) -> None:
        """Assign or assume a pod on a node."""
        self.remove_pod(pod.view.uid)
        info = self._node_info(node)
        if info is None:
            info = self._imaginary[node] = NodeInfo(NodeView(node))
        info.add(pod)
        self._node_of[pod.view.uid] = node

    def remove_pod(self, uid: str) -> bool:
        """Remove a pod; whether it was on a node."""
        node = self._node_of.pop(uid, "")
        info = self._node_info(node)
        if info is None:
            return False
        info.remove(uid)
        if not info.pods:
            self._imaginary.pop(node, None)
        return True

    def all_pods(self) -> Iterator[Neighbour]:
        """Namespace and labels of all pods on nodes."""
        for node in self.nodes.values():
            yield from node.neighbours()

    def _node_info(self, name: str) -> NodeInfo | None:
        return self.nodes.get(name) or self._imaginary.get(name)


def pod_info(view: PodView) -> PodInfo:
    """What a pod requests of its node."""
    names = {name for container in view.containers for name in (*container.requests, *container.limits)}
    counts = {name: _request(view, name) for name in names if name not in _NATIVE_RESOURCES and not is_native(name)}
    return PodInfo(view, demand_of(view)[0], counts)


def _scheduling_fields(view: PodView) -> PodView:
    """The fields whose change requeues a pod: all except those that the scheduler writes, and conditions."""
    return replace(
        view, version=0, nominated="", phase="", condition=None, unschedulable_since=0.0, unschedulable_message=""
    )


def _schedulable(view: NodeView) -> tuple[bool, bool]:
    return view.unschedulable, view.ready


def _extended_resources(view: NodeView) -> dict[str, int]:
    amounts = {**view.capacity, **view.allocatable}
    return {name: _quantity(text) for name, text in amounts.items() if name not in _NATIVE_RESOURCES}


def _quantity(text: str) -> int:
    try:
        return whole_quantity(text)
    except InputError:
        return 0


def _request(view: PodView, name: str) -> int:
    try:
        return effective(view, name)
    except InputError:
        return 0  # the API server rejects such pods

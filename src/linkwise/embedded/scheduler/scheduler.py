"""Scheduler: kube-scheduler's scheduling and binding cycles with Linkwise as HTTP extender.

Pods are scheduled one at a time and bound concurrently. Nodes are filtered by the engine's feasibility function and by
extended resources; then filter, prioritize and bind of the running service decide over HTTP. Pods that request no devices
are bound directly. Pods of Volcano's scheduler are scheduled here too, one by one: Linkwise plans gangs.

Volcano asks its extender whether the task fits on the node, and announces the allocation; then it binds with its own copy of
the pod's annotations, so the devices on the pod stay as they are. A pod without devices, as without the gates of the webhook,
is placed by filter and bind like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.runtime import Clock, EventRecorder, wait_or_timeout
from linkwise.embedded.scheduler.cache import SchedulerCache, pod_info
from linkwise.embedded.scheduler.dynamic_resources import NOT_ALLOCATABLE, DynamicResources
from linkwise.embedded.scheduler.extender_client import Extender
from linkwise.embedded.scheduler.fit import (
    Fit,
    find_candidates,
    find_feasible,
    fit_error,
    pinned_to,
    select_candidate,
)
from linkwise.embedded.scheduler.queue import QueueSettings
from linkwise.embedded.writes.field_rules import with_condition
from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.embedded.scheduler.cache import NodeCache, PendingPod, PodInfo
    from linkwise.embedded.scheduler.dynamic_resources import PodClaims
    from linkwise.embedded.scheduler.queue import SchedulingQueue
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.store import Store
    from linkwise.model.views import PodView

__all__ = ["VOLCANO", "Scheduler", "SchedulerSettings", "SchedulerWrites", "VolcanoExtender", "is_planned"]

VOLCANO: Final = "volcano"
"""name of the scheduler"""
_PENDING, _ALLOCATED, _RELEASING = 1, 2, 64
"""status of a task"""


class _Reply(msgspec.Struct, rename="camel"):
    status: str | None = None
    error_message: str = ""


_DECODER: Final = msgspec.json.Decoder(_Reply)


class VolcanoExtender:
    """The verbs of Volcano's extender plugin that this scheduler uses; ClusterError if a call fails."""

    def __init__(self, extender: Extender) -> None:
        self._extender = extender

    async def allocate(self, pod: Stored, node: str) -> str:
        """Ask whether a pod fits on a node and announce that it is allocated there; returns the reason if it can't be."""
        fits = await self._call("predicate", _task(pod, "", _PENDING), node)
        if fits.status:
            return fits.status
        return (await self._call("allocateFunc", _task(pod, node, _ALLOCATED))).error_message

    async def deallocate(self, pod: Stored, node: str) -> None:
        """Announce that a pod is not bound after all."""
        await self._call("deallocateFunc", _task(pod, node, _RELEASING))

    async def _call(self, verb: str, task: dict[str, object], node: str = "") -> _Reply:
        body: dict[str, object] = {"task": task, **({"node": {"Name": node}} if node else {})}
        answer = await self._extender.post(f"volcano/{verb}", msgspec.json.encode(body))
        try:
            return _DECODER.decode(answer)
        except msgspec.DecodeError as error:
            raise ClusterError(f"invalid response from the extender: {error}") from error


def _task(pod: Stored, node: str, status: int) -> dict[str, object]:
    return {
        "UID": pod.uid,
        "Name": pod.name,
        "Namespace": pod.namespace,
        "NodeName": node,
        "Status": status,
        "Pod": msgspec.Raw(pod.data),
    }


def is_planned(pod: PodView) -> bool:
    """Whether a pod of Volcano's scheduler carries its devices and is pinned to one node by required node affinity."""
    return pod.scheduler == VOLCANO and bool(pod.annotations.get(GRANT)) and len(pinned_to(pod)) == 1


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Scheduler settings."""

    names: tuple[str, ...] = ("linkwise-scheduler", VOLCANO, "default-scheduler")
    """values of spec.schedulerName that are served"""
    queue: QueueSettings = field(default_factory=QueueSettings)
    extender_timeout: float = 5.0
    """seconds per extender call"""
    max_concurrent_binds: int = 64
    every_pod: bool = False
    """whether to call the extender also for pods that request no devices"""


class Scheduler:
    """Schedules the pods of a store; `run` it next to the other components."""

    def __init__(
        self, store: Store, url: str, settings: SchedulerSettings | None = None, clock: Clock | None = None
    ) -> None:
        """`url` of the extender; without one, all pods are bound directly."""
        self.settings: Final = settings or SchedulerSettings()
        self._store, self._clock = store, clock or Clock()
        self._resources = DynamicResources(store)
        self._cache = SchedulerCache(
            *(store, self.settings.names, self.settings.queue, self._clock.now), self._resources.is_waiting
        )
        self._resources.listeners.append(self._cache.on_claims_changed)
        self._extender = Extender(url, self.settings.extender_timeout) if url else None
        self._volcano = VolcanoExtender(self._extender) if self._extender is not None else None
        self._writes = SchedulerWrites(store, EventRecorder(store, self.settings.names[-1]))
        self._binds = asyncio.Semaphore(self.settings.max_concurrent_binds)

    @property
    def queue(self) -> SchedulingQueue:
        """The scheduling queue."""
        return self._cache.queue

    @property
    def node_cache(self) -> NodeCache:
        """The nodes, with the assigned and assumed pods on them."""
        return self._cache.node_cache

    async def run(self) -> None:
        """Schedule until cancelled."""
        self._resources.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._cache.follow(tasks)
                tasks.create_task(self._run_cycles(), name="scheduler")
        finally:
            self._resources.stop()
            if self._extender is not None:
                await self._extender.close()

    async def _run_cycles(self) -> None:
        while True:
            self._cache.wakeup.clear()
            uid = self.queue.pop(self._clock.now())
            if uid is None:
                deadline = self.queue.next_deadline()
                await wait_or_timeout(
                    self._cache.wakeup,
                    self._clock,
                    None if deadline is None else max(0.0, deadline - self._clock.now()),
                )
                continue
            await self._schedule_one(uid)

    async def _schedule_one(self, uid: str) -> None:
        pod = self._cache.pods.get(uid)
        if pod is None:
            self.queue.delete(uid)
            return
        try:
            await self._schedule(pod)
        except ClusterError as error:
            self._writes.record_unschedulable(pod.stored, "SchedulerError", str(error))
            self.queue.add_backoff(uid, self._clock.now())

    async def _schedule(self, pod: PendingPod) -> None:
        if missing := self._writes.missing_claim(pod.stored):
            message = f"0/{len(self.node_cache.nodes)} nodes are available: {missing}."
            self._writes.record_unschedulable(pod.stored, "Unschedulable", message)
            self.queue.add_unschedulable(pod.view.uid, self._clock.now())
            return
        info, claims = pod_info(pod.view), self._resources.claims_of(pod.stored)
        fit = await find_feasible(info, self.node_cache, self._cache.nominated_pods(pod.view), claims)
        use_extender = self._extender is not None and (self.settings.every_pod or asks_for_devices(pod.view))
        if fit.nodes and use_extender:
            await (self._allocate(pod, fit) if is_planned(pod.view) else self._call_extender(pod, fit))
        if pod.view.uid not in self._cache.pods:
            return  # deleted or bound meanwhile
        if not fit.nodes:
            if claims is not None:
                self._resources.give_up(claims)
            await self._handle_unschedulable(pod, info, fit)
            return
        node = fit.nodes[0] if use_extender else min(fit.nodes, key=self._allocation_key)
        write_claims = self._reserve(claims, node)
        self.node_cache.assign(info, node)
        self._cache.pods.pop(pod.view.uid)
        await self._binds.acquire()
        self._tasks.create_task(self._bind(pod, node, write_claims, use_extender=use_extender))

    def _reserve(self, claims: PodClaims | None, node: str) -> Callable[[], None]:
        """Reserve the devices of a pod's claims; returns what writes the claims. ClusterError if they were taken."""
        info = self.node_cache.nodes.get(node)
        if claims is None or info is None:
            return lambda: None
        allocations = self._resources.reserve(claims, info)
        if allocations is None:
            raise ClusterError(NOT_ALLOCATABLE)
        return partial(self._resources.write, claims, info, allocations)

    async def _call_extender(self, pod: PendingPod, fit: Fit) -> None:
        """Reduce the feasible nodes to the best one, or record why none passes."""
        assert self._extender is not None  # noqa: S101 - checked by the caller
        result = await self._extender.filter(pod.stored.data, fit.nodes)
        for name in fit.nodes:
            if name in result.failed:
                fit.failed[name] = result.failed[name]
        if result.nodes:
            scores = await self._extender.prioritize(pod.stored.data, result.nodes) if len(result.nodes) > 1 else {}
            candidates = [name for name in result.nodes if name in self.node_cache.nodes]
            fit.nodes = sorted(
                candidates, key=lambda name: (-scores.get(name, 0), -self._requested_devices(name), name)
            )[:1]
        else:
            # The extender's reasons are not in the scheduler's own counts, so preemption by counts can't resolve them.
            fit.unresolvable.update(fit.nodes)
            fit.nodes = []

    async def _allocate(self, pod: PendingPod, fit: Fit) -> None:
        """Announce a pod whose node and devices are planned, as Volcano does, or record why the service refuses it."""
        assert self._volcano is not None  # noqa: S101 - the caller has checked that there is an extender
        node = fit.nodes[0]
        if refusal := await self._volcano.allocate(pod.stored, node):
            fit.failed[node] = refusal
            fit.unresolvable.add(node)
            fit.nodes = []

    async def _handle_unschedulable(self, pod: PendingPod, info: PodInfo, fit: Fit) -> None:
        message = fit_error(len(self.node_cache.nodes), fit.failed.values())
        self._writes.record_unschedulable(pod.stored, "Unschedulable", message)
        candidates = [name for name in fit.failed if name not in fit.unresolvable]
        if candidates and b'"preemptionPolicy":"Never"' not in pod.stored.data:
            await self._preempt(pod, info, candidates)
        if is_planned(pod.view):
            self.queue.add_backoff(pod.view.uid, self._clock.now())  # Volcano tries all pending pods every second
        else:
            self.queue.add_unschedulable(pod.view.uid, self._clock.now())

    async def _preempt(self, pod: PendingPod, info: PodInfo, names: Sequence[str]) -> None:
        """Evict pods of lower priority where that makes the pod fit, unless earlier victims are still terminating."""
        _, evicted = self._cache.nominated.get(pod.view.uid, ("", frozenset[str]()))
        if any(self.node_cache.node_of(uid) for uid in evicted):
            return
        candidates = find_candidates(info, self.node_cache, names)
        if candidates and self._extender is not None and asks_for_devices(pod.view):
            approved = await self._extender.preempt(pod.stored.data, candidates)
            candidates = {node: uids for node, uids in approved.items() if uids and self._are_on_node(node, uids)}
        if candidates:
            node = select_candidate(self.node_cache, candidates)
            views = [self.node_cache.nodes[node].pods[uid].view for uid in candidates[node]]
            self._cache.nominated[pod.view.uid] = (node, frozenset(candidates[node]))
            self._writes.preempt(views, pod.view.uid, node)

    def _are_on_node(self, node: str, uids: Sequence[str]) -> bool:
        return node in self.node_cache.nodes and all(uid in self.node_cache.nodes[node].pods for uid in uids)

    async def _bind(self, pod: PendingPod, node: str, write_claims: Callable[[], None], *, use_extender: bool) -> None:
        view = pod.view
        try:
            write_claims()
            if is_planned(view):
                self._writes.bind(view, node, view.annotations)
            elif use_extender and self._extender is not None:
                await self._extender.bind(view.namespace, view.name, view.uid, node)
            else:
                self._writes.bind(view, node)
        except (ClusterError, ApiError) as error:
            if self._volcano is not None and is_planned(view):
                with contextlib.suppress(ClusterError):  # the service notices by itself that the pod is not bound
                    await self._volcano.deallocate(pod.stored, node)
            self._resources.undo(pod.stored)
            self._handle_bind_failure(pod, node, f"running Bind plugin: binding rejected: {error}")
        else:
            self._writes.record_scheduled(pod.stored, node)
            self.queue.delete(view.uid)
            self._cache.nominated.pop(view.uid, None)
        finally:
            self._binds.release()

    def _handle_bind_failure(self, pod: PendingPod, node: str, message: str) -> None:
        """Requeue the pod, unless it turns out to be bound or deleted."""
        uid = pod.view.uid
        current = self._store.find("pods", pod.view.name, pod.view.namespace)
        if current is None or current.uid != uid or current.fields.get("spec.nodeName"):
            return
        self._cache.forget_assumed(uid, node)
        self._cache.set_pending(current)
        self._writes.record_unschedulable(current, "SchedulerError", message)
        self.queue.add_backoff(uid, self._clock.now())
        self._cache.wakeup.set()

    def _allocation_key(self, name: str) -> tuple[float, int, str]:
        node = self.node_cache.nodes[name]
        resources = ((node.load.cpu, node.capacity.cpu), (node.load.memory, node.capacity.memory))
        return max(used / capacity if capacity else 0.0 for used, capacity in resources), node.load.pods, name

    def _requested_devices(self, name: str) -> int:
        return sum(self.node_cache.nodes[name].used.values())


class SchedulerWrites:
    """Writes as one scheduler; pods that no longer exist are skipped."""

    def __init__(self, store: Store, recorder: EventRecorder) -> None:
        self._store, self._recorder = store, recorder

    def bind(self, view: PodView, node: str, annotations: Mapping[str, str] | None = None) -> None:
        """Bind a pod to a node; the API server writes the annotations over those of the pod."""
        meta = {"name": view.name, "uid": view.uid, "annotations": dict(annotations or {})}
        self._store.bind(view.name, view.namespace, {"metadata": meta, "target": {"kind": "Node", "name": node}})

    def missing_claim(self, pod: Stored) -> str:
        """kube-scheduler's message for a PersistentVolumeClaim that does not exist; empty if there is none."""
        if b'"persistentVolumeClaim"' not in pod.data:
            return ""
        volumes = pod.read()["spec"].get("volumes") or ()
        names = [
            volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume
        ]
        missing = (name for name in names if self._store.find("persistentvolumeclaims", name, pod.namespace) is None)
        return next((f'persistentvolumeclaim "{name}" not found' for name in missing), "")

    def record_scheduled(self, pod: Stored, node: str) -> None:
        """Record that a pod was assigned."""
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._recorder.record(pod.read(), "Normal", "Scheduled", message)

    def record_unschedulable(self, pod: Stored, reason: str, message: str) -> None:
        """Record a scheduling failure as an event and, if it changed, in the PodScheduled condition."""
        current = self._store.find("pods", pod.name, pod.namespace)
        if current is None or current.uid != pod.uid or current.fields.get("spec.nodeName"):
            return
        document = current.read()
        self._recorder.record(document, "Warning", "FailedScheduling", message)
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if msgspec.json.encode(condition)[1:-1] in current.data:
            return
        condition["lastTransitionTime"] = self._store.database.now
        conditions = with_condition(document["status"].get("conditions"), condition)
        self._store.patch("pods", pod.name, {"status": {"conditions": conditions}}, pod.namespace, "status")

    def preempt(self, victims: Iterable[PodView], uid: str, node: str) -> None:
        """Delete the victims of a preemption."""
        for victim in victims:
            stored = self._store.find("pods", victim.name, victim.namespace)
            if stored is None or stored.uid != victim.uid:
                continue
            message = f"Preempted by pod {uid} on node {node}"
            self._recorder.record(stored.read(), "Normal", "Preempted", message)
            try:
                self._store.delete("pods", victim.name, victim.namespace)
            except ApiError:
                continue

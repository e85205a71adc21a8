"""Simulated kubelets: start, run, restart and terminate the pods of every node, and report its conditions.

They write what a kubelet and the agents on its node write, in the same order: devices are allocated before containers start
and released after they have stopped; only then is a deleted pod removed. Pods are admitted in the order in which they were
seen, by which the node agent distinguishes them.

Annotations control the lifecycle: `sim.linkwise.dev/seconds` is how long the containers run,
`sim.linkwise.dev/exit-code` their exit code, and `sim.linkwise.dev/stop-seconds` how long they take to terminate.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.kinds.builtin import UNREACHABLE
from linkwise.embedded.nodes.claims import PreparedClaims
from linkwise.embedded.nodes.device_reports import INVENTORIES, CordonedDevices, DeviceReports
from linkwise.embedded.nodes.devices import DeviceManager
from linkwise.embedded.nodes.machines import fleet_objects
from linkwise.embedded.nodes.slices import create_class
from linkwise.embedded.runtime import Clock, EventRecorder, Timers, follow
from linkwise.embedded.writes.delete import DeleteOptions, Preconditions
from linkwise.embedded.writes.field_rules import with_condition
from linkwise.errors import ClusterError
from linkwise.wire.kubernetes.objects import decode_pod, pod_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.list_watch import WatchEvent
    from linkwise.embedded.store import Store


__all__ = [
    "EXIT_CODE",
    "SECONDS",
    "STOP_SECONDS",
    "Lifecycle",
    "NodeHealth",
    "SimulatedNodes",
    "SimulationSettings",
    "crashing_status",
    "finished_status",
    "killed_status",
    "lifecycle_of",
    "rejected_status",
    "running_status",
]

_FINISHED: Final = ("Succeeded", "Failed")
SECONDS: Final = "sim.linkwise.dev/seconds"
EXIT_CODE: Final = "sim.linkwise.dev/exit-code"
STOP_SECONDS: Final = "sim.linkwise.dev/stop-seconds"


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Durations in seconds of cluster time."""

    start_delay: float = 0.5
    """from the binding until the containers run"""
    stop_seconds: float = 0.5
    """to terminate containers, unless the pod sets it"""
    job_seconds: float = 5.0
    """that a pod of a Job runs, unless the pod sets it"""
    restart_delay: float = 10.0
    """before a container is restarted"""


@dataclass(slots=True)
class _PodWorker:
    """The kubelet's state of one pod."""

    namespace: str
    name: str
    node: str
    running: bool = False
    stopping: bool = False
    restarts: int = 0
    generation: int = 0
    """incremented when containers start or stop; timers of an older generation are ignored"""


class SimulatedNodes:
    """The kubelets of all nodes in a store; `run` them next to the other components."""

    def __init__(self, store: Store, settings: SimulationSettings | None = None, clock: Clock | None = None) -> None:
        self.settings: Final = settings or SimulationSettings()
        self.reports: Final = DeviceReports(store)
        self.devices: Final = DeviceManager(store, self.reports)
        self.claims: Final = PreparedClaims(store)
        self._cordons = CordonedDevices(self.reports)
        self.health: Final = NodeHealth(store)
        self._store = store
        self.timers: Final = Timers(clock or Clock())
        self._recorder = EventRecorder(store, "kubelet")
        self._pods: dict[str, _PodWorker] = {}

    def add(self, fleet: Mapping[str, int]) -> list[str]:
        """Add nodes, by number per machine profile; returns their names."""
        return [self.add_node(objects) for objects in fleet_objects(fleet)]

    def add_node(self, objects: Iterable[Raw]) -> str:
        """Add one node with its device inventory; returns its name."""
        name = ""
        for document in objects:
            kind = self._store.database.kinds.for_object(document["apiVersion"], document["kind"])
            if kind is None:
                raise ClusterError(f'no matches for kind "{document["kind"]}" in version "{document["apiVersion"]}"')
            self._store.create(kind, self._completed(document, name))
            name = name or document["metadata"]["name"]
            if kind.group_resource == INVENTORIES and (usage := document.get("status", {}).get("usage")):
                self._store.patch(INVENTORIES, name, {"status": {"usage": usage}}, subresource="status")
        return name

    def remove(self, node: str) -> None:
        """Delete a node and its device inventory."""
        self._store.delete("nodes", node)
        if self._store.find(INVENTORIES, node) is not None:
            self._store.delete(INVENTORIES, node)

    def kill_device(self, node: str, index: int) -> list[str]:
        """Make a device unhealthy and kill the containers that use it; returns the UIDs of their pods."""
        users = [*self.devices.users(node, index), *self.claims.users(node, index)]
        self.reports.set_health(node, index, healthy=False)
        for uid in users:
            if (worker := self._pods.get(uid)) is not None and worker.running:
                self._exit(uid, worker.generation, 1)
        return users

    def repair_device(self, node: str, index: int) -> None:
        """Make a device healthy again."""
        self.reports.set_health(node, index, healthy=True)

    def stop_heartbeat(self, node: str) -> None:
        """Make a node unreachable: it is not ready, and its kubelet does nothing."""
        self.health.mark_unreachable(node)

    def resume_heartbeat(self, node: str) -> None:
        """Make a node reachable again; its kubelet catches up with what it missed."""
        self.health.mark_ready(node)
        order = {uid: number for number, uid in enumerate(self._pods)}
        pods = self._store.list("pods", self._store.select("pods", fields=f"spec.nodeName={node}")).items
        for stored in sorted(pods, key=lambda pod: order.get(pod.uid, len(order))):
            worker = self._pods.get(stored.uid)
            if worker is not None:  # timers that fired meanwhile were ignored
                worker.stopping, worker.generation = False, worker.generation + 1
                self._resume(stored, worker)
            self._sync_pod(stored)

    def environment(self, uid: str, container: str) -> dict[str, str]:
        """The variables that a container of a running pod was given with its devices."""
        return self.devices.environment(uid, container)

    def cordon(self, node: str, *, undo: bool = False) -> None:
        """Cordon or uncordon a node."""
        self._store.patch("nodes", node, {"spec": {"unschedulable": None if undo else True}})

    async def run(self) -> None:
        """Run the kubelets until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow(self._store, "pods", self._on_pod), name="kubelets")
            tasks.create_task(self.timers.run(), name="kubelets later")
            tasks.create_task(follow(self._store, "nodes", self._cordons.on_node), name="cordoned devices")

    def _completed(self, document: Raw, node: str) -> Raw:
        """An object of a node with what only this store knows; the node comes first."""
        if document["kind"] == "Node":
            return self._with_timestamps(document)
        if document["kind"] == "ResourceSlice":
            create_class(self._store)
            return _owned_by_node(document, self._store.get("nodes", node))
        return document

    def _with_timestamps(self, node: Raw) -> Raw:
        """The node with heartbeat and transition times in its conditions."""
        now, status = self._store.database.now, node.get("status") or {}
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        dated = [{**times, **condition} for condition in status.get("conditions") or ()]
        return {**node, "status": {**status, "conditions": dated}}

    def _on_pod(self, event: WatchEvent) -> None:
        if event.type != "DELETED":
            self._sync_pod(event.stored)
        elif (worker := self._pods.pop(event.stored.uid, None)) is not None:
            self._release(worker.node, event.stored.uid)

    def _release(self, node: str, uid: str) -> None:
        """Release the devices of a pod whose containers have stopped."""
        self.devices.release(node, uid)
        self.claims.release(uid)

    def _sync_pod(self, stored: Stored) -> None:
        node = stored.fields.get("spec.nodeName", "")
        if not node or self._store.find("nodes", node) is None or self.health.is_unreachable(node):
            return
        worker, phase = self._pods.get(stored.uid), stored.fields.get("status.phase", "")
        if worker is None:
            worker = self._pods[stored.uid] = _PodWorker(
                stored.namespace, stored.name, node, running=phase == "Running"
            )
            if phase == "Pending":
                self.devices.expect(decode_pod(stored.data))
            self._resume(stored, worker)
        elif self.devices.serves(node, stored.uid):
            self.devices.observe(decode_pod(stored.data))
        if b'"deletionTimestamp"' in stored.data and not worker.stopping:
            worker.stopping = True
            worker.generation += 1
            seconds = self._stop_seconds(stored.read()) if worker.running and phase not in _FINISHED else 0.0
            self.timers.after(seconds, partial(self._kill, stored.uid))

    def _resume(self, stored: Stored, worker: _PodWorker) -> None:
        if stored.fields.get("status.phase") == "Pending":
            self.timers.after(self.settings.start_delay, partial(self._start, stored.uid, worker.generation))
        elif worker.running:
            self._schedule_exit(stored.uid, worker, stored.read())

    def _stop_seconds(self, pod: Raw) -> float:
        requested = lifecycle_of(pod, 0.0).stop_seconds
        grace_period = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        return min(self.settings.stop_seconds if requested is None else requested, grace_period)

    def _start(self, uid: str, generation: int) -> None:
        worker, pod = self._current(uid, generation)
        if worker is None or pod is None:
            return
        view = pod_view(pod)
        if worker.restarts and (self.devices.unhealthy_of(view) or self.claims.has_failed_devices(uid)):
            self._write(worker, crashing_status(pod, self._store.database.now, worker.restarts))
            self._restart(uid, worker)
            return
        if sentence := self.claims.prepare(pod):
            message = f"Failed to prepare dynamic resources: {sentence}"
            self._recorder.record(pod, "Warning", "FailedPrepareDynamicResources", message)
            self.timers.after(self.settings.restart_delay, partial(self._start, uid, worker.generation))
            return
        if sentence := self.devices.admit(view):
            message = f"Allocate failed due to {sentence}, which is unexpected"
            self._recorder.record(pod, "Warning", "UnexpectedAdmissionError", message)
            self._write(worker, rejected_status(message))
            worker.generation += 1
            return
        self._recorder.record(pod, "Normal", "Started", "Started containers")
        worker.running = True
        self._write(worker, running_status(pod, self._store.database.now, worker.restarts))
        self._schedule_exit(uid, worker, pod)

    def _schedule_exit(self, uid: str, worker: _PodWorker, pod: Raw) -> None:
        worker.generation += 1
        lifecycle = lifecycle_of(pod, self.settings.job_seconds)
        if lifecycle.run_seconds is not None:
            self.timers.after(lifecycle.run_seconds, partial(self._exit, uid, worker.generation, lifecycle.exit_code))

    def _exit(self, uid: str, generation: int, exit_code: int) -> None:
        """The containers exit by themselves."""
        worker, pod = self._current(uid, generation)
        if worker is None or pod is None:
            return
        worker.generation += 1
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and exit_code):
            self._restart(uid, worker)
            return
        worker.running = False
        self._write(worker, finished_status(pod, self._store.database.now, exit_code))
        self._release(worker.node, uid)

    def _restart(self, uid: str, worker: _PodWorker) -> None:
        worker.restarts += 1
        self.timers.after(self.settings.restart_delay, partial(self._start, uid, worker.generation))

    def _kill(self, uid: str) -> None:
        """The containers of a deleted pod have stopped: report that first, then remove the pod."""
        worker = self._pods.get(uid)
        if worker is None or self.health.is_unreachable(worker.node):
            return
        stored = self._store.find("pods", worker.name, worker.namespace)
        if stored is not None and stored.uid == uid:
            if worker.running and stored.fields.get("status.phase") not in _FINISHED:
                self._write(worker, killed_status(stored.read(), self._store.database.now))
            worker.running = False
            self._release(worker.node, uid)
            options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=uid))
            try:
                self._store.delete("pods", worker.name, worker.namespace, options)
            except ApiError:
                return

    def _current(self, uid: str, generation: int) -> tuple[_PodWorker | None, Raw | None]:
        """A pod's state and object, if the timer still applies."""
        worker = self._pods.get(uid)
        if (
            worker is None
            or worker.generation != generation
            or worker.stopping
            or self.health.is_unreachable(worker.node)
        ):
            return None, None
        stored = self._store.find("pods", worker.name, worker.namespace)
        return (worker, stored.read()) if stored is not None and stored.uid == uid else (None, None)

    def _write(self, worker: _PodWorker, status: Raw) -> None:
        self._store.patch("pods", worker.name, {"status": status}, worker.namespace, "status")


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


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The simulated lifecycle of a pod."""

    run_seconds: float | None
    """None: until deleted"""
    exit_code: int
    stop_seconds: float | None
    """None: the default of the simulation"""


def lifecycle_of(pod: Raw, job_seconds: float) -> Lifecycle:
    """Read the annotations; by default pods of Jobs complete and others run until deleted. Invalid numbers are ignored."""
    annotations = pod["metadata"].get("annotations") or {}
    owned_by_job = any(owner.get("kind") == "Job" for owner in pod["metadata"].get("ownerReferences") or ())
    seconds = _number(annotations, SECONDS)
    if seconds is None and owned_by_job:
        seconds = job_seconds
    return Lifecycle(seconds, int(_number(annotations, EXIT_CODE) or 0), _number(annotations, STOP_SECONDS))


def running_status(pod: Raw, now: str, restarts: int = 0) -> Raw:
    """Status with running containers."""
    status = pod.get("status") or {}
    number = zlib.crc32(pod["metadata"]["uid"].encode())
    address = f"10.{244 + (number >> 16 & 7)}.{number >> 8 & 255}.{number & 255}"
    conditions = status.get("conditions")
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        conditions = with_condition(conditions, {"type": kind, "status": "True", "lastTransitionTime": now})
    return {
        "phase": "Running",
        "conditions": conditions,
        "startTime": status.get("startTime", now),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": _container_statuses(pod, {"running": {"startedAt": now}}, restarts, ready=True),
    }


def crashing_status(pod: Raw, now: str, restarts: int) -> Raw:
    """Status with containers in CrashLoopBackOff."""
    conditions = (pod.get("status") or {}).get("conditions")
    for kind in ("Ready", "ContainersReady"):
        condition = {"type": kind, "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": now}
        conditions = with_condition(conditions, condition)
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    return {"conditions": conditions, "containerStatuses": _container_statuses(pod, state, restarts, ready=False)}


def finished_status(pod: Raw, now: str, code: int) -> Raw:
    """Status with containers that exited by themselves."""
    return _terminated_status(pod, now, "Succeeded" if code == 0 else "Failed", code)


def killed_status(pod: Raw, now: str) -> Raw:
    """Status with containers that were killed because the pod is being deleted."""
    return _terminated_status(pod, now, "Failed", 137)


def rejected_status(message: str) -> Raw:
    """Status of a pod that kubelet admission rejected."""
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": f"Pod was rejected: {message}"}


def _terminated_status(pod: Raw, now: str, phase: str, code: int) -> Raw:
    container_reason = "Completed" if code == 0 else "Error"
    state = {"terminated": {"exitCode": code, "reason": container_reason, "finishedAt": now}}
    conditions = (pod.get("status") or {}).get("conditions")
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    for kind in ("Ready", "ContainersReady"):
        condition = {"type": kind, "status": "False", "reason": reason, "lastTransitionTime": now}
        conditions = with_condition(conditions, condition)
    return {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": _container_statuses(pod, state, None, ready=False),
    }


def _container_statuses(pod: Raw, state: Raw, restarts: int | None, *, ready: bool) -> list[Raw]:
    before = {status["name"]: status for status in (pod.get("status") or {}).get("containerStatuses") or ()}
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": container.get("image", ""),
            "containerID": f"simulated://{pod['metadata']['uid']}/{container['name']}",
            "ready": ready,
            "started": ready,
            "restartCount": before.get(container["name"], {}).get("restartCount", 0) if restarts is None else restarts,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _owned_by_node(document: Raw, node: Stored) -> Raw:
    """A slice with its node as owner, as drivers publish it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [owner]}}


def _number(annotations: Mapping[str, str], key: str) -> float | None:
    try:
        return max(0.0, float(annotations[key]))
    except (KeyError, ValueError):
        return None

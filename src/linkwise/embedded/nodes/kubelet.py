"""Nodes without machines: they start the pods they are given, run them for a while, let them end, and stop them.

Every Node of the store has such a kubelet. It writes what a kubelet and the agents beside it write, in their order:
devices are taken before containers start, and given back after they have stopped; only then does a deleted pod go.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.event_recorder import EventRecorder
from linkwise.embedded.nodes.devices import INVENTORIES, Devices
from linkwise.embedded.nodes.faults import Health
from linkwise.embedded.nodes.machines import fleet_objects
from linkwise.embedded.nodes.pod_phases import crashing, ended, life_of, rejected, running, stopped
from linkwise.embedded.runtime import Clock, Timers, follow
from linkwise.embedded.writes.delete import DeleteOptions, Preconditions
from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.watches import WatchEvent
    from linkwise.embedded.store import Store

__all__ = ["SimulatedNodes", "SimulationSettings"]

_OVER: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How long things take, in seconds of the cluster's own time."""

    start: float = 0.5
    """from the bind until the containers run"""
    stop: float = 0.5
    """of containers, where the pod does not say how long"""
    job: float = 5.0
    """that a pod of a Job runs, where it does not say how long"""
    restart: float = 10.0
    """before a container that ended is started again"""


@dataclass(slots=True)
class _Kept:
    """A pod that a node knows."""

    namespace: str
    name: str
    node: str
    runs: bool = False
    stopping: bool = False
    restarts: int = 0
    life: int = 0
    """counts up whenever its containers start or end, so that an old alarm is known as such"""


class SimulatedNodes:
    """The kubelets of all nodes of a store; `run` them beside everything else."""

    def __init__(self, store: Store, settings: SimulationSettings | None = None, clock: Clock | None = None) -> None:
        self.settings: Final = settings or SimulationSettings()
        self.devices: Final = Devices(store)
        self.health: Final = Health(store)
        self._store = store
        self.timers: Final = Timers(clock or Clock())
        self._recorder = EventRecorder(store, "kubelet")
        self._pods: dict[str, _Kept] = {}

    def add(self, fleet: Mapping[str, int]) -> list[str]:
        """Add nodes, so many of each machine profile; their names."""
        return [self.add_node(objects) for objects in fleet_objects(fleet)]

    def add_node(self, objects: Iterable[Raw]) -> str:
        """Add one node and what tells of its devices; its name."""
        name = ""
        for document in objects:
            kind = self._store.database.kinds.for_object(document["apiVersion"], document["kind"])
            if kind is None:
                raise ClusterError(f"{document['kind']} of {document['apiVersion']} is not served")
            self._store.create(kind, self._dated(document) if document["kind"] == "Node" else document)
            name = name or document["metadata"]["name"]
        return name

    def remove(self, node: str) -> None:
        """A node is gone for good, with all that told of it."""
        self._store.delete("nodes", node)
        if self._store.find(INVENTORIES, node) is not None:
            self._store.delete(INVENTORIES, node)

    def kill_device(self, node: str, index: int) -> list[str]:
        """A device dies, and the containers that use it with it; the UIDs of their pods."""
        users = self.devices.users(node, index)
        self.devices.mark(node, index, healthy=False)
        for uid in users:
            if (kept := self._pods.get(uid)) is not None and kept.runs:
                self._end(uid, kept.life, 1)
        return users

    def mend_device(self, node: str, index: int) -> None:
        """A device works again."""
        self.devices.mark(node, index, healthy=True)

    def silence(self, node: str) -> None:
        """A node is not heard of any more: it is not ready, and nothing that happens to its pods reaches it."""
        self.health.silence(node)

    def wake(self, node: str) -> None:
        """It is heard of again, and does what was asked of it meanwhile."""
        self.health.wake(node)
        for stored in self._store.list("pods", self._store.select("pods", fields=f"spec.nodeName={node}")).items:
            kept = self._pods.get(stored.uid)
            if kept is not None:  # what was to happen meanwhile did not
                kept.stopping, kept.life = False, kept.life + 1
                self._take_up(stored, kept)
            self._see(stored)

    def cordon(self, node: str, *, off: bool = False) -> None:
        """Let no more pods in, or again."""
        self._store.patch("nodes", node, {"spec": {"unschedulable": None if off else True}})

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow(self._store, "pods", self._hear), name="kubelets")
            tasks.create_task(self.timers.run(), name="kubelets later")

    def _dated(self, node: Raw) -> Raw:
        """A node whose conditions say since when they are so, as kubelet's do and kubectl shows."""
        now, status = self._store.database.now, node.get("status") or {}
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        dated = [{**times, **condition} for condition in status.get("conditions") or ()]
        return {**node, "status": {**status, "conditions": dated}}

    def _hear(self, event: WatchEvent) -> None:
        if event.type != "DELETED":
            self._see(event.stored)
        elif (kept := self._pods.pop(event.stored.uid, None)) is not None:
            self.devices.give_back(kept.node, event.stored.uid)

    def _see(self, stored: Stored) -> None:
        node = stored.fields.get("spec.nodeName", "")
        if not node or self._store.find("nodes", node) is None or self.health.is_silent(node):
            return
        kept, phase = self._pods.get(stored.uid), stored.fields.get("status.phase", "")
        if kept is None:
            kept = self._pods[stored.uid] = _Kept(stored.namespace, stored.name, node, runs=phase == "Running")
            self._take_up(stored, kept)
        if b'"deletionTimestamp"' in stored.data and not kept.stopping:
            kept.stopping = True
            kept.life += 1
            seconds = self._stop_seconds(stored.read()) if kept.runs and phase not in _OVER else 0.0
            self.timers.after(seconds, partial(self._stop, stored.uid))

    def _take_up(self, stored: Stored, kept: _Kept) -> None:
        if stored.fields.get("status.phase") == "Pending":
            self.timers.after(self.settings.start, partial(self._start, stored.uid, kept.life))
        elif kept.runs:
            self._let_run(stored.uid, kept, stored.read())

    def _stop_seconds(self, pod: Raw) -> float:
        wanted = life_of(pod, 0.0).stop
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        return min(self.settings.stop if wanted is None else wanted, grace)

    def _start(self, uid: str, life: int) -> None:
        kept, pod = self._now(uid, life)
        if kept is None or pod is None:
            return
        dead = self.devices.dead_of(pod)
        if dead and kept.restarts:
            self._write(kept, crashing(pod, self._store.database.now, kept.restarts))
            self._start_again(uid, kept)
            return
        if dead:
            sentence = f"Allocate failed due to device {', '.join(dead)} not healthy, which is unexpected"
            self._recorder.record(pod, "Warning", "UnexpectedAdmissionError", sentence)
            self._write(kept, rejected(sentence))
            kept.life += 1
            return
        self.devices.take(pod)
        self._recorder.record(pod, "Normal", "Started", "Started containers")
        kept.runs = True
        self._write(kept, running(pod, self._store.database.now, kept.restarts))
        self._let_run(uid, kept, pod)

    def _let_run(self, uid: str, kept: _Kept, pod: Raw) -> None:
        kept.life += 1
        life = life_of(pod, self.settings.job)
        if life.seconds is not None:
            self.timers.after(life.seconds, partial(self._end, uid, kept.life, life.code))

    def _end(self, uid: str, life: int, code: int) -> None:
        """Containers end by themselves."""
        kept, pod = self._now(uid, life)
        if kept is None or pod is None:
            return
        kept.life += 1
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and code):
            self._start_again(uid, kept)
            return
        kept.runs = False
        self._write(kept, ended(pod, self._store.database.now, code))
        self.devices.give_back(kept.node, uid)

    def _start_again(self, uid: str, kept: _Kept) -> None:
        kept.restarts += 1
        self.timers.after(self.settings.restart, partial(self._start, uid, kept.life))

    def _stop(self, uid: str) -> None:
        """Containers of a deleted pod have stopped: that is told first, and then the pod goes."""
        kept = self._pods.get(uid)
        if kept is None or self.health.is_silent(kept.node):
            return
        found = self._store.find("pods", kept.name, kept.namespace)
        if found is not None and found.uid == uid:
            if kept.runs and found.fields.get("status.phase") not in _OVER:
                self._write(kept, stopped(found.read(), self._store.database.now))
            kept.runs = False
            self.devices.give_back(kept.node, uid)
            options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=uid))
            try:
                self._store.delete("pods", kept.name, kept.namespace, options)
            except ApiError:
                return

    def _now(self, uid: str, life: int) -> tuple[_Kept | None, Raw | None]:
        """A pod as it is, if what was to happen to it is still to happen."""
        kept = self._pods.get(uid)
        if kept is None or kept.life != life or kept.stopping or self.health.is_silent(kept.node):
            return None, None
        found = self._store.find("pods", kept.name, kept.namespace)
        return (kept, found.read()) if found is not None and found.uid == uid else (None, None)

    def _write(self, kept: _Kept, status: Raw) -> None:
        self._store.patch("pods", kept.name, {"status": status}, kept.namespace, "status")

"""A scheduler in place of kube-scheduler: the same steps in the same order, one pod after the other, binds side by side.

A pod is tried on all nodes by the engine's feasibility function and by counts, then filter, prioritize and bind of the
running service decide over its real HTTP routes; pods that ask for no devices are bound here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.event_recorder import EventRecorder
from linkwise.embedded.runtime import Clock, wait_or_timeout
from linkwise.embedded.scheduler.cache import Known
from linkwise.embedded.scheduler.extender_client import Extender
from linkwise.embedded.scheduler.fit import Fit, fit, told
from linkwise.embedded.scheduler.nodes import placed_of
from linkwise.embedded.scheduler.preemption import cheapest, victims_on_all
from linkwise.embedded.scheduler.queue import QueueSettings
from linkwise.embedded.scheduler.writes import Writes
from linkwise.errors import ClusterError
from linkwise.net.http_client import Caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.embedded.scheduler.cache import Waiting
    from linkwise.embedded.scheduler.nodes import Hosts, Placed
    from linkwise.embedded.scheduler.queue import Queue
    from linkwise.embedded.store import Store

__all__ = ["Scheduler", "SchedulerSettings"]


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """How pods are scheduled."""

    names: tuple[str, ...] = ("linkwise-scheduler", "default-scheduler")
    """which pods are served, by spec.schedulerName"""
    queue: QueueSettings = field(default_factory=QueueSettings)
    seconds: float = 5.0
    """for an answer of the service"""
    binds: int = 64
    """under way at once"""
    every_pod: bool = False
    """whether the service is asked about pods too that ask for no devices"""


class Scheduler:
    """Schedules the pods of a store; `run` it beside everything else."""

    def __init__(
        self, store: Store, url: str, settings: SchedulerSettings | None = None, clock: Clock | None = None
    ) -> None:
        """`url`: of the service; without one all pods are bound here."""
        self.settings: Final = settings or SchedulerSettings()
        self._store, self._clock = store, clock or Clock()
        self._known = Known(store, self.settings.names, self.settings.queue, self._clock.now)
        self._caller = Caller(url, self.settings.seconds) if url else None
        self._extender = Extender(self._caller) if self._caller else None
        self._writes = Writes(store, EventRecorder(store, self.settings.names[-1]))
        self._binds = asyncio.Semaphore(self.settings.binds)

    @property
    def queue(self) -> Queue:
        """Those who wait for a node."""
        return self._known.queue

    @property
    def hosts(self) -> Hosts:
        """The nodes, and who is where."""
        return self._known.hosts

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._known.follow(tasks)
                tasks.create_task(self._cycles(), name="scheduler")
        finally:
            if self._caller is not None:
                await self._caller.close()

    async def _cycles(self) -> None:
        while True:
            self._known.wakeup.clear()
            uid = self.queue.pop(self._clock.now())
            if uid is None:
                due = self.queue.due()
                await wait_or_timeout(
                    self._known.wakeup, self._clock, None if due is None else max(0.0, due - self._clock.now())
                )
                continue
            await self._try(uid)

    async def _try(self, uid: str) -> None:
        pod = self._known.pods.get(uid)
        if pod is None:
            self.queue.drop(uid)
            return
        try:
            await self._schedule(pod)
        except ClusterError as error:
            self._writes.unscheduled(pod.stored, "SchedulerError", str(error))
            self.queue.failed(uid, self._clock.now())

    async def _schedule(self, pod: Waiting) -> None:
        if lacks := self._writes.missing_claim(pod.stored):
            sentence = f"0/{len(self.hosts.nodes)} nodes are available: {lacks}."
            self._writes.unscheduled(pod.stored, "Unschedulable", sentence)
            self.queue.refused(pod.view.uid, self._clock.now())
            return
        placed = placed_of(pod.view)
        found = await fit(placed, self.hosts, self._known.expected(pod.view))
        asked = self._extender is not None and (self.settings.every_pod or asks_for_devices(pod.view))
        if found.nodes and asked:
            await self._ask(pod, found)
        if pod.view.uid not in self._known.pods:
            return  # it went, or another one bound it
        if not found.nodes:
            await self._refuse(pod, placed, found)
            return
        node = found.nodes[0] if asked else min(found.nodes, key=self._fullness)
        self.hosts.place(placed, node)
        self._known.pods.pop(pod.view.uid)
        await self._binds.acquire()
        self._tasks.create_task(self._bind(pod, node, asked=asked))

    async def _ask(self, pod: Waiting, found: Fit) -> None:
        """Leave of the nodes found the best one alone, or say why none will do."""
        assert self._extender is not None  # noqa: S101 - whoever calls has looked
        left = await self._extender.filter(pod.stored.data, found.nodes)
        for name in found.nodes:
            if name in left.failed:
                found.failed[name] = left.failed[name]
        if left.nodes:
            ranks = await self._extender.prioritize(pod.stored.data, left.nodes) if len(left.nodes) > 1 else {}
            there = [name for name in left.nodes if name in self.hosts.nodes]
            found.nodes = sorted(there, key=lambda name: (-ranks.get(name, 0), -self._taken(name), name))[:1]
        else:
            # What an extender refuses is not in the scheduler's counts: evictions by counts would help nobody.
            found.helpless.update(found.nodes)
            found.nodes = []

    async def _refuse(self, pod: Waiting, placed: Placed, found: Fit) -> None:
        sentence = told(len(self.hosts.nodes), found.failed.values())
        self._writes.unscheduled(pod.stored, "Unschedulable", sentence)
        helpful = [name for name in found.failed if name not in found.helpless]
        if helpful and b'"preemptionPolicy":"Never"' not in pod.stored.data:
            await self._make_room(pod, placed, helpful)
        self.queue.refused(pod.view.uid, self._clock.now())

    async def _make_room(self, pod: Waiting, placed: Placed, names: Sequence[str]) -> None:
        """Evict pods of lower priority where that lets this one in, unless those of an earlier try are still going."""
        _, going = self._known.nominated.get(pod.view.uid, ("", frozenset[str]()))
        if any(self.hosts.where(uid) for uid in going):
            return
        victims = victims_on_all(placed, self.hosts, names)
        if victims and self._extender is not None and asks_for_devices(pod.view):
            kept = await self._extender.preempt(pod.stored.data, victims)
            victims = {node: uids for node, uids in kept.items() if uids and self._are_there(node, uids)}
        if victims:
            node = cheapest(self.hosts, victims)
            gone = [self.hosts.nodes[node].pods[uid].view for uid in victims[node]]
            self._known.nominated[pod.view.uid] = (node, frozenset(victims[node]))
            self._writes.preempt(gone, pod.view.uid, node)

    def _are_there(self, node: str, uids: Sequence[str]) -> bool:
        return node in self.hosts.nodes and all(uid in self.hosts.nodes[node].pods for uid in uids)

    async def _bind(self, pod: Waiting, node: str, *, asked: bool) -> None:
        view = pod.view
        try:
            if asked and self._extender is not None:
                await self._extender.bind(view.namespace, view.name, view.uid, node)
            else:
                self._writes.bind(view, node)
        except (ClusterError, ApiError) as error:
            self._unbound(pod, node, f"running Bind plugin: binding rejected: {error}")
        else:
            self._writes.scheduled(pod.stored, node)
            self.queue.drop(view.uid)
            self._known.nominated.pop(view.uid, None)
        finally:
            self._binds.release()

    def _unbound(self, pod: Waiting, node: str, sentence: str) -> None:
        """The pod is tried again, unless the watch shows that it is bound all the same."""
        uid = pod.view.uid
        now = self._store.find("pods", pod.view.name, pod.view.namespace)
        if now is None or now.uid != uid or now.fields.get("spec.nodeName"):
            return
        self._known.take_back(uid, node)
        self._known.wait(now)
        self._writes.unscheduled(now, "SchedulerError", sentence)
        self.queue.failed(uid, self._clock.now())
        self._known.wakeup.set()

    def _fullness(self, name: str) -> tuple[float, int, str]:
        host = self.hosts.nodes[name]
        parts = ((host.load.cpu, host.capacity.cpu), (host.load.memory, host.capacity.memory))
        return max(used / has if has else 0.0 for used, has in parts), host.load.pods, name

    def _taken(self, name: str) -> int:
        return sum(self.hosts.nodes[name].used.values())

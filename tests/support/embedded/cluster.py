"""Embedded cluster with a service, for tests.

A test is a coroutine that gets the cluster as its argument::

    @embedded()
    async def test_a_pod_gets_a_node(cluster: ClusterUnderTest) -> None:
        await cluster.nodes(*machine("a", "nvlink"))
        assert (await cluster.place("p", {"nvidia.com/gpu": 2})).node == "a"
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.cluster import ClusterSettings, EmbeddedCluster
from linkwise.embedded.controllers.cleanup import CleanupSettings
from linkwise.embedded.nodes.kubelet import SimulationSettings
from linkwise.embedded.scheduler.queue import QueueSettings
from linkwise.embedded.scheduler.scheduler import SchedulerSettings
from linkwise.embedded.store import Store
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from support.e2e.pod_objects import pod
from support.e2e.service import grant
from support.embedded.invariants import all_is_well, every_pod_runs_or_has_a_reason, is_at_rest
from support.embedded.service import EmbeddedService
from support.virtual_clock import loop_clock, run_idle, wall_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from linkwise.config.settings import KubeSettings
    from linkwise.embedded.storage.collection import Raw
    from linkwise.model.settings import PlacingSettings
    from support.e2e.service import Granted

__all__ = ["QUICK", "WITHOUT_VOLUMES", "ClusterUnderTest", "embedded", "played"]

P = ParamSpec("P")
T = TypeVar("T")

SECONDS: Final = 60.0
POLL: Final = 0.01  # of the virtual clock, as all seconds here
QUICK: Final = ClusterSettings(
    scheduler=SchedulerSettings(queue=QueueSettings(initial_backoff=0.02, max_backoff=0.2), extender_timeout=30.0),
    simulation=SimulationSettings(start_delay=0.005, stop_seconds=0.005, job_seconds=0.05, restart_delay=0.05),
    cleanup=CleanupSettings(orphan_delay=0.1, eviction_delay=0.2),
)
"""the same as always, with the pauses of a cluster in a hurry"""


class ClusterUnderTest:
    """A cluster and a service that run; pods are in the namespace `default` where nothing else is said."""

    def __init__(self, embedded: EmbeddedCluster, service: EmbeddedService) -> None:
        self.embedded, self.service = embedded, service

    @property
    def store(self) -> Store:
        """All objects."""
        return self.embedded.store

    # making

    async def nodes(self, *objects: Raw) -> None:
        """Make nodes and what tells of them, and wait until the service and the scheduler know."""
        self.embedded.nodes.add_node(objects)
        await self.seen()

    async def seen(self) -> None:
        """Wait until the service and the scheduler know all nodes, and what tells of them, as they are."""
        await self.until(self._has_seen_nodes, "the nodes are seen")

    def create(self, name: str, limits: Mapping[str, int | str] | None = None, **more: Any) -> Raw:  # noqa: ANN401 - as `pod` has them
        """Make a pod; further words are those of `pod`."""
        made = pod(more.pop("namespace", "default"), name, limits, **more)
        return self.store.create("pods", made).read()

    async def place(self, name: str, limits: Mapping[str, int | str] | None = None, **more: Any) -> Granted:  # noqa: ANN401 - same
        """Make a pod and wait until it has a node: what it was given."""
        self.create(name, limits, **more)
        return await self.placed(name, more.get("namespace", "default"))

    def delete(self, *names: str, namespace: str = "default") -> None:
        """Delete pods; they go when their containers have stopped."""
        for name in names:
            self.store.delete("pods", name, namespace)

    async def gone(self, *names: str, namespace: str = "default") -> None:
        """Delete pods and wait until the service knows that they are gone."""
        uids = {self.store.get("pods", name, namespace).uid for name in names}
        self.delete(*names, namespace=namespace)
        await self.until(lambda: not uids & set(self.service.broker.pods), f"{names} are gone")

    # looking

    def pod(self, name: str, namespace: str = "default") -> Raw:
        """A pod as it is."""
        return self.store.get("pods", name, namespace).read()

    def pods(self) -> list[Raw]:
        """All pods."""
        return [found.read() for found in self.store.list("pods").items]

    def bound(self) -> set[str]:
        """The names of pods that have a node."""
        return {found.name for found in self.store.list("pods").items if found.fields.get("spec.nodeName")}

    def events(self, name: str, reason: str = "") -> list[str]:
        """The messages of the events about an object, the oldest first."""
        found = sorted(self.store.list("events").items, key=lambda one: one.version)
        about = [one.read() for one in found if one.fields.get("involvedObject.name") == name]
        return [one["message"] for one in about if reason in {"", one["reason"]}]

    async def placed(self, name: str, namespace: str = "default", seconds: float = SECONDS) -> Granted:
        """What a pod is given, as soon as it has a node."""
        await self.until(lambda: self.pod(name, namespace)["spec"].get("nodeName"), f"{name} has a node", seconds)
        return grant(self.pod(name, namespace))

    async def phase(self, name: str, phase: str, namespace: str = "default") -> Raw:
        """A pod as soon as it is in this phase."""
        await self.until(lambda: self.pod(name, namespace)["status"]["phase"] == phase, f"{name} is {phase}")
        return self.pod(name, namespace)

    async def refused(self, name: str, word: str = "") -> str:
        """Why a pod has no node, as soon as its event holds a word."""
        return await self.wait_for_event(name, "FailedScheduling", word)

    async def wait_for_event(self, name: str, reason: str, word: str = "") -> str:
        """Wait for an event of this reason about an object whose message has this word; the message of the last one."""

        def said() -> str:
            return next((text for text in reversed(self.events(name, reason)) if word in text), "")

        return await self.until(said, f"event {reason} {word!r} about {name}: {self.events(name)}")

    async def explained(self, name: str, namespace: str = "default") -> str:
        """What the service says about a pod, line by line, as soon as it has seen it."""
        broker, uid = self.service.broker, self.store.get("pods", name, namespace).uid
        explanation = await self.until(lambda: explain_pod(broker, uid, self.service.now()), f"{name} is known")
        return "\n".join(explanation_lines(explanation)) if explanation else ""

    async def counted(self, pods: int) -> None:
        """Wait until the service counts the devices of so many pods."""
        await self.until(lambda: self.service.broker.counts().grants == pods, f"{pods} pods hold devices")

    async def until(self, condition: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
        """What a condition gives, as soon as that is true."""
        end = asyncio.get_running_loop().time() + seconds
        while not (found := condition()):
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"not within {seconds:g} s: {what}")
            if self.embedded.failed.is_set():
                raise AssertionError(f"a part of the cluster has failed, while waiting: {what}")
            await asyncio.sleep(POLL)
        return found

    async def pause(self, seconds: float) -> None:
        """Let time pass in which things go wrong."""
        await asyncio.sleep(seconds)

    async def well(self) -> None:
        """No device twice, every record whole, and the service believes just that."""
        await all_is_well(self)

    async def settled(self, seconds: float = SECONDS) -> None:
        """Wait until each pod runs, has ended or has a reason why it waits; then all is well."""
        await self.until(self._is_at_rest, "each pod runs or has a reason why not", seconds)
        every_pod_runs_or_has_a_reason(self.store)
        await all_is_well(self)

    def _is_at_rest(self) -> bool:
        """No pod is being tried, bound, started or stopped."""
        queues = set(self.embedded.scheduler.queue.counts())
        return queues <= {"unschedulable"} and all(map(is_at_rest, self.store.list("pods").items))

    def _has_seen_nodes(self) -> bool:
        known = self.service.broker
        names = {found.name for found in self.store.list("nodes").items}
        inventories = self.store.list("deviceinventories.linkwise.dev").items
        devices = self.store.list("devices.scheduling.koordinator.sh").items
        return (
            names == set(known.nodes) == set(self.embedded.scheduler.node_cache.nodes)
            and all(known.node_object(one.name, "DeviceInventory") == one.data for one in inventories)
            and all(known.node_object(one.name, "Device") == one.data for one in devices)
        )


WITHOUT_VOLUMES: Final = replace(EmbeddedService.QUICK, without=("volumes",))
"""of a service that lets a gang start while a member waits for its volume"""


def embedded(
    fleet: Mapping[str, int] | None = None,
    *,
    placing: PlacingSettings | None = None,
    kube: KubeSettings = EmbeddedService.QUICK,
    settings: ClusterSettings = QUICK,
) -> Callable[[Callable[Concatenate[ClusterUnderTest, P], Coroutine[Any, Any, None]]], Callable[P, None]]:
    """Make a test of a coroutine: it is run beside a cluster and a service, which end with it."""

    def wrap(story: Callable[Concatenate[ClusterUnderTest, P], Coroutine[Any, Any, None]]) -> Callable[P, None]:
        @functools.wraps(story)
        def test(*args: P.args, **kwargs: P.kwargs) -> None:
            service = EmbeddedService(placing, kube)
            run_idle(played(lambda cluster: story(cluster, *args, **kwargs), service, fleet, settings))

        asked = list(inspect.signature(story).parameters.values())[1:]
        del test.__dict__["__wrapped__"]
        test.__dict__["__signature__"] = inspect.Signature(asked)
        return test

    return wrap


async def played(
    story: Callable[[ClusterUnderTest], Coroutine[Any, Any, None]],
    service: EmbeddedService,
    fleet: Mapping[str, int] | None = None,
    settings: ClusterSettings = QUICK,
) -> None:
    """Let something happen beside a cluster and a service."""
    api = EmbeddedApi(store=Store(wall_time), tls=False)
    async with EmbeddedCluster(fleet, service.url, api=api, settings=settings, clock=loop_clock()) as running:
        cluster = ClusterUnderTest(running, service)
        await service.start(running.api.kubeconfig())
        try:
            await cluster.seen()
            await story(cluster)
        finally:
            await service.kill()

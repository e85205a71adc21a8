"""Embedded cluster: API server, scheduler, simulated nodes and controllers in one process.

    async with EmbeddedCluster({"dgx1-v100": 3, "p40-share": 2}, extender_url="http://127.0.0.1:39999") as cluster:
        print(cluster.api.kubeconfig())

The extender is not part of it: the service may start later, and may restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.controllers.cleanup import Cleanup, CleanupSettings
from linkwise.embedded.controllers.manager import Controllers
from linkwise.embedded.nodes.kubelet import SimulatedNodes, SimulationSettings
from linkwise.embedded.nodes.machines import fleet_objects
from linkwise.embedded.runtime import Clock, scaled_clock
from linkwise.embedded.scheduler.scheduler import Scheduler, SchedulerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.embedded.store import Store

__all__ = ["ClusterSettings", "EmbeddedCluster"]

_LARGE_FLEET: Final = 1000
"""number of nodes from which Python's garbage collection pauses are noticeable"""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings of the components."""

    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    simulation: SimulationSettings = field(default_factory=SimulationSettings)
    cleanup: CleanupSettings = field(default_factory=CleanupSettings)
    speed: float = 1.0
    """speed-up factor for simulated pod run time; not for the scheduler's backoff"""


class EmbeddedCluster:
    """All components; if one fails, `failed` is set and leaving the `async with` raises its exception."""

    def __init__(
        self,
        fleet: Mapping[str, int] | None = None,
        extender_url: str = "",
        *,
        api: EmbeddedApi | None = None,
        settings: ClusterSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or Clock()
        self.settings: Final = settings or ClusterSettings()
        self.api: Final = api or EmbeddedApi()
        self.nodes: Final = SimulatedNodes(
            self.store, self.settings.simulation, scaled_clock(clock, self.settings.speed)
        )
        self.scheduler: Final = Scheduler(self.store, extender_url, self.settings.scheduler, clock)
        self.controllers: Final = Controllers(self.store, self.api.admission)
        self.failed: Final = asyncio.Event()
        self._cleanup = Cleanup(self.store, self.nodes.timers, self.settings.cleanup)
        self._fleet = dict(fleet or {})
        self._tasks: list[asyncio.Task[None]] = []
        self._open = contextlib.AsyncExitStack()

    @property
    def store(self) -> Store:
        """The objects of the cluster."""
        return self.api.store

    async def __aenter__(self) -> Self:
        for objects in fleet_objects(self._fleet):
            self.nodes.add_node(objects)
            await asyncio.sleep(0)
        if len(self.store.list("nodes").items) >= _LARGE_FLEET:
            gc.freeze()  # the fleet lives as long as the process
        await self._open.enter_async_context(self.api)
        self._cleanup.start()
        components = (("scheduler", self.scheduler), ("nodes", self.nodes), ("controllers", self.controllers))
        self._tasks = [asyncio.create_task(component.run(), name=name) for name, component in components]
        for task in self._tasks:
            task.add_done_callback(self._on_task_done)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._cleanup.stop()
        await self._open.aclose()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.failed.set()

"""A whole cluster in one process: API server, scheduler, nodes and controllers, for as long as the `async with` lasts.

    async with EmbeddedCluster({"dgx1-v100": 3, "p40-share": 2}, extender_url="http://127.0.0.1:39999") as cluster:
        print(cluster.api.kubeconfig())

The service at that address is not part of it: it may start later, and end and start again.
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
from linkwise.embedded.runtime import Pace, paced
from linkwise.embedded.scheduler.scheduler import Scheduler, SchedulerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.embedded.store import Store

__all__ = ["ClusterSettings", "EmbeddedCluster"]

_LARGE: Final = 1000
"""nodes from which on a search for garbage would be felt"""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How its parts behave."""

    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    simulation: SimulationSettings = field(default_factory=SimulationSettings)
    cleanup: CleanupSettings = field(default_factory=CleanupSettings)
    speed: float = 1.0
    """how many times as fast as on the wall time passes for pods that run; the scheduler keeps to the wall"""


class EmbeddedCluster:
    """All parts together; if one of them fails, `failed` is set and leaving the `async with` raises what it raised."""

    def __init__(
        self,
        fleet: Mapping[str, int] | None = None,
        extender_url: str = "",
        *,
        api: EmbeddedApi | None = None,
        settings: ClusterSettings | None = None,
    ) -> None:
        self.settings: Final = settings or ClusterSettings()
        self.api: Final = api or EmbeddedApi()
        self.nodes: Final = SimulatedNodes(self.store, self.settings.simulation, paced(self.settings.speed))
        self.scheduler: Final = Scheduler(self.store, extender_url, self.settings.scheduler, Pace())
        self.controllers: Final = Controllers(self.store)
        self.failed: Final = asyncio.Event()
        self._cleanup = Cleanup(self.store, self.nodes.alarms, self.settings.cleanup)
        self._fleet = dict(fleet or {})
        self._parts: list[asyncio.Task[None]] = []
        self._open = contextlib.AsyncExitStack()

    @property
    def store(self) -> Store:
        """All objects."""
        return self.api.store

    async def __aenter__(self) -> Self:
        for objects in fleet_objects(self._fleet):
            self.nodes.add_node(objects)
            await asyncio.sleep(0)
        if len(self.store.list("nodes").items) >= _LARGE:
            gc.freeze()  # what stays for good need not be looked through again and again
        await self._open.enter_async_context(self.api)
        self._cleanup.start()
        work = (("scheduler", self.scheduler), ("nodes", self.nodes), ("controllers", self.controllers))
        self._parts = [asyncio.create_task(part.run(), name=name) for name, part in work]
        for task in self._parts:
            task.add_done_callback(self._ended)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._parts:
            task.cancel()
        ended = await asyncio.gather(*self._parts, return_exceptions=True)
        self._cleanup.stop()
        await self._open.aclose()
        for found in ended:
            if isinstance(found, Exception):
                raise found

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.failed.set()

"""Service as `linkwise serve` assembles it, beside an embedded cluster on one loop, with real HTTP on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

from linkwise.assembly.service import Serving
from linkwise.config.settings import KubeSettings, LeaderSettings, ServeSettings
from linkwise.kube.client.api import connect
from linkwise.model.settings import PlacingSettings
from linkwise.net.http.server import listen
from support.environment import reserve
from support.virtual_clock import loop_timing, wall_time

if TYPE_CHECKING:
    import socket

    from linkwise.broker.broker import Broker

__all__ = ["ALONE", "EmbeddedService"]

ALONE: Final = LeaderSettings(enabled=False)


class EmbeddedService:
    """A service that can be started, stopped and killed; its port stays the same, and its clock can be moved.

    Its time is that of the event loop.
    """

    QUICK: Final = KubeSettings(
        bind_timeout=2.0, wake_rate=1000.0, wake_burst=1000, event_rate=1000.0, event_burst=1000
    )

    def __init__(self, placing: PlacingSettings | None = None, kube: KubeSettings = QUICK) -> None:
        self.ahead = 0.0
        """seconds by which its clock differs from that on the wall"""
        self.settings = ServeSettings(kube=kube, placing=placing or PlacingSettings(), leader=ALONE)
        held = reserve()  # also while it does not listen
        weakref.finalize(self, held.close)
        self.port: Final[int] = held.getsockname()[1]
        self._serving: Serving | None = None
        self._task: asyncio.Task[None] | None = None
        self._door: socket.socket | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def broker(self) -> Broker:
        """What it knows and decides."""
        return self._running().broker

    @property
    def leads(self) -> bool:
        """Whether it decides."""
        return self._running().leads

    def now(self) -> float:
        """What its clock shows."""
        return wall_time() + self.ahead

    async def start(self, kubeconfig: str, seconds: float = 60.0) -> None:
        """Begin, and wait until it answers."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kubeconfig"
            file.write_text(kubeconfig, encoding="utf-8")
            connection = connect(file, environ={})
        self._door = listen("127.0.0.1", self.port)
        self._serving = serving = Serving(self.settings, connection, self.now, loop_timing())
        self._task = asyncio.create_task(serving.run(self._door), name="service")
        async with asyncio.timeout(seconds):
            while not serving.ready:
                if self._task.done():
                    await self._task
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """End as after SIGTERM."""
        self._running().stop()
        await self._end()

    async def ended(self) -> None:
        """Wait until it ends by itself; raises what it ended with."""
        await self._end()

    async def kill(self) -> None:
        """End as after SIGKILL: nothing is finished, and nothing that it knew is left."""
        if self._task is not None:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._end()

    async def _end(self) -> None:
        try:
            if self._task is not None:
                await self._task
        finally:
            if self._door is not None:
                self._door.close()
            self._serving = self._task = self._door = None

    def _running(self) -> Serving:
        if self._serving is None:
            raise AssertionError("the service does not run")
        return self._serving

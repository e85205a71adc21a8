"""The scheduler service put together: what watches, what decides, what writes, what listens; and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from typing import TYPE_CHECKING, Final

import uvloop

from linkwise import __version__
from linkwise.broker.broker import Broker
from linkwise.kube.client.api import connect
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings, WatchSettings
from linkwise.kube.watch.watcher import Watching
from linkwise.net.timing import SteadyClock, Timing
from linkwise.serve.app import application, verbs
from linkwise.serve.gauges import Follow, Gauges
from linkwise.serve.http.server import Server, listen
from linkwise.serve.logs import start_logging
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.wire.decoding import parse_json

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from linkwise.config.settings import KubeSettings, ServeSettings
    from linkwise.kube.client.api import Connection

__all__ = ["Serving", "serve"]

log: Final = logging.getLogger("linkwise.serve")

LOOK: Final = 0.05  # seconds between two looks at whether everything was listed
LISTING: Final = 60.0  # seconds in which everything is listed, where the cluster can be reached


def serve(settings: ServeSettings, kubeconfig: Path | None, context: str | None) -> None:
    """Serve until SIGTERM or SIGINT."""
    start_logging(settings.log)
    gc.disable()  # until everything was listed: nothing of that is garbage
    connection = connect(kubeconfig, context)
    with (
        contextlib.closing(listen(settings.http.host, settings.http.port)) as door,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_until_a_signal(Serving(settings, connection), door))


async def _until_a_signal(serving: Serving, door: socket.socket) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.stop)
    await serving.run(door)


class Serving:
    """The service with all that it needs; `run` it on a socket until `stop`.

    `clock` and `timing` are where time comes from, for decisions and for everything that waits.
    """

    def __init__(
        self,
        settings: ServeSettings,
        connection: Connection,
        clock: Callable[[], float] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._timing = timing = timing or Timing()
        self._settings = settings
        self._connection = connection
        broker = Broker(settings.placing, parse_json)
        self._performer = Performer(
            connection,
            _performing(settings.kube),
            timing,
            evictable=broker.evictable,
            not_evicted=lambda uid: self._service.not_evicted(uid),  # noqa: PLW0108 - it is made below
            waits=lambda uid: (found := broker.pod(uid)) is not None and not found.node,
        )
        self._service = Service(broker, self._performer, Counting(), clock=clock or SteadyClock())
        self._watching = Watching(
            connection,
            self._service.observe,
            known=broker.uids,
            settings=WatchSettings(page=settings.kube.page, resync=settings.kube.resync),
            timing=timing,
        )
        self._service.counting.registry.register(Gauges(self._service, self._follows, self._effects, self._notes))
        routes = application(self._service, self._waits_for, self._notes, settings.debug.token)
        self._server = Server(routes, verbs(self._service))
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether it answers."""
        return self._service.synced and not self._stopping.is_set()

    @property
    def broker(self) -> Broker:
        """What it knows and decides."""
        return self._service.broker

    def stop(self) -> None:
        """Take no more asks, let binds that are under way end, and end; told a second time, end at once."""
        if self._stopping.is_set():
            self._hurried.set()
        self._stopping.set()

    async def run(self, door: socket.socket) -> None:
        """All parts until `stop`, or until one of them fails."""
        host, port = door.getsockname()[:2]
        log.info("linkwise %s listens on=http://%s:%s cluster=%s", __version__, host, port, self._connection.server)
        parts = {
            asyncio.create_task(work, name=name)
            for name, work in (
                ("http", self._server.serve([door])),
                ("watch", self._watching.run()),
                ("effects", self._performer.run()),
                ("broker", self._service.run()),
                ("life", self._live()),
            )
        }
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            await self._end_in_time(parts)
        except asyncio.CancelledError:
            await self._cut_short(parts)
            raise
        for task in ended:
            if error := task.exception():
                raise error

    async def _live(self) -> None:
        """Answer once everything was listed, until the end."""
        begun = self._timing.clock()
        while not self._watching.synced and not self._stopping.is_set():
            if not gc.isenabled() and self._timing.clock() - begun >= LISTING:
                gc.enable()  # trying again and again to reach a cluster leaves garbage behind
            await asyncio.sleep(LOOK)
        if not self._stopping.is_set():
            await self._service.prepare()
            self._service.start()
        await self._stopping.wait()

    async def _end_in_time(self, parts: set[asyncio.Task[None]]) -> None:
        """End in order, unless somebody is in a hurry."""
        self._stopping.set()  # also where a part failed: nobody is told that it is ready any more
        ending, hurried = asyncio.create_task(self._end(parts)), asyncio.create_task(self._hurried.wait())
        try:
            await asyncio.wait({ending, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cut = ending.cancel()
            hurried.cancel()
            await asyncio.gather(ending, hurried, return_exceptions=True)
        if cut:
            log.warning("told to stop a second time: it stops at once")
            await self._cut_short(parts)
            log.info("stopped")
        else:
            ending.result()

    async def _end(self, parts: set[asyncio.Task[None]]) -> None:
        log.info("stopping: binds that are under way end first")
        left = await self._service.drain(self._settings.http.drain)
        if left:
            log.warning("%d binds did not end; the cluster will show what became of them", left)
        await self._performer.close()
        self._server.stop()
        named = {task.get_name(): task for task in parts}
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await named["http"]
        for task in parts:
            task.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await self._connection.close()
        log.info("stopped")

    async def _cut_short(self, parts: set[asyncio.Task[None]]) -> None:
        """End at once, as a process that is killed does; only nothing is left behind."""
        self._server.cut()
        for task in parts:
            task.cancel()
        await self._service.drain(0.0)
        await asyncio.gather(*parts, return_exceptions=True)
        await self._connection.close()
        self._server.cut()  # whoever was let in meanwhile

    def _waits_for(self) -> Mapping[str, str]:
        if self._stopping.is_set():
            return {"service": "it is stopping"}
        if self._service.synced:
            return {}
        late = {name: found for name, found in self._watching.stats.items() if not found.synced}
        return {name: found.trouble or "not listed yet" for name, found in late.items()} or {
            "service": "it is starting"
        }

    def _notes(self) -> Sequence[str]:
        """What a person should look at, though the service answers."""
        own = (self._service.trouble, self._service.elsewhere.note(self._service.clock()))
        return (*self._watching.problems, *self._performer.problems, *filter(None, own))

    def _follows(self) -> Mapping[str, Follow]:
        now = self._timing.clock()
        return {
            name: Follow(
                now - found.heard_at,
                found.lists,
                max(0, found.watches - 1),
                found.errors.total(),
                found.objects,
            )
            for name, found in self._watching.stats.items()
            if found.synced
        }

    def _effects(self) -> Mapping[tuple[str, str], int]:
        return {
            (effect, result): count
            for effect, results in self._performer.stats.items()
            if effect != "bind"  # those are counted where they are decided
            for result, count in results.items()
        }


def _performing(settings: KubeSettings) -> PerformSettings:
    return PerformSettings(
        bind_seconds=max(1, int(settings.bind_timeout) - 1),
        bind_whole=settings.bind_timeout,
        wakes=settings.wake_rate,
        wakes_burst=settings.wake_burst,
        events=settings.event_rate,
        events_burst=settings.event_burst,
    )

"""Scheduler service, assembled: watches, broker, performer and HTTP servers, with startup and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import uvloop

from linkwise import __version__
from linkwise.assembly.election import Election
from linkwise.assembly.logs import start_logging
from linkwise.assembly.tls import ExtenderTls, open_port_warning
from linkwise.assembly.webhook import WebhookServing
from linkwise.broker.broker import Broker
from linkwise.errors import LostLeaseError
from linkwise.kube.client.api import connect
from linkwise.kube.client.reviews import Reviews
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings, WatchSettings
from linkwise.kube.watch.kinds import sources_without
from linkwise.kube.watch.watcher import Watching
from linkwise.net.http.budget import Budget
from linkwise.net.http.server import Server, listen
from linkwise.net.timing import SteadyClock, Timing
from linkwise.serve.app import application, tenant_application, volcano_application
from linkwise.serve.explanations.access import Access
from linkwise.serve.gauges import Gauges, WatchStatus
from linkwise.serve.metrics import Counting
from linkwise.serve.page.routes import Page
from linkwise.serve.service import ALONE, Service
from linkwise.wire.decoding import parse_json

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from linkwise.config.settings import KubeSettings, ServeSettings
    from linkwise.kube.client.api import Connection
    from linkwise.net.http.routes import Routes

__all__ = ["FurtherPort", "Serving", "serve"]

log: Final = logging.getLogger("linkwise.serve")

SYNC_POLL: Final = 0.05  # seconds between checks whether the initial lists are complete
TURNS: Final = 5
"""of the loop, in which streams are ended"""
MAX_LIST_SECONDS: Final = 60.0  # the initial lists of a reachable cluster take less


def serve(settings: ServeSettings, kubeconfig: Path | None, context: str | None) -> None:
    """Serve until SIGTERM or SIGINT."""
    start_logging(settings.log)
    gc.disable()  # until the initial lists are complete: none of those objects is garbage
    connection = connect(kubeconfig, context)
    with (
        contextlib.closing(listen(settings.http.host, settings.http.port)) as listener,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_run_until_signal(Serving(settings, connection), listener))


class Serving:
    """The assembled service; `run` it on a listening socket until `stop`.

    `clock` is the wall clock of decisions, `timing` the monotonic clock and sleep of everything that waits. With `local`,
    users on this machine need no token.
    """

    def __init__(
        self,
        settings: ServeSettings,
        connection: Connection,
        clock: Callable[[], float] | None = None,
        timing: Timing | None = None,
        *,
        local: bool = False,
    ) -> None:
        given, self._timing = timing, timing or Timing()
        timing = self._timing
        self._settings = settings
        self._connection = connection
        broker, counting = Broker(settings.placing, parse_json), Counting()
        self.election: Final = Election(settings, connection, given) if settings.leader.enabled else None
        """of the leader among replicas, if it is on"""
        self._performer = Performer(
            self.election.connection if self.election else connection,
            _perform_settings(settings.kube),
            timing,
            evictable=broker.evictable,
            not_evicted=lambda uid: self._service.not_evicted(uid),  # noqa: PLW0108 - the service is created below
            claim_refused=lambda uid, sentence: self._service.claim_refused(uid, sentence),  # noqa: PLW0108 - same
            waits=lambda uid: (pod := broker.pod(uid)) is not None and not pod.node,
            ungated=counting.ungated,
        )
        self._service = Service(
            broker,
            self._performer,
            counting,
            self.election.elector.refusal if self.election else str,
            clock or SteadyClock(),
            explain=settings.explain,
            timing=timing,
            leadership=self.election.status if self.election else lambda: ALONE,
        )
        self._watching = Watching(
            connection,
            self._service.observe,
            known=broker.uids,
            settings=WatchSettings(page=settings.kube.page, resync=settings.kube.resync),
            sources=sources_without(settings.kube.without),
            timing=timing,
        )
        self._service.counting.registry.register(Gauges(self._service, self._watches, self._effects, self._notes))
        callers = Access(Reviews(connection), timing, local=local)
        access = callers if settings.explain.tenants else None
        self._tls = ExtenderTls(settings.tls, connection, counting, timing) if settings.tls.enabled else None
        serves_page = settings.page.enabled and (local or settings.explain.tenants)
        root = local or bool(settings.explain.port)
        self._page: Final = Page(self._service, callers, root=root, timing=timing) if serves_page else None
        routes = application(
            self._service,
            self._not_ready,
            self._notes,
            settings.debug.token,
            access,
            predicate_reply=settings.volcano.predicate_reply,
            strangers=self._tls.strangers if self._tls else None,
            tenants=not settings.explain.port,
            page=None if settings.explain.port else self._page,
        )
        tls, host, budget = self._tls.context if self._tls else None, settings.http.host, Budget()
        self._server = Server(routes, tls=tls, budget=budget)
        for_volcano = volcano_application(self._service, self._not_ready, self._notes, settings.volcano.predicate_reply)
        for_tenants, port = (
            tenant_application(self._service, access, self._page),
            settings.explain.port if access else 0,
        )
        self._further = tuple(
            filter(
                attrgetter("on"),
                (
                    FurtherPort("volcano.port", host, settings.volcano.port, for_volcano, budget=budget),
                    FurtherPort("explain.port", host, port, for_tenants, budget=budget, tls=tls),
                ),
            )
        )
        """ports beside http.port"""
        self.webhook: Final = (
            WebhookServing(settings.webhook, connection, broker, self._service.counting, timing, budget=budget)
            if settings.webhook.enabled
            else None
        )
        """the admission webhook, if it is on"""
        self._stopping = asyncio.Event()
        self._second_stop = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether calls are answered, or would be if this replica led."""
        return not self._not_ready()

    @property
    def leads(self) -> bool:
        """Whether this replica decides."""
        return self._service.leads and not self._stopping.is_set()

    @property
    def broker(self) -> Broker:
        """The broker of the service."""
        return self._service.broker

    def stop(self) -> None:
        """Refuse new calls, let binds in flight complete, then stop; a second call stops immediately."""
        if self._stopping.is_set():
            self._second_stop.set()
        self._stopping.set()

    async def run(self, listener: socket.socket) -> None:
        """Run all parts until `stop`, or until one of them fails."""
        host, port = listener.getsockname()[:2]
        url = f"{'https' if self._tls else 'http'}://{host}:{port}"
        log.info("linkwise %s listens on=%s cluster=%s", __version__, url, self._connection.server)
        if warning := open_port_warning(self._settings):
            log.warning("%s", warning)
        parts = {
            asyncio.create_task(work, name=name)
            for name, work in (
                ("http", self._server.serve(listener)),
                ("watch", self.election.watch(self._watching) if self.election else self._watching.run()),
                ("effects", self._performer.run()),
                ("broker", self._service.run()),
                ("explanations", self._service.publish()),
                ("placeable", self._service.placeable.run()),
                ("life", self._start_when_synced()),
                *((("webhook", self.webhook.run()),) if self.webhook else ()),
                *((("leader", self.election.elector.run()),) if self.election else ()),
                *((("endpoint", self.election.announce(port)),) if self.election else ()),
                *((("overdue", self.election.when_overdue(self._end_connections)),) if self.election else ()),
                *((("tls", self._tls.run()),) if self._tls else ()),
                *((port.name, port.run()) for port in self._further),
            )
        }
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            if any(isinstance(task.exception(), LostLeaseError) for task in ended):
                await self._end_streams("this replica of Linkwise is not the leader any more")
                await self._abort(parts)  # it may write nothing any more, and what it knows may be outdated
            else:
                await self._shut_down(parts)
        except asyncio.CancelledError:
            await self._abort(parts)
            raise
        for task in ended:
            if error := task.exception():
                raise error

    async def _start_when_synced(self) -> None:
        """Start the service once the initial lists are complete; return when it is stopped."""
        started = self._timing.clock()
        while not self._watching.synced and not self._stopping.is_set():
            if not gc.isenabled() and self._timing.clock() - started >= MAX_LIST_SECONDS:
                gc.enable()  # retries against an unreachable cluster do leave garbage
            await asyncio.sleep(SYNC_POLL)
        if not self._stopping.is_set():
            starting, stopping = asyncio.create_task(self._start()), asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if starting.done():
                    starting.result()
            finally:
                starting.cancel()
                stopping.cancel()
                await asyncio.gather(starting, stopping, return_exceptions=True)
        await self._stopping.wait()

    async def _start(self) -> None:
        if self.election:
            await self.election.take_over(self._service, self._watching)
            return
        await self._service.prepare()
        await self._service.recover()
        self._service.start()

    async def _shut_down(self, parts: set[asyncio.Task[None]]) -> None:
        """Stop gracefully; abort on a second `stop`."""
        self._stopping.set()  # also if a part failed: /readyz must fail from now on
        graceful, hurried = asyncio.create_task(self._stop_parts(parts)), asyncio.create_task(self._second_stop.wait())
        try:
            await asyncio.wait({graceful, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupted = graceful.cancel()
            hurried.cancel()
            await asyncio.gather(graceful, hurried, return_exceptions=True)
        if interrupted:
            log.warning("second stop signal: stopping immediately")
            await self._abort(parts)
            log.info("stopped")
        else:
            graceful.result()

    async def _stop_parts(self, parts: set[asyncio.Task[None]]) -> None:
        log.info("stopping: waiting for binds in flight")
        await self._end_streams("the service is stopping")
        left = await self._service.drain(self._settings.http.drain)
        if left:
            log.warning("the outcome of %d binds is not known; it is read from the cluster after the next start", left)
        await self._performer.close()
        named = {task.get_name(): task for task in parts}
        if self.election:
            named["leader"].cancel()
            # Last of all writes: the next leader begins at once. It waits for the end of the lease if a bind may still arrive.
            await self.election.elector.release(keep=left > 0)
        self._server.stop()
        for further in self._further:
            further.stop()
        if self.webhook:
            self.webhook.stop()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await named["http"]
        for further in self._further:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await named[further.name]
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await named["webhook"] if self.webhook and self.webhook.serving else None
        for task in parts:
            task.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await self._connection.close()
        log.info("stopped")

    async def _end_streams(self, reason: str) -> None:
        """Say goodbye to those who read the page, which takes a few turns of the loop."""
        if self._page:
            self._page.close(reason)
            for _ in range(TURNS):
                await asyncio.sleep(0)

    def _end_connections(self) -> None:
        """End connections of schedulers, which would keep them alive and not find another leader."""
        self._server.end_connections()
        for further in self._further:
            further.end_connections()

    async def _abort(self, parts: set[asyncio.Task[None]]) -> None:
        """Stop immediately, as a killed process would, but leave no task or socket behind."""
        self._server.abort()
        for further in self._further:
            further.abort()
        if self.webhook:
            self.webhook.abort()
        for task in parts:
            task.cancel()
        await self._service.drain(0.0)
        await asyncio.gather(*parts, return_exceptions=True)
        await self._connection.close()
        self._server.abort()  # connections accepted in the meantime

    def _not_ready(self) -> Mapping[str, str]:
        """What the service waits for before it is ready."""
        if self._stopping.is_set():
            return {"service": "stopping"}
        if self._tls and self._tls.not_ready:
            return self._tls.not_ready
        if self._service.synced or self._service.standby:
            return {}
        unsynced = {name: stats for name, stats in self._watching.stats.items() if not stats.synced}
        waits = {name: stats.trouble or "not listed yet" for name, stats in unsynced.items()} or {"service": "starting"}
        return (
            {"leader": self.election.elector.trouble, **waits}
            if self.election and self.election.elector.trouble
            else waits
        )

    def _notes(self) -> Sequence[str]:
        """Problems for an operator to look at while the service answers."""
        own = (
            self._service.trouble,
            self._service.elsewhere.note(self._service.clock()),
            open_port_warning(self._settings),
        )
        certificates = [problem for part in (self._tls, self.webhook) if part for problem in part.problems]
        election = self.election.problems if self.election else ()
        return (*self._watching.problems, *self._performer.problems, *certificates, *election, *filter(None, own))

    def _watches(self) -> Mapping[str, WatchStatus]:
        now = self._timing.clock()
        return {
            name: WatchStatus(
                now - stats.heard_at,
                stats.lists,
                max(0, stats.watches - 1),
                stats.errors.total(),
                stats.objects,
            )
            for name, stats in self._watching.stats.items()
            if stats.synced
        }

    def _effects(self) -> Mapping[tuple[str, str], int]:
        return {
            (effect, result): count
            for effect, results in self._performer.stats.items()
            if effect != "bind"  # linkwise_binds_total counts those
            for result, count in results.items()
        }


class FurtherPort:
    """The port of a setting, such as volcano.port; `run` it until `stop` if it is `on`."""

    def __init__(  # noqa: PLR0913 - what a port has
        self, setting: str, host: str, port: int, routes: Routes, *, budget: Budget, tls: ssl.SSLContext | None = None
    ) -> None:
        self.name: Final = setting
        self.on: Final = bool(port)
        self._host, self._port = host, port
        self._scheme = "https" if tls else "http"
        self._server = Server(routes, tls=tls, budget=budget)

    async def run(self) -> None:
        """Answer."""
        with contextlib.closing(listen(self._host, self._port, f"choose another with {self.name}")) as listener:
            without = " without TLS or identity" if self._scheme == "http" else ""
            log.info("%s listens on=%s://%s:%s%s", self.name, self._scheme, self._host, self._port, without)
            await self._server.serve(listener)

    def stop(self) -> None:
        """Answer the requests in flight, then stop."""
        self._server.stop()

    def end_connections(self) -> None:
        """Close connections after the requests that have begun."""
        self._server.end_connections()

    def abort(self) -> None:
        """Close all connections immediately."""
        self._server.abort()


async def _run_until_signal(serving: Serving, listener: socket.socket) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.stop)
    await serving.run(listener)


def _perform_settings(settings: KubeSettings) -> PerformSettings:
    return PerformSettings(
        bind_seconds=max(settings.bind_timeout - 1.0, settings.bind_timeout / 2),
        bind_deadline=settings.bind_timeout,
        wakes=settings.wake_rate,
        wakes_burst=settings.wake_burst,
        events=settings.event_rate,
        events_burst=settings.event_burst,
    )

"""Node agent, assembled: driver, kubelet, API server and HTTP server, with startup and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from linkwise import __version__
from linkwise.agent.holds import is_measuring
from linkwise.agent.http import AgentMetrics, agent_application
from linkwise.agent.measured_driver import MeasuredBandwidthDriver, bandwidth_file, state_folder
from linkwise.agent.node_agent import NodeAgent
from linkwise.agent.publisher import Publisher
from linkwise.assembly.logs import start_logging
from linkwise.config.protection import AGENT_COMPONENT
from linkwise.drivers.detect import open_driver
from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.api import connect
from linkwise.kube.perform.events import Reporter
from linkwise.kube.perform.node_writer import NodeWriter
from linkwise.kube.perform.slice_writer import SliceWriter
from linkwise.kube.perform.write_queue import Attempts
from linkwise.kube.settings import PerformSettings, WatchSettings
from linkwise.kube.watch.kinds import node_sources
from linkwise.kube.watch.watcher import Watching
from linkwise.net.http.server import Server, listen
from linkwise.net.timing import Timing
from linkwise.vendors.nvidia.xid import harmless_xids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Event
    from linkwise.config.settings import ServeSettings
    from linkwise.kube.client.api import Connection
    from linkwise.model.driver import Driver
    from linkwise.model.views import NodeView
    from linkwise.node.publishing import NodeState
    from linkwise.node.writes import ListedPods, Written

__all__ = ["AgentProcess", "run_agent"]

log: Final = logging.getLogger("linkwise.agent")

LOCK: Final = "linkwise-agent.lock"
NEXT_LOCK: Final = "linkwise-agent-next.lock"
"""of the agent that stands by"""
RETRY: Final = 30.0  # seconds before watches that are forbidden are tried again
LOCK_POLL: Final = 0.05  # seconds, in which pods that reach the kubelet are rejected
ANNOUNCE_SECONDS: Final = 3.0
"""for the API server to show that the agent ends"""
LAST_BINDS_SECONDS: Final = 1.0
"""for pods to reach the kubelet that were bound before the service knew of the end"""


def run_agent(settings: ServeSettings, kubeconfig: Path | None, context: str | None) -> None:
    """Run the agent of this node until SIGTERM or SIGINT."""
    start_logging(settings.log)
    own = settings.agent
    if own.mode == "dra" and own.cdi == "never":
        raise InputError(
            "agent.cdi is never, but with agent.mode dra containers get devices by CDI names; set auto or always"
        )
    node = own.node or socket.gethostname().lower()
    driver = open_driver(
        own.driver,
        source=own.source,
        node=node,
        bandwidth=own.bandwidth,
        host_root=own.host_root,
        harmless_xids=harmless_xids(own.health.ignored_xids, own.health.fatal_xids),
    )
    measured = MeasuredBandwidthDriver(driver, bandwidth_file(own.kubelet))
    connection = _connection(kubeconfig, context)
    with contextlib.closing(listen(own.host, own.port, "choose another with --port")) as listener:
        asyncio.run(_run_until_signal(AgentProcess(settings, node, measured, connection), listener))


def _connection(kubeconfig: Path | None, context: str | None) -> Connection | None:
    """The API server; None if none is configured, and none was asked for."""
    try:
        return connect(kubeconfig, context)
    except ClusterError as error:
        if kubeconfig or context:
            raise
        log.warning("no API server: devices are served to the kubelet, and not published (%s)", error)
        return None


async def _run_until_signal(process: AgentProcess, listener: socket.socket) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, process.stop)
    await process.run(listener)


class AgentProcess:
    """The assembled agent; `run` it on a listening socket until `stop`."""

    def __init__(
        self,
        settings: ServeSettings,
        node: str,
        driver: Driver,
        connection: Connection | None,
        timing: Timing | None = None,
    ) -> None:
        self._settings = settings
        self._node = node
        self._folder = Path(settings.agent.kubelet) / "device-plugins"
        self._connection = connection
        self._timing = timing = timing or Timing()
        self._cluster = _Cluster.of(connection, node, timing) if connection else None
        self._publisher = self._cluster.publisher if self._cluster else None
        self.agent: Final = NodeAgent(
            settings.agent,
            node,
            driver,
            self._publisher or _NoApiServer(),
            self._cluster,
            timing,
            time.time,
            self._cluster.claims if self._cluster else None,
        )
        self._watching = self._new_watching() if connection else None
        metrics = AgentMetrics(self.agent, self._writes)
        self.agent.answered = lambda method, seconds: metrics.answers.labels(method).observe(seconds)
        self._server = Server(agent_application(self.agent, metrics, self._notes))
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop serving the kubelet, which keeps running containers as they are."""
        self._stopping.set()

    async def run(self, listener: socket.socket) -> None:
        """Run all parts until `stop`, or until one of them fails."""
        host, port = listener.getsockname()[:2]
        server = self._connection.server if self._connection else "none"
        log.info(
            "linkwise agent %s node=%s serves=http://%s:%s cluster=%s", __version__, self._node, host, port, server
        )
        http = asyncio.create_task(self._server.serve(listener), name="http")
        work = asyncio.create_task(self._work(), name="agent")
        stop = asyncio.create_task(self._stopping.wait(), name="stop")
        try:
            await asyncio.wait({http, work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not (http.done() or work.done()):
                await self._announce_end()
        finally:
            self._server.stop()
            work.cancel()
            stop.cancel()
            ended = await asyncio.gather(http, work, stop, return_exceptions=True)
            if self._connection:
                await self._connection.close()
        for error in ended:
            if isinstance(error, Exception):
                raise _first(error)
        log.info("stopped")

    async def _work(self) -> None:
        """Read devices and pods, and once no other agent serves this node, serve it: the kubelet waits for as little as possible."""
        with contextlib.ExitStack() as held:
            async with asyncio.TaskGroup() as tasks:
                if self._cluster:
                    tasks.create_task(self._watch(), name="watch")
                prepared = tasks.create_task(self.agent.discoverer.look(), name="first discovery")
                held.enter_context(await self._locked())
                await prepared
                tasks.create_task(self.agent.run(), name="agent")
                if self._cluster:
                    tasks.create_task(self._cluster.publisher.run(), name="publisher")
                    tasks.create_task(self._cluster.reporter.run(), name="events")

    async def _locked(self) -> TextIO:
        """Wait until no other agent serves this node's kubelet; the kernel releases the lock of a killed one."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock, waiting = ((self._folder / name).open("w") for name in (LOCK, NEXT_LOCK))
        except OSError as error:
            raise InputError(
                f"agent.kubelet: {self._folder} can't be written: {error.strerror}; run as root, or set another folder"
            ) from error
        with waiting:
            while not _try_lock(lock):
                _try_lock(waiting)  # again each time: the agent that ends tries it as well
                self._stand_by("another agent runs on this node: waiting for it to end")
                await self._timing.sleep(LOCK_POLL)
        await self._measured()
        self._stand_by("")
        return lock

    async def _measured(self) -> None:
        """Wait for a measurement that an earlier agent allowed: it ends when it loses its connection to that agent."""
        while is_measuring(state_folder(self._settings.agent.kubelet)):
            self._stand_by("a measurement of bandwidth uses the devices of this node: waiting for it to end")
            await self._timing.sleep(LOCK_POLL)

    async def _announce_end(self) -> None:
        """Keep pods from being bound to this node while no agent serves it, and serve those that are on their way."""
        if self._publisher is None or self._is_awaited() or not self.agent.announce_end():
            return
        log.info("no other agent stands by: no pods with devices are placed on this node until one is back")
        deadline = self._timing.clock() + ANNOUNCE_SECONDS
        while not self._publisher.settled and self._timing.clock() < deadline:
            await self._timing.sleep(LOCK_POLL)
        await self._timing.sleep(LAST_BINDS_SECONDS)

    def _is_awaited(self) -> bool:
        """Whether another agent of this node waits for the end of this one."""
        try:
            with (self._folder / NEXT_LOCK).open("w") as lock:
                return not _try_lock(lock)
        except OSError:
            return False

    def _stand_by(self, why: str) -> None:
        if why and why != self.agent.standby:
            log.warning("%s", why)
        self.agent.standby = why

    async def _watch(self) -> None:
        """Watch the node and its pods; nothing that the API server answers stops the agent."""
        while self._watching is not None:
            try:
                await self._watching.run()
            except ClusterError as error:
                log.warning("watch: %s; retrying in %.0f s", error, RETRY)
                await self._timing.sleep(RETRY)
                self._watching = self._new_watching()

    def _new_watching(self) -> Watching | None:
        if self._connection is None:
            return None
        return Watching(
            self._connection,
            self.agent.observe,
            known=self.agent.uids,
            settings=WatchSettings(page=self._settings.kube.page, resync=self._settings.kube.resync),
            timing=self._timing,
            sources=node_sources(
                self._node,
                koordinator=self._settings.agent.koordinator_device,
                device_info=self._settings.agent.ascend.device_info,
                slices=self._settings.agent.mode == "dra" or self.agent.driver_of_claims.claims.are_kept,
            ),
        )

    def _writes(self) -> Mapping[tuple[str, str], int]:
        slices = self.agent.driver_of_claims.slices
        return {**(self._publisher.writes if self._publisher else {}), **(slices.writes if slices else {})}

    def _notes(self) -> tuple[str, ...]:
        watching = self._watching.problems if self._watching else ()
        publishing = self._publisher.problems if self._publisher else ()
        return (*self.agent.problems(), *watching, *publishing)


def _try_lock(lock: TextIO) -> bool:
    """Lock the file until it is closed; False if another process has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _first(error: Exception) -> Exception:
    """The first error of a group, which is what an operator needs to read."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


@dataclass(slots=True)
class _Cluster:
    """The API server as the agent uses it."""

    writer: NodeWriter
    reporter: Reporter
    publisher: Publisher
    claims: SliceWriter

    @classmethod
    def of(cls, connection: Connection, node: str, timing: Timing) -> _Cluster:
        settings = PerformSettings()
        writer = NodeWriter(connection, node, settings)
        reporter = Reporter(Attempts(connection, settings, timing), component=AGENT_COMPONENT)
        return cls(writer, reporter, Publisher(writer, timing=timing), SliceWriter(writer))

    async def pods(self) -> ListedPods:
        return await self.writer.pods()

    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]) -> Written:
        return await self.writer.annotate_pod(namespace, name, uid, annotations)

    def tell(self, effects: Iterable[Event]) -> None:
        for effect in effects:
            self.reporter.tell(effect)


class _NoApiServer:
    """Publishes nothing."""

    def publish(self, state: NodeState) -> None:
        """Nothing."""

    def observe_node(self, view: NodeView | None) -> None:
        """Nothing."""

    def observe_inventory(self, document: object) -> None:
        """Nothing."""

    def observe_device(self, document: object) -> None:
        """Nothing."""

    def observe_device_info(self, document: object) -> None:
        """Nothing."""

"""Local cluster: an embedded cluster and the service next to it with its webhook, connected by HTTP on free ports.

`linkwise up` and the demo start one. Its kubeconfig lives in a scratch directory, which is removed at the end; directories
of killed processes are removed at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from linkwise.assembly.local_install import NAME, expose, install, service_kubeconfig, with_webhook
from linkwise.assembly.service import Serving
from linkwise.config.rbac import TENANTS_PORT
from linkwise.config.settings import ServeSettings
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.cluster import EmbeddedCluster
from linkwise.embedded.nodes.faults import FaultAnnotations
from linkwise.embedded.nodes.machines import make_fleet
from linkwise.kube.client.api import connect
from linkwise.net.http.server import listen

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

    from linkwise.broker.broker import Broker
    from linkwise.embedded.cluster import ClusterSettings

__all__ = ["LocalCluster", "scratch_directory"]

POLL_INTERVAL: Final = 0.005  # seconds between readiness checks of the service


class LocalCluster:
    """The cluster and the service while the `async with` lasts; leaves no files behind.

    Args:
        fleet: number of nodes per machine profile.
        service: settings of the service, including host and port.
        cluster: settings of the cluster's components.
        api_port: port of the API server, 0 for any free one.
    """

    def __init__(
        self,
        fleet: Mapping[str, int],
        service: ServeSettings | None = None,
        cluster: ClusterSettings | None = None,
        api_port: int = 0,
    ) -> None:
        self.service: Final = service or ServeSettings()
        self._fleet, self._settings, self._api_port = fleet, cluster, api_port
        self._created_nodes = 0  # nodes
        self._open = contextlib.AsyncExitStack()
        self.cluster: EmbeddedCluster
        self.kubeconfig: Path
        """the kubeconfig file of the cluster"""
        self._serving: Serving
        self._service_task: asyncio.Task[None]
        self._faults_task: asyncio.Task[None]
        self._socket: socket.socket

    @property
    def url(self) -> str:
        """The URL of the service."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def page(self) -> str:
        """The URL of the page; empty if it is turned off."""
        host, port = self._socket.getsockname()[0], self.service.explain.port or self._socket.getsockname()[1]
        return f"http://{host}:{port}/page/" if self.service.page.enabled else ""

    @property
    def broker(self) -> Broker:
        """The service's broker."""
        return self._serving.broker

    @property
    def progress(self) -> float:
        """Progress of the start, from 0 to 1."""
        observed = len(self.broker.nodes) if hasattr(self, "_serving") else 0
        return (self._created_nodes + observed) / (2 * max(1, sum(self._fleet.values())))

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            http = self.service.http
            self._socket = stack.enter_context(contextlib.closing(listen(http.host, http.port)))
            api = EmbeddedApi(port=self._api_port)
            self.cluster = EmbeddedCluster(None, self.url, api=api, settings=self._settings)
            for _ in make_fleet(api.store, self.cluster.nodes.add_node, self._fleet):
                self._created_nodes += 1
                await asyncio.sleep(0)
            settings = with_webhook(self.service)
            install(api.store, settings)
            await stack.enter_async_context(self.cluster)
            self._faults_task = asyncio.create_task(
                FaultAnnotations(api.store, self.cluster.nodes).run(), name="fault annotations"
            )
            stack.push_async_callback(self._stop_faults)
            folder = stack.enter_context(scratch_directory())
            self.kubeconfig = _write_private(folder / "kubeconfig", api.kubeconfig())
            # The service has a user of its own: its rights are those of its roles, and webhooks know it from users.
            own_file = _write_private(folder / "service.kubeconfig", service_kubeconfig(api))
            self._serving = Serving(settings, connect(own_file, environ={}), local=True)
            self._service_task = asyncio.create_task(self._serving.run(self._socket), name="service")
            stack.push_async_callback(self._stop_service)
            webhook = self._serving.webhook
            while not self._serving.ready or (webhook is not None and not webhook.serving):
                if self._service_task.done():
                    await self._service_task
                await asyncio.sleep(POLL_INTERVAL)
            port = self._socket.getsockname()[1]
            expose(api.store, NAME, {"http": port, TENANTS_PORT: settings.explain.port or port})
            if webhook is not None:
                expose(api.store, settings.webhook.service, {"webhook": webhook.port})
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def failed(self) -> None:
        """Wait until a component stops unexpectedly; its exception is raised on exit."""
        cluster_failed = asyncio.create_task(self.cluster.failed.wait())
        try:
            await asyncio.wait(
                {self._service_task, self._faults_task, cluster_failed}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            cluster_failed.cancel()

    async def _stop_service(self) -> None:
        self._serving.stop()
        await self._service_task

    async def _stop_faults(self) -> None:
        self._faults_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._faults_task


def _write_private(path: Path, text: str) -> Path:
    """Write a file with mode 0600, as it holds a token."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path


_SCRATCH_PREFIX: Final = "linkwise-up-"
_LOCK_FILE: Final = "lock"
_MIN_AGE: Final = 60.0  # seconds; a new directory may not be locked yet


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """A temporary directory; stale ones of killed processes are removed first."""
    parent = parent or Path(tempfile.gettempdir())
    _remove_stale(parent, time.time())
    with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX, dir=parent) as name:
        lock = os.open(Path(name) / _LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def _remove_stale(parent: Path, now: float) -> None:
    """Remove directories that no process holds; directories of other users are skipped."""
    for folder in parent.glob(f"{_SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid == os.getuid() and now - status.st_mtime > _MIN_AGE and _is_stale(folder):
                shutil.rmtree(folder)


def _is_stale(folder: Path) -> bool:
    """Whether the owning process has ended: it would hold a lock."""
    lock = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True

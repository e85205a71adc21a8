"""An embedded cluster and the service beside it, as `linkwise up` and the demo start them: real HTTP on free ports.

A folder for as long as something runs, and those that others left behind when they were killed.
"""
# Joined from local_cluster, scratch: one docstring for all.

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

from linkwise.assembly.service import Serving
from linkwise.config.settings import ServeSettings
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.cluster import EmbeddedCluster
from linkwise.embedded.nodes.faults import FaultAnnotations
from linkwise.embedded.nodes.machines import make_fleet
from linkwise.kube.client.api import connect
from linkwise.serve.http.server import listen

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

    from linkwise.broker.broker import Broker
    from linkwise.embedded.cluster import ClusterSettings

__all__ = ["LocalCluster", "scratch"]

LOOK: Final = 0.005  # seconds between two looks at whether the service answers


class LocalCluster:
    """Both together for as long as the `async with` lasts; nothing of them is left behind.

    Args:
        fleet: so many nodes of each machine profile.
        service: settings of the service; its host and port as well.
        cluster: how the parts of the cluster behave.
        api_port: of the API server, 0 for any that is free.
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
        self._made = 0  # nodes
        self._open = contextlib.AsyncExitStack()
        self.cluster: EmbeddedCluster
        self.kubeconfig: Path
        """the file that names the cluster"""
        self._serving: Serving
        self._task: asyncio.Task[None]
        self._wishes: asyncio.Task[None]
        self._door: socket.socket

    @property
    def url(self) -> str:
        """Where the service answers."""
        host, port = self._door.getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def broker(self) -> Broker:
        """What the service knows and decides."""
        return self._serving.broker

    @property
    def share(self) -> float:
        """How much of its start is done, from 0 to 1."""
        known = len(self.broker.state.cluster.nodes) if hasattr(self, "_serving") else 0
        return (self._made + known) / (2 * max(1, sum(self._fleet.values())))

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as opened:
            http = self.service.http
            self._door = opened.enter_context(contextlib.closing(listen(http.host, http.port)))
            api = EmbeddedApi(port=self._api_port)
            self.cluster = EmbeddedCluster(None, self.url, api=api, settings=self._settings)
            for _ in make_fleet(api.store, self.cluster.nodes, self._fleet):
                self._made += 1
                await asyncio.sleep(0)
            await opened.enter_async_context(self.cluster)
            self._wishes = asyncio.create_task(FaultAnnotations(api.store, self.cluster.nodes).run(), name="wishes")
            opened.push_async_callback(self._stop_wishing)
            self.kubeconfig = _private(opened.enter_context(scratch()) / "kubeconfig", api.kubeconfig())
            self._serving = Serving(self.service, connect(self.kubeconfig, environ={}))
            self._task = asyncio.create_task(self._serving.run(self._door), name="service")
            opened.push_async_callback(self._end)
            while not self._serving.ready:
                if self._task.done():
                    await self._task
                await asyncio.sleep(LOOK)
            self._open = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def failed(self) -> None:
        """Wait until a part of it ends by itself, which none should; what that raised is raised on leaving."""
        part = asyncio.create_task(self.cluster.failed.wait())
        try:
            await asyncio.wait({self._task, self._wishes, part}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            part.cancel()

    async def _end(self) -> None:
        self._serving.stop()
        await self._task

    async def _stop_wishing(self) -> None:
        self._wishes.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._wishes


def _private(path: Path, text: str) -> Path:
    """A file that only its owner reads: it holds a token."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path


_PREFIX: Final = "linkwise-up-"
_LOCK: Final = "lock"
_YOUNG: Final = 60.0  # seconds in which a folder may not be locked yet


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """A folder of our own, removed at the end; such folders of processes that are no more are removed first."""
    parent = parent or Path(tempfile.gettempdir())
    _clear(parent, time.time())
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as name:
        lock = os.open(Path(name) / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def _clear(parent: Path, now: float) -> None:
    """Remove what nobody holds any more; what can't be looked into is somebody else's."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            told = folder.lstat()
            if told.st_uid == os.getuid() and now - told.st_mtime > _YOUNG and _is_left(folder):
                shutil.rmtree(folder)


def _is_left(folder: Path) -> bool:
    """Whether its process has ended: locks end with those who hold them."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True

"""The API server on a socket: `async with EmbeddedApi() as api`, and a kubeconfig by which everybody reaches it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import socket
from typing import TYPE_CHECKING, Final, Self, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from linkwise.embedded.apiserver.app import Application
from linkwise.embedded.apiserver.faults import Faults
from linkwise.embedded.apiserver.request import ABORT
from linkwise.embedded.apiserver.routes import BOOKMARKS
from linkwise.embedded.apiserver.tls import certify
from linkwise.embedded.store import Store
from linkwise.errors import InputError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from linkwise.embedded.apiserver.request import Message, Receive, Send

    Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

__all__ = ["EmbeddedApi"]

KEEP_ALIVE: Final = 90  # seconds; longer than Go's clients keep an idle connection, so that they end it and not we
BACKLOG: Final = 512
_PATIENCE: Final = 2.0  # seconds that requests under way have when the server ends


class _Protocol(HttpToolsProtocol):
    """Tells the application how to end a connection without an answer, for those faults."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("dict[str, object]", self.scope)[ABORT] = self.transport.abort


class EmbeddedApi:
    """An API server in memory; it serves as long as the `async with` lasts."""

    def __init__(  # noqa: PLR0913 - a builder: everything has a default
        self,
        *,
        token: str = "",
        port: int = 0,
        host: str = "127.0.0.1",
        tls: bool = True,
        store: Store | None = None,
        faults: Faults | None = None,
        bookmarks: float = BOOKMARKS,
        more_tokens: tuple[str, ...] = (),
        front: Callable[[Application], Asgi] | None = None,
    ) -> None:
        """A server that does not listen yet.

        Args:
            token: what clients show; a new one if it is empty.
            port: 0 for any that is free.
            host: where it listens.
            tls: kubectl sends its token to nobody else; without it, tests start faster.
            store: what it serves; a new cluster if there is none.
            faults: what goes wrong.
            bookmarks: seconds between those of a watch.
            more_tokens: are known as well.
            front: what stands before the application, such as something that notes all requests.
        """
        self.token: Final = token or secrets.token_urlsafe(24)
        self.store: Final = store or Store()
        self.faults: Final = faults or Faults()
        self.host, self.port = host, port
        names = (["localhost"], list(dict.fromkeys(["127.0.0.1", "::1", host])))
        self._certificate = certify(*names) if tls else None
        self._context: ssl.SSLContext | None = self._certificate.context() if self._certificate else None
        self._tokens = (self.token, *more_tokens)
        self._bookmarks, self._front = bookmarks, front
        self._state = ServerState()
        self._application = self._made()
        self._server: asyncio.Server | None = None
        self._collecting: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._certificate else 'http'}://{host}:{self.port}"

    @property
    def certificate(self) -> str:
        """What clients have to trust, as PEM; empty without TLS."""
        return self._certificate.text if self._certificate else ""

    def kubeconfig(self, namespace: str = "default") -> str:
        """The text of a file by which kubectl and Linkwise reach it."""
        trust = {"certificate-authority-data": _base64(self.certificate)} if self._certificate else {}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "linkwise", "cluster": {"server": self.url, **trust}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [
                {"name": "linkwise", "context": {"cluster": "linkwise", "user": "admin", "namespace": namespace}}
            ],
            "current-context": "linkwise",
        }
        return json.dumps(document, indent=1) + "\n"

    async def __aenter__(self) -> Self:
        await self._listen()
        self._collecting = asyncio.create_task(self.store.garbage_collector.run(), name="collector")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._collecting is not None:
            self._collecting.cancel()
            await asyncio.gather(self._collecting, return_exceptions=True)
        await self._stop(abruptly=False)

    async def restart(self, *, lose_history: bool = False, down: float = 0.0) -> None:
        """End all connections at once, and serve again under the same address; no watch can go on if history is lost."""
        await self._stop(abruptly=True)
        if lose_history:
            self.store.database.forget_history()
        await asyncio.sleep(down)
        self._application = self._made()
        await self._listen()

    def cut_all(self) -> None:
        """End every connection without a word; new ones are served."""
        for connection in tuple(self._state.connections):
            connection.transport.abort()

    def _made(self) -> Application:
        async def restart(lost: bool) -> None:  # noqa: FBT001 - a seam of one word
            await self.restart(lose_history=lost)

        return Application(self.store, self.faults, self._tokens, restart, self._bookmarks)

    async def _listen(self) -> None:
        config = uvicorn.Config(
            self._front(self._application) if self._front else self._application,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        config.load()
        self._state = ServerState()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Protocol(config, self._state, {}),
            sock=_door(self.host, self.port),
            ssl=self._context,
            backlog=BACKLOG,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self, *, abruptly: bool) -> None:
        if self._server is None:
            return
        self._server.close()
        self._application.objects.ending.set()
        if not abruptly:
            for connection in tuple(self._state.connections):
                connection.shutdown()
            await asyncio.sleep(0)
            if tasks := tuple(self._state.tasks):
                await asyncio.wait(tasks, timeout=_PATIENCE)
        self.cut_all()
        me = asyncio.current_task()
        tasks = tuple(task for task in self._state.tasks if task is not me)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._server.wait_closed()
        self._server = None


def _door(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio lets small answers out at once only where it knows that it is TCP.
    door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((host, port))
    except OSError as error:
        door.close()
        raise InputError(f"{host}:{port}: {error.strerror}; choose another port") from error
    return door


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")

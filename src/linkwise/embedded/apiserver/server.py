"""HTTPS server of the embedded API server: `async with EmbeddedApi() as api`, with a kubeconfig for its clients."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from typing import TYPE_CHECKING, Final, Self

from linkwise.embedded.admission.dispatch import Admission
from linkwise.embedded.apiserver.access import ApiAccess
from linkwise.embedded.apiserver.app import Application
from linkwise.embedded.apiserver.bodies import MAX_BODY_BYTES
from linkwise.embedded.apiserver.faults import Faults
from linkwise.embedded.apiserver.routes import BOOKMARK_INTERVAL
from linkwise.embedded.store import Store
from linkwise.embedded.users import ADMIN, Tokens
from linkwise.net.certificates import self_signed
from linkwise.net.http.server import Limits, Server, listen

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from linkwise.net.http import messages

__all__ = ["EmbeddedApi"]

_LIMITS: Final = Limits(max_body=MAX_BODY_BYTES, max_connections=4096)


class EmbeddedApi:
    """An in-memory API server; it listens while the `async with` lasts."""

    def __init__(  # noqa: PLR0913 - a builder: everything has a default
        self,
        *,
        token: str = "",
        port: int = 0,
        host: str = "127.0.0.1",
        tls: bool = True,
        store: Store | None = None,
        faults: Faults | None = None,
        bookmark_interval: float = BOOKMARK_INTERVAL,
        middleware: Callable[[Application], messages.Application] | None = None,
    ) -> None:
        """Create a server that does not listen yet.

        Args:
            token: bearer token of clients; generated if empty.
            port: 0 for any free port.
            host: address to listen on.
            tls: kubectl sends its token only over TLS; without TLS, tests start faster.
            store: the objects to serve; by default a new, empty cluster.
            faults: injected faults.
            bookmark_interval: seconds between watch bookmarks.
            middleware: wraps the application, for example to record requests.
        """
        self.token: Final = token or secrets.token_urlsafe(24)
        self.store: Final = store or Store()
        self.faults: Final = faults or Faults()
        self.host, self.port = host, port
        self._certificate = self_signed(dict.fromkeys(["localhost", "127.0.0.1", "::1", host])) if tls else None
        self._context: ssl.SSLContext | None = self._certificate.context() if self._certificate else None
        self.tokens: Final = Tokens({self.token: ADMIN})
        """accepted tokens; add one for each further user"""
        self.admission: Final = Admission(self.store)
        self._access = ApiAccess(self.store.database, self.tokens, self.admission)
        self._bookmark_interval, self._middleware = bookmark_interval, middleware
        self._application = self._create_application()
        self._server: Server | None = None
        self._gc_task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The server's URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._certificate else 'http'}://{host}:{self.port}"

    @property
    def certificate(self) -> str:
        """The CA certificate as PEM; empty without TLS."""
        return self._certificate.text if self._certificate else ""

    def kubeconfig(self, namespace: str = "default", *, token: str = "", user: str = "admin") -> str:
        """A kubeconfig for kubectl and Linkwise, of the administrator or of another user with this token."""
        trust = {"certificate-authority-data": _base64(self.certificate)} if self._certificate else {}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "linkwise", "cluster": {"server": self.url, **trust}}],
            "users": [{"name": user, "user": {"token": token or self.token}}],
            "contexts": [
                {"name": "linkwise", "context": {"cluster": "linkwise", "user": user, "namespace": namespace}}
            ],
            "current-context": "linkwise",
        }
        return json.dumps(document, indent=1) + "\n"

    async def __aenter__(self) -> Self:
        await self._listen()
        self._gc_task = asyncio.create_task(self.store.garbage_collector.run(), name="collector")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._gc_task is not None:
            self._gc_task.cancel()
            await asyncio.gather(self._gc_task, return_exceptions=True)
        await self._stop(abruptly=False)
        await self.admission.close()

    async def restart(self, *, lose_history: bool = False, downtime: float = 0.0) -> None:
        """Close all connections and listen again at the same address; without history, watches get 410 Expired."""
        await self._stop(abruptly=True)
        if lose_history:
            self.store.database.forget_history()
        await asyncio.sleep(downtime)
        self._application = self._create_application()
        await self._listen()

    def abort_connections(self) -> None:
        """Close all connections without a response; new ones are accepted."""
        if self._server is not None:
            self._server.abort_connections()

    def _create_application(self) -> Application:
        async def restart(lose_history: bool) -> None:  # noqa: FBT001 - one flag
            await self.restart(lose_history=lose_history)

        return Application(self.store, self._access, self.faults, restart, self._bookmark_interval)

    async def _listen(self) -> None:
        application = self._middleware(self._application) if self._middleware else self._application
        self._server = Server(application, _LIMITS, self._context)
        listener = listen(self.host, self.port, hint="choose another port")
        self.port = listener.getsockname()[1]
        await self._server.start(listener)

    async def _stop(self, *, abruptly: bool) -> None:
        if self._server is None:
            return
        server, self._server = self._server, None
        self._application.objects.end_watches()
        if not abruptly:
            await server.drain()
        await server.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")

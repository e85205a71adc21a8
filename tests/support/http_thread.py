"""HTTP server of the product in its own thread, for tests that block on answers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from linkwise.net.http.server import Server, listen
from support.loop_thread import LoopThread

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from linkwise.net.http.messages import Application

__all__ = ["HttpThread"]


class HttpThread(LoopThread):
    """Serves an application on loopback."""

    def __init__(self, application: Application, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._application, self._tls = application, tls
        self._socket = listen("127.0.0.1", 0)
        self.port = int(self._socket.getsockname()[1])

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer on the socket."""
        server = Server(self._application, tls=self._tls)
        await server.start(self._socket)
        yield
        await server.close()

"""HTTP server: uvicorn on one listening socket, stopped by the service instead of by signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from functools import partial
from typing import TYPE_CHECKING, Final

import uvicorn

from linkwise.errors import InputError
from linkwise.serve.http.connection import KEEP_ALIVE, FastConnection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.applications import Starlette

    from linkwise.serve.http.endpoint import Endpoint

__all__ = ["Server", "listen"]

BACKLOG: Final = 512


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; InputError if the address is invalid or in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that can't be encoded
        why = getattr(error, "strerror", None) or error
        raise InputError(f"http.host: {host!r} is not an address of this machine: {why}") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        flag = "--host" if error.errno == errno.EADDRNOTAVAIL else "--port"
        raise InputError(f"{host}:{port}: {error.strerror}; choose another with {flag}") from error
    listener.setblocking(False)  # noqa: FBT003 - the name says it
    return listener


class Server(uvicorn.Server):
    """Serves until `stop`; signals are left to the process that runs it.

    Args:
        application: answers everything that no verb does.
        verbs: endpoints served by the fast path, by request path.
        connection: the protocol class, one instance per connection.
    """

    def __init__(
        self,
        application: Starlette,
        verbs: Mapping[bytes, Endpoint] | None = None,
        connection: type[FastConnection] = FastConnection,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=partial(connection, verbs=verbs or {}),  # type: ignore[arg-type]  # uvicorn only calls it
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=2,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers; the service drains before it stops."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down as uvicorn does, then close connections whose requests were not answered in time."""
        await super().shutdown(sockets)
        await asyncio.sleep(0)  # cancelled requests send their error first
        for connection in tuple(self.server_state.connections):
            connection.transport.close()
        await asyncio.sleep(0)

    def stop(self) -> None:
        """Answer the requests in flight, then stop."""
        self.should_exit = True

    def abort(self) -> None:
        """Close the listening socket and abort every connection."""
        for server in getattr(self, "servers", ()):
            server.close()
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

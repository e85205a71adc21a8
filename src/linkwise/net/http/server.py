"""HTTP/1.1 server: one application on one listening socket, with limits for slow clients and a graceful stop.

The service and the embedded API server share it. A response that is ready at once leaves in the same turn of the event
loop as its request came, in one write and without a task. docs/decisions/0028 has the measurements.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.net.http.server_connection import Limits, ServerConnection

if TYPE_CHECKING:
    import ssl

    from linkwise.net.http.messages import Application

__all__ = ["Limits", "Server", "listen"]

BACKLOG: Final = 512


def listen(host: str, port: int, hint: str = "") -> socket.socket:
    """Open a listening socket; InputError, with a hint about flags, if the address is invalid or in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)  # with the protocol, else asyncio does not set TCP_NODELAY
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
        raise InputError(f"{host}:{port}: {error.strerror}; {hint or f'choose another with {flag}'}") from error
    listener.setblocking(False)  # noqa: FBT003 - the name says it
    return listener


@dataclass(slots=True)
class Server:
    """Serves an application: `start`, or `serve` until `stop`; signals are left to the process that runs it."""

    application: Application
    limits: Limits = field(default_factory=Limits)
    tls: ssl.SSLContext | None = None
    connections: set[ServerConnection] = field(default_factory=set)
    _listening: asyncio.Server | None = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, listener: socket.socket) -> None:
        """Accept connections until `stop`, then answer the requests in flight; a cancelled call aborts them."""
        try:
            await self.start(listener)
            await self._stopping.wait()
            await self.drain()
        finally:
            self.abort()

    def stop(self) -> None:
        """Answer the requests in flight, then stop."""
        self._stopping.set()

    async def start(self, listener: socket.socket) -> None:
        """Accept connections."""
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: ServerConnection(self.application, self.limits, self.connections),
            sock=listener,
            ssl=self.tls,
            ssl_handshake_timeout=self.limits.head_seconds if self.tls else None,
            backlog=BACKLOG,
        )

    async def drain(self) -> None:
        """Accept no more connections, close idle ones, and let requests in flight complete within the time limit."""
        if self._listening is not None:
            self._listening.close()
        self.end_connections()
        await self._wait_for_connections(self.limits.drain_seconds)
        for connection in tuple(self.connections):
            connection.give_up()
        await self._wait_for_connections(self.limits.drain_seconds)

    async def close(self) -> None:
        """Close the listening socket and every connection immediately, and wait until they are closed."""
        self.abort()
        await self._wait_for_connections(self.limits.drain_seconds)

    def abort(self) -> None:
        """Close the listening socket and every connection immediately."""
        if self._listening is not None:
            self._listening.close()
        self.abort_connections()

    def end_connections(self) -> None:
        """Close idle connections, and the others after the request that has begun; new ones are accepted."""
        for connection in tuple(self.connections):
            connection.close_when_idle()

    def abort_connections(self) -> None:
        """Close every connection without a response; new ones are accepted."""
        for connection in tuple(self.connections):
            connection.abort()

    async def _wait_for_connections(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for connection in tuple(self.connections):
                    await connection.gone.wait()

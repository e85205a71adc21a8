"""HTTP/1.1 server: one application on one listening socket, with limits for slow clients and a graceful stop.

The service and the embedded API server share it. A response that is ready at once leaves in the same turn of the event
loop as its request came, in one write and without a task. docs/decisions/0028 has the measurements.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.net.http.budget import Budget
from linkwise.net.http.server_connection import Limits, ServerConnection
from linkwise.net.timing import LogLimit

if TYPE_CHECKING:
    import ssl

    from linkwise.net.http.messages import Application

__all__ = ["Limits", "Server", "listen"]

log: Final = logging.getLogger(__name__)

BACKLOG: Final = 512
ACCEPT_PAUSE: Final = 0.1
"""seconds until connections are accepted again after the system refused one, for example for want of file descriptors"""


def listen(host: str, port: int, hint: str = "") -> socket.socket:
    """Open a listening socket; InputError, with a hint about flags, if the address is invalid or in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)  # with the protocol, else asyncio does not set TCP_NODELAY
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that can't be encoded
        why = getattr(error, "strerror", None) or error
        raise InputError(f"http.host: {host!r} is not an address of this machine: {why}") from error
    # A restarted service gets its port although connections of the one before are in TIME_WAIT.
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
    budget: Budget = field(default_factory=Budget)
    """shared by the servers of a process"""
    connections: set[ServerConnection] = field(default_factory=set)
    _connecting: dict[ServerConnection, asyncio.Task[None]] = field(default_factory=dict)
    """accepted, and not yet made: in a TLS handshake"""
    _listener: socket.socket | None = None
    _full: LogLimit = field(default_factory=lambda: LogLimit(log))
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
        # Servers of asyncio report a connection when its handshake is complete: those before would have no limit.
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    async def drain(self) -> None:
        """Accept no more connections, close idle ones, and let requests in flight complete within the time limit."""
        self._close_listener()
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
        self._close_listener()
        self.abort_connections()

    def end_connections(self) -> None:
        """Close idle connections, and the others after the request that has begun; new ones are accepted."""
        for connection in tuple(self.connections):
            connection.close_when_idle()

    def abort_connections(self) -> None:
        """Close every connection without a response; new ones are accepted."""
        for task in self._connecting.values():
            _cancel(task)
        for connection in tuple(self.connections):
            connection.abort()

    def _close_listener(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        """Accept one connection; others get their turn between two."""
        try:
            accepted, address = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._full.warning("accept", "connection not accepted reason=%r", error.strerror)
            self._pause(listener)
            return
        client = str(address[0]) if isinstance(address, tuple) else ""
        if len(self.connections) + len(self._connecting) >= self.limits.max_connections and not self._make_room(client):
            accepted.close()
            return
        accepted.setblocking(False)  # noqa: FBT003 - the name says it
        connection = ServerConnection(self.application, self.limits, self.connections, self.budget, client)
        self._connecting[connection] = asyncio.get_running_loop().create_task(self._connect(connection, accepted))

    def _pause(self, listener: socket.socket) -> None:
        """Accept nothing for a moment: the socket stays readable."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)

        def resume() -> None:
            if listener is self._listener:
                loop.add_reader(listener, self._accept, listener)

        loop.call_later(ACCEPT_PAUSE, resume)

    async def _connect(self, connection: ServerConnection, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self.tls,
                ssl_handshake_timeout=self.limits.head_seconds if self.tls else None,
            )
        except OSError as error:  # a handshake that failed; ServerTls counts it
            log.debug("connection of %s not made: %s", connection.client, error)
        finally:
            self._connecting.pop(connection, None)

    def _make_room(self, client: str) -> bool:
        """Close a connection that has no certificate and no request in flight; whether there is one.

        It is the oldest of the address that has the most, so that one caller can't keep others out.
        """
        everyone = [*self._connecting, *self.connections]
        expendable = [connection for connection in everyone if connection.is_expendable]
        limit = self.limits.max_connections
        if not expendable:
            self._full.warning("refused", "connection of %s refused: all %d are in use", client, limit)
            return False
        number = Counter(connection.client for connection in everyone if not connection.certified)
        chosen = max(expendable, key=lambda one: (number[one.client], -one.opened))
        self._full.warning("closed", "connection of %s closed to make room: all %d are in use", chosen.client, limit)
        if task := self._connecting.pop(chosen, None):
            _cancel(task)
        else:
            chosen.abort()
        return True

    async def _wait_for_connections(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for connection in tuple(self.connections):
                    await connection.gone.wait()


def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task once it has started: before that, it would leave its socket open."""
    asyncio.get_running_loop().call_soon(task.cancel)

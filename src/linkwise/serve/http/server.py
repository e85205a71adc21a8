"""The HTTP server: one socket, one process, and an end that others decide on."""

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
    """A socket that listens; InputError if the address can't be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:  # the latter for a name that can't be one
        why = getattr(error, "strerror", None) or error
        raise InputError(f"http.host: {host!r} is no address of this machine: {why}") from error
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        flag = "--host" if error.errno == errno.EADDRNOTAVAIL else "--port"
        raise InputError(f"{host}:{port}: {error.strerror}; choose another with {flag}") from error
    found.setblocking(False)  # noqa: FBT003 - the name says it
    return found


class Server(uvicorn.Server):
    """Serves until it is told to stop; signals are for whoever runs it.

    Args:
        application: answers.
        verbs: are answered without it, by their paths.
        caller: one connection.
    """

    def __init__(
        self,
        application: Starlette,
        verbs: Mapping[bytes, Endpoint] | None = None,
        caller: type[FastConnection] = FastConnection,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=partial(caller, verbs=verbs or {}),  # type: ignore[arg-type]  # it is called, and no more
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
        """None: the service drains first."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End as uvicorn does, and leave nobody waiting who was not answered in time."""
        await super().shutdown(sockets)
        await asyncio.sleep(0)  # those that were cut short tell so
        for connection in tuple(self.server_state.connections):
            connection.transport.close()
        await asyncio.sleep(0)

    def stop(self) -> None:
        """Answer what is asked already, then end."""
        self.should_exit = True

    def cut(self) -> None:
        """End at once, whoever is being answered."""
        for server in getattr(self, "servers", ()):
            server.close()
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

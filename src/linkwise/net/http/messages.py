"""HTTP messages of the server: a request that was read completely, and its response."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote

from linkwise.errors import ClusterError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
    from contextlib import AsyncExitStack

__all__ = ["CLIENT_CLOSED", "JSON", "TEXT", "Application", "HangUpError", "Request", "Response", "passed_on", "text"]

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
CLIENT_CLOSED: Final = 499
"""status of a request whose client disconnected before it was complete; nginx uses the same"""


class HangUpError(Exception):
    """Raised by an application to close the connection without a response, or in the middle of one."""


@dataclass(eq=False, slots=True)
class Request:
    """A request; its body is complete when the application gets it."""

    target: bytes
    """path and query, as sent"""
    headers: dict[bytes, bytes]
    """by lower-case name; the last of several"""
    client: str
    """IP address of the peer"""
    gone: asyncio.Event
    """set once the connection is closed"""
    method: str = ""
    version: str = "1.1"
    body: bytes = b""
    certified: bool = False
    """whether the client has presented a certificate that the server trusts"""
    keep_alive: bool = False
    """whether another request may follow on the connection"""
    started: float = field(default_factory=time.perf_counter)

    @property
    def path(self) -> str:
        """The decoded path."""
        return unquote(self.target.partition(b"?")[0].decode("latin-1"))

    @property
    def query(self) -> str:
        """The query, not decoded."""
        return self.target.partition(b"?")[2].decode("latin-1")

    def header(self, name: bytes) -> str:
        """The value of a header, by lower-case name; empty if there is none."""
        return self.headers.get(name, b"").decode("latin-1")


@dataclass(frozen=True, slots=True)
class Response:
    """A response with a complete body, or with a stream of parts that are sent as they come."""

    body: bytes = b""
    status: int = 200
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None
    """closed when the client disconnects"""
    ends: bool = False
    """whether the connection is closed after it"""


def text(sentence: str, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """A response in plain text."""
    return Response(f"{sentence}\n".encode(), status, TEXT, headers)


class Application(Protocol):
    """Answers the requests of a server."""

    def admit(self, request: Request) -> Response | None:
        """The refusal of a request whose body is still to come, by its head; None to receive the body."""
        ...

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a request, at once or later; a response at once takes no task."""
        ...

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        """The response to a request that the server could not read, or that could not be answered.

        Also called for clients that disconnected (CLIENT_CLOSED), so that the application can count them.
        """
        ...


async def passed_on(parts: AsyncIterator[bytes], stack: AsyncExitStack) -> AsyncGenerator[bytes, None]:
    """The stream of another server's response, for a client of this one; `stack` holds what is closed at its end.

    A stream that breaks off hangs up on the client, which could otherwise take it for complete.
    """
    async with stack:
        try:
            async for part in parts:
                yield part
        except ClusterError as error:
            raise HangUpError from error

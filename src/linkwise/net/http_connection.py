"""One connection of the HTTP client: a request is written, its answer is parsed as it comes in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import httptools

from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Answer", "CutError", "Exchange"]

HELD: Final = 4 << 20
"""bytes of a stream that may wait for their reader"""


class CutError(ClusterError):
    """The connection ended before the answer did."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    body: bytes = b""
    retry_after: str = ""


class Exchange(asyncio.Protocol):
    """One request at a time; asyncio and httptools call the methods that are named as they want them."""

    def __init__(self) -> None:
        self.status = 0
        self.begun = False
        """whether anything of the answer was received"""
        self.ended = False
        """whether all of it was"""
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._lost: str | None = None
        self._kept = True
        self._asked = False
        self._retry_after = ""
        self._parts: list[bytes] = []
        self._size = 0
        self._paused = False
        self._streaming = False
        self._tunnel = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def reusable(self) -> bool:
        """Whether another request may follow."""
        open_still = self._transport is not None and not self._transport.is_closing()
        return self._lost is None and open_still and self._kept and not self._streaming

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for the whole answer."""
        self._send(request)
        while not self.ended:
            await self._wait()
        return Answer(self.status, b"".join(self._parts), self._retry_after)

    async def begin(self, request: bytes, *, tunnel: bool = False) -> None:
        """Send a request and wait for the head of its answer."""
        self._streaming, self._tunnel = True, tunnel
        self._send(request)
        while not self.status:
            await self._wait()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, in the pieces that it comes in, those together that came together; CutError if its end is missing."""
        while True:
            if self._parts:
                found = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts, self._size = [], 0
                if self._paused and self._transport:
                    self._paused = False
                    self._transport.resume_reading()
                yield found
            elif self.ended:
                return
            else:
                await self._wait()

    def abort(self) -> None:
        """End the connection at once; what was not sent yet is not sent."""
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """The server sent something."""
        if not self._asked or (self.ended and not self._tunnel):
            self._end("it spoke without being asked")
            self.abort()
        elif not self._tunnel or not self.begun:
            self.begun = True
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade:
                pass  # a tunnel is open; what follows is for the next layer
            except httptools.HttpParserError as error:
                self._end(f"what it says is no HTTP: {error}")
                self.abort()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """There is none any more."""
        self._end(str(exc) if exc else "it ended the connection")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the answer."""
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All headers were read."""
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._parts.append(body)
        self._size += len(body)
        if self._streaming and self._size > HELD and not self._paused and self._transport:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self.ended = True
        self._kept = self._parser.should_keep_alive()  # it knows that only now

    def _send(self, request: bytes) -> None:
        if self._transport is None or self._lost is not None:
            raise CutError(self._lost or "there is no connection")
        self.status, self.begun, self.ended, self._retry_after = 0, False, False, ""
        self._parts, self._size, self._asked = [], 0, True
        self._transport.write(request)

    async def _wait(self) -> None:
        if self._lost is not None:
            raise CutError(self._lost)
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _end(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
        self._wake()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

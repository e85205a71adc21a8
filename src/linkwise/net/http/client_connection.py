"""HTTP client connection: writes a request and parses the response as it arrives, with a parser in C."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import httptools

from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Answer", "CutError", "Exchange"]

MAX_BUFFERED: Final = 4 << 20
"""bytes of a stream that may wait for the reader before reception is paused"""


class CutError(ClusterError):
    """The connection ended before the answer did."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    body: bytes = b""
    retry_after: str = ""


class Exchange(asyncio.Protocol):
    """One connection with one request at a time; the callbacks have the names that asyncio and httptools expect."""

    def __init__(self) -> None:
        self.status = 0
        self.begun = False
        """whether any part of the response was received"""
        self.ended = False
        """whether the response is complete"""
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._lost: str | None = None
        self._keep_alive = True
        self._requested = False
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
        is_open = self._transport is not None and not self._transport.is_closing()
        return self._lost is None and is_open and self._keep_alive and not self._streaming

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for the complete response."""
        self._send(request)
        while not self.ended:
            await self._wait()
        return Answer(self.status, b"".join(self._parts), self._retry_after)

    async def begin(self, request: bytes, *, tunnel: bool = False) -> None:
        """Send a request and wait for the head of the response."""
        self._streaming, self._tunnel = True, tunnel
        self._send(request)
        while not self.status:
            await self._wait()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, in chunks as they arrive; CutError if the connection ends before the body."""
        while True:
            if self._parts:
                chunk = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts, self._size = [], 0
                if self._paused and self._transport:
                    self._paused = False
                    self._transport.resume_reading()
                yield chunk
            elif self.ended:
                return
            else:
                await self._wait()

    def abort(self) -> None:
        """Close the connection without sending what is still buffered."""
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Feed bytes to the parser."""
        if not self._requested or (self.ended and not self._tunnel):
            self._end("it sent data without a request")
            self.abort()
        elif not self._tunnel or not self.begun:
            self.begun = True
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade:
                pass  # the tunnel is open; later bytes are for the next layer
            except httptools.HttpParserError as error:
                self._end(f"its response is not HTTP: {error}")
                self.abort()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request in flight."""
        self._end(str(exc) if exc else "it closed the connection")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the Retry-After header."""
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Keep the status code."""
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Buffer a part of the body; pause reception if the reader is slow."""
        self._parts.append(body)
        self._size += len(body)
        if self._streaming and self._size > MAX_BUFFERED and not self._paused and self._transport:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Mark the response as complete."""
        self.ended = True
        self._keep_alive = self._parser.should_keep_alive()  # known only at the end of a message

    def _send(self, request: bytes) -> None:
        if self._transport is None or self._lost is not None:
            raise CutError(self._lost or "there is no connection")
        self.status, self.begun, self.ended, self._retry_after = 0, False, False, ""
        self._parts, self._size, self._requested = [], 0, True
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

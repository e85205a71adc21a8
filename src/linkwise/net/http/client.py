"""HTTP/1.1 client for one server, with keep-alive: for the API server, scheduler extenders and tests.

A general-purpose client spends about a millisecond of CPU time per call, more than a scheduling decision takes. This one
has no redirects, cookies or compression, and reports for a failed call whether the request was sent at all.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

import httptools

from linkwise.errors import ClusterError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

__all__ = ["Answer", "CutError", "Exchange", "Http", "NotSentError", "Origin", "Proxy", "SlowError"]


MAX_IDLE: Final = 32
"""idle connections to keep"""
_CONNECT_SHARE: Final = 0.8
"""of a call's timeout that connecting may take"""
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
"""detects a dead server after half a minute, even on a watch that only receives"""
MAX_BUFFERED: Final = 4 << 20
"""bytes of a stream that may wait for the reader before reception is paused"""


class CutError(ClusterError):
    """The connection ended before the answer did."""


class NotSentError(ClusterError):
    """The server could not be reached: no part of the request was sent."""


class SlowError(ClusterError):
    """The server did not answer in time; what it did with the request is not known."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    body: bytes = b""
    retry_after: str = ""
    content_type: str = ""
    warnings: tuple[str, ...] = ()
    """the Warning headers"""
    date: str = ""
    """the Date header: the time by the server's clock"""


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
        self._retry_after = self._content_type = self._date = ""
        self._warnings: tuple[str, ...] = ()
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

    @property
    def content_type(self) -> str:
        """The Content-Type header of the response."""
        return self._content_type

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for the complete response."""
        self._send(request)
        while not self.ended:
            await self._wait()
        return Answer(
            self.status, b"".join(self._parts), self._retry_after, self._content_type, self._warnings, self._date
        )

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
        """Keep the headers that callers read."""
        name = name.lower()
        if name == b"content-type":
            self._content_type = value.decode("latin-1")
        elif name == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif name == b"date":
            self._date = value.decode("latin-1")
        elif name == b"warning":
            self._warnings = (*self._warnings, value.decode("utf-8", "replace"))

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
        self.status, self.begun, self.ended = 0, False, False
        self._retry_after, self._content_type, self._date, self._warnings = "", "", "", ()
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


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy."""

    host: str
    port: int
    authorization: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Address of the server, and how to reach it."""

    host: str
    port: int
    prefix: str = ""
    """of every path"""
    tls: ssl.SSLContext | None = None
    tls_name: str = ""
    """name to expect in its certificate, if not the host"""
    proxy: Proxy | None = None

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(slots=True)
class Http:
    """Calls to one server over a connection pool."""

    origin: Origin
    max_idle: int = MAX_IDLE
    _idle: list[Exchange] = field(default_factory=list)
    _busy: set[Exchange] = field(default_factory=set)

    @property
    def idle(self) -> int:
        """Number of idle connections."""
        return sum(exchange.reusable for exchange in self._idle)

    async def call(  # noqa: PLR0913 - a request has that many parts
        self,
        method: str,
        path: str,
        headers: bytes = b"",
        body: bytes = b"",
        wait: float = 10.0,
        *,
        repeatable: bool = False,
        guard: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request and read its complete response.

        Args:
            method: reads (GET) are repeatable in any case.
            path: path and query.
            headers: lines that end with CRLF.
            body: empty for none.
            wait: seconds.
            repeatable: whether it may be sent again if the server closes an idle connection just as it is reused.
            guard: called immediately before the request is sent; raises NotSentError if it must not be any more.
        """
        request = self._request(method, path, headers, body)
        try:
            async with asyncio.timeout(wait):
                return await self._call(request, wait, guard, retry=repeatable or method == "GET")
        except TimeoutError as error:
            raise SlowError(f"{self.origin.authority} did not answer {method} {path} within {wait:g} s") from error
        except CutError as error:
            raise CutError(f"{self.origin.authority} did not answer {method} {path}: {error}") from error

    @asynccontextmanager
    async def stream(self, path: str, headers: bytes = b"", wait: float = 10.0) -> AsyncIterator[Exchange]:
        """A GET whose response is streamed; `wait` limits the time to its head."""
        exchange: Exchange | None = None
        try:
            async with asyncio.timeout(wait):
                exchange = await self._connect(wait)
                await exchange.begin(self._request("GET", path, headers, b""))
        except TimeoutError as error:
            raise SlowError(f"{self.origin.authority} did not answer GET {path} within {wait:g} s") from error
        finally:
            if exchange is not None and not exchange.status:
                self._drop(exchange)
        try:
            yield exchange
        finally:
            self._drop(exchange)

    def drop_idle(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop().abort()

    async def close(self) -> None:
        """Close all connections; calls in flight fail."""
        for exchange in (*self._idle, *self._busy):
            exchange.abort()
        self._idle.clear()
        self._busy.clear()
        await asyncio.sleep(0)

    async def _call(self, request: bytes, wait: float, guard: Callable[[], None] | None, *, retry: bool) -> Answer:
        exchange = self._take_idle()
        if exchange is not None:
            try:
                return await self._send(exchange, request, guard)
            except CutError:
                # The server may close an idle connection just as it is reused.
                if not retry or exchange.begun:
                    raise
        return await self._send(await self._connect(wait), request, guard)

    async def _send(self, exchange: Exchange, request: bytes, guard: Callable[[], None] | None) -> Answer:
        done = False
        try:
            if guard is not None:
                guard()  # nothing is awaited between this and the write, which is passed to the kernel at once
            answer = await exchange.ask(request)
            done = True
        finally:
            self._busy.discard(exchange)
            if done and exchange.reusable and len(self._idle) < self.max_idle:
                self._idle.append(exchange)
            else:
                exchange.abort()
        return answer

    def _take_idle(self) -> Exchange | None:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.reusable:
                self._busy.add(exchange)
                return exchange
        return None

    def _drop(self, exchange: Exchange) -> None:
        self._busy.discard(exchange)
        exchange.abort()

    def _request(self, method: str, path: str, headers: bytes, body: bytes) -> bytes:
        origin = self.origin
        length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
        head = f"{method} {origin.prefix}{path} HTTP/1.1\r\nHost: {origin.authority}\r\n{length}"
        return b"".join((head.encode("ascii"), headers, b"\r\n", body))

    async def _connect(self, wait: float) -> Exchange:
        """Open a connection; its timeout is shorter than the call's, so that NotSentError is certain."""
        where = f"{self.origin.authority} can't be reached" + (
            f" through {self.origin.proxy.host}" if self.origin.proxy else ""
        )
        try:
            async with asyncio.timeout(wait * _CONNECT_SHARE):
                exchange = await self._open()
        except TimeoutError as error:
            raise NotSentError(f"{where} within {wait * _CONNECT_SHARE:g} s") from error
        except (OSError, CutError) as error:  # untrusted certificates are OSErrors too
            raise NotSentError(f"{where}: {error}") from error
        self._busy.add(exchange)
        return exchange

    async def _open(self) -> Exchange:
        origin, proxy, loop = self.origin, self.origin.proxy, asyncio.get_running_loop()
        name = (origin.tls_name or origin.host) if origin.tls else None
        if proxy is not None:
            return await self._open_through(proxy, name)
        transport, exchange = await loop.create_connection(
            Exchange, origin.host, origin.port, ssl=origin.tls, server_hostname=name
        )
        _keep_alive(transport.get_extra_info("socket"))
        return exchange

    async def _open_through(self, proxy: Proxy, name: str | None) -> Exchange:
        loop = asyncio.get_running_loop()
        transport, exchange = await loop.create_connection(Exchange, proxy.host, proxy.port)
        _keep_alive(transport.get_extra_info("socket"))
        try:
            await self._tunnel(exchange, proxy)
            fresh = Exchange()
            if self.origin.tls is None:
                transport.set_protocol(fresh)
                fresh.connection_made(transport)
            else:
                secured = await loop.start_tls(transport, fresh, self.origin.tls, server_hostname=name)
                fresh.connection_made(secured or transport)  # None if it was closed meanwhile; its first use fails then
        except BaseException:
            transport.abort()
            raise
        return fresh

    async def _tunnel(self, exchange: Exchange, proxy: Proxy) -> None:
        login = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        target = self.origin.authority
        await exchange.begin(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode("ascii"), tunnel=True)
        if exchange.status != 200:
            raise CutError(f"the proxy answered {exchange.status}")


def _keep_alive(connection: object) -> None:
    if not isinstance(connection, socket.socket) and not hasattr(connection, "setsockopt"):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

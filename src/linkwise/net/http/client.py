"""HTTP/1.1 client for one server, with keep-alive: for the API server, scheduler extenders and tests.

A general-purpose client spends about a millisecond of CPU time per call, more than a scheduling decision takes. This one
has no redirects, cookies or compression, and reports for a failed call whether the request was sent at all.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError
from linkwise.net.http.client_connection import Answer, CutError, Exchange

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

__all__ = ["Answer", "CutError", "Http", "NotSentError", "Origin", "Proxy", "SlowError"]

MAX_IDLE: Final = 32
"""idle connections to keep"""
_CONNECT_SHARE: Final = 0.8
"""of a call's timeout that connecting may take"""
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
"""detects a dead server after half a minute, even on a watch that only receives"""


class NotSentError(ClusterError):
    """The server could not be reached: nothing of the request got there."""


class SlowError(ClusterError):
    """The server did not answer in time; what it did with the request is not known."""


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
    ) -> Answer:
        """Send a request and read its complete response.

        Args:
            method: reads (GET) are repeatable in any case.
            path: path and query.
            headers: lines that end with CRLF.
            body: empty for none.
            wait: seconds.
            repeatable: whether it may be sent again if the server closes an idle connection just as it is reused.
        """
        request = self._request(method, path, headers, body)
        try:
            async with asyncio.timeout(wait):
                return await self._call(request, wait, retry=repeatable or method == "GET")
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

    async def _call(self, request: bytes, wait: float, *, retry: bool) -> Answer:
        exchange = self._take_idle()
        if exchange is not None:
            try:
                return await self._send(exchange, request)
            except CutError:
                # The server may close an idle connection just as it is reused.
                if not retry or exchange.begun:
                    raise
        return await self._send(await self._connect(wait), request)

    async def _send(self, exchange: Exchange, request: bytes) -> Answer:
        done = False
        try:
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

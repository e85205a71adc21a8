"""A small HTTP/1.1 client for one server: kept connections, a parser in C, answers whole or as a stream.

A general client spends about a millisecond of processor time on a call, which is more than a decision takes. This one
knows one server, no redirects, no cookies and no compression, and says of a failed call whether it was sent at all.

A small HTTP client for the calls of a scheduler: kept connections to one server, POST only, answers whole.
"""
# Joined from http, scheduling_http: one docstring for all.

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from linkwise.errors import ClusterError, InputError
from linkwise.net.http_connection import Answer, CutError, Exchange

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

__all__ = ["Answer", "Caller", "CutError", "Http", "NotSentError", "Origin", "Proxy", "SlowError"]

KEPT: Final = 32
"""idle connections"""
_CONNECTING: Final = 0.8
"""of the time of a call"""
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
"""a server that vanished without a word is noticed after half a minute, also by a watch that only listens"""


class NotSentError(ClusterError):
    """The server could not be reached: nothing of the request got there."""


class SlowError(ClusterError):
    """The server did not answer in time; what it did with the request is not known."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """What stands between us and the server."""

    host: str
    port: int
    authorization: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the server is."""

    host: str
    port: int
    prefix: str = ""
    """what stands before every path"""
    tls: ssl.SSLContext | None = None
    tls_name: str = ""
    """what its certificate must say, if that is not the host"""
    proxy: Proxy | None = None

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(slots=True)
class Http:
    """Calls to one server; connections are kept and used again."""

    origin: Origin
    kept: int = KEPT
    _idle: list[Exchange] = field(default_factory=list)
    _busy: set[Exchange] = field(default_factory=set)

    @property
    def idle(self) -> int:
        """Connections that wait to be used again."""
        return sum(exchange.reusable for exchange in self._idle)

    async def call(self, method: str, path: str, headers: bytes = b"", body: bytes = b"", wait: float = 10.0) -> Answer:
        """One request and its whole answer; `headers` are lines that end with CRLF."""
        request = self._request(method, path, headers, body)
        try:
            async with asyncio.timeout(wait):
                return await self._call(request, wait, again=method == "GET")
        except TimeoutError as error:
            raise SlowError(f"{self.origin.authority} did not answer {method} {path} within {wait:g} s") from error
        except CutError as error:
            raise CutError(f"{self.origin.authority} did not answer {method} {path}: {error}") from error

    @asynccontextmanager
    async def stream(self, path: str, headers: bytes = b"", wait: float = 10.0) -> AsyncIterator[Exchange]:
        """A GET whose answer comes bit by bit; `wait` is for its beginning."""
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
        """End the connections that nobody uses now."""
        while self._idle:
            self._idle.pop().abort()

    async def close(self) -> None:
        """End all connections; calls that are under way fail."""
        for exchange in (*self._idle, *self._busy):
            exchange.abort()
        self._idle.clear()
        self._busy.clear()
        await asyncio.sleep(0)

    async def _call(self, request: bytes, wait: float, *, again: bool) -> Answer:
        exchange = self._take()
        if exchange is not None:
            try:
                return await self._ask(exchange, request)
            except CutError:
                # A server may end a connection that is not used just when it is used again; only reads may be repeated.
                if not again or exchange.begun:
                    raise
        return await self._ask(await self._connect(wait), request)

    async def _ask(self, exchange: Exchange, request: bytes) -> Answer:
        done = False
        try:
            answer = await exchange.ask(request)
            done = True
        finally:
            self._busy.discard(exchange)
            if done and exchange.reusable and len(self._idle) < self.kept:
                self._idle.append(exchange)
            else:
                exchange.abort()
        return answer

    def _take(self) -> Exchange | None:
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
        """A new connection; its time is shorter than that of the call, so that it is known when nothing was sent."""
        where = f"{self.origin.authority} can't be reached" + (
            f" through {self.origin.proxy.host}" if self.origin.proxy else ""
        )
        try:
            async with asyncio.timeout(wait * _CONNECTING):
                exchange = await self._open()
        except TimeoutError as error:
            raise NotSentError(f"{where} within {wait * _CONNECTING:g} s") from error
        except (OSError, CutError) as error:  # certificates that are not trusted are OSErrors too
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
                fresh.connection_made(secured or transport)  # none if it ended meanwhile, which is told when it is used
        except BaseException:
            transport.abort()
            raise
        return fresh

    async def _tunnel(self, exchange: Exchange, proxy: Proxy) -> None:
        login = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        there = self.origin.authority
        await exchange.begin(f"CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n{login}\r\n".encode("ascii"), tunnel=True)
        if exchange.status != 200:
            raise CutError(f"the proxy answers {exchange.status}")


def _keep_alive(found: object) -> None:
    if not isinstance(found, socket.socket) and not hasattr(found, "setsockopt"):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_KEPT: Final = 16
"""idle connections"""
_Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Caller:
    """Calls to one server; what is not answered with 200 in time is a ClusterError."""

    def __init__(self, url: str, seconds: float = 5.0) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise InputError(f"{url!r} is no address of the form http://HOST:PORT")
        self._url, self._host, self._port = url.rstrip("/"), parts.hostname, parts.port
        self._head = f"{parts.path.rstrip('/')}/%s HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        self._seconds = seconds
        self._idle: list[_Line] = []

    async def post(self, verb: str, body: bytes) -> bytes:
        """The answer; the words for a failure are kube-scheduler's own."""
        try:
            async with asyncio.timeout(self._seconds):
                status, answer = await self._post(verb, body)
        except TimeoutError as error:
            raise ClusterError(f'Post "{self._url}/{verb}": context deadline exceeded') from error
        except (OSError, EOFError, ValueError) as error:
            raise ClusterError(f'Post "{self._url}/{verb}": {str(error) or type(error).__name__}') from error
        if status != 200:
            raise ClusterError(f"failed {verb} with extender at URL {self._url}/{verb}, code {status}")
        return answer

    async def close(self) -> None:
        """End all connections."""
        lines, self._idle = self._idle, []
        for _, writer in lines:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in lines), return_exceptions=True)

    async def _post(self, verb: str, body: bytes) -> tuple[int, bytes]:
        if self._idle:
            try:
                return await self._ask(self._idle.pop(), verb, body)
            except (ConnectionError, asyncio.IncompleteReadError):
                # A server may end a connection that is not used just when it is used again; all verbs can be repeated.
                pass
        return await self._ask(await asyncio.open_connection(self._host, self._port), verb, body)

    async def _ask(self, line: _Line, verb: str, body: bytes) -> tuple[int, bytes]:
        reader, writer = line
        kept = False
        try:
            head = f"POST {self._head % verb}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode("ascii") + body)
            status, length = _read_head(await reader.readuntil(b"\r\n\r\n"))
            answer = await reader.readexactly(length)
            kept = len(self._idle) < _KEPT
        finally:
            if kept:
                self._idle.append(line)
            else:
                writer.transport.abort()
        return status, answer


def _read_head(head: bytes) -> tuple[int, int]:
    first, *lines = head.split(b"\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    if b"content-length" not in fields:
        raise ValueError("an answer without a length")
    return int(first.split()[1]), int(fields[b"content-length"])

"""A small HTTP client for the calls of a scheduler: kept connections to one server, POST only, answers whole."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

from linkwise.errors import ClusterError, InputError

__all__ = ["Caller"]

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

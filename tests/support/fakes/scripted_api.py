"""Scripted API server on the loopback."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import parse_qs, urlsplit

from linkwise.kube.client.api import Connection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.net.http.client import Http, Origin
from linkwise.net.timing import Timing
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["FakeTime", "Reply", "Request", "ScriptedApi", "line", "listed", "play", "until"]

T = TypeVar("T")

_PATIENCE: Final = 100.0  # virtual seconds until a test counts as hung


@dataclass(frozen=True, slots=True)
class Request:
    """A request."""

    verb: str
    """the method, WATCH, or LOOK for a list with limit 1, which only reads the version"""
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    document: Any = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: a document, or pieces of a stream."""

    status: int = 200
    document: object = None
    pieces: tuple[bytes, ...] | None = None
    ending: Literal["whole", "cut", "open", "reset", "silence"] = "whole"
    """`cut`: the stream ends in the middle; `open`: it never ends; `reset` and `silence`: there is no answer at all"""
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pieces is None and self.ending in {"cut", "open"}:
            raise ValueError(f"a document is sent whole: only a stream can be {self.ending!r}")


_QUIET: Final = Reply(pieces=(), ending="open")


@dataclass(slots=True)
class ScriptedApi:
    """API server that answers from a script: replies by verb and path in order, the last one repeatedly."""

    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _stopped: bool = False
    _scripts: dict[str, list[Reply]] = field(default_factory=dict)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def script(self, asked: str, *replies: Reply) -> None:
        """Answer `VERB /path` with these replies, one after the other."""
        self._scripts[asked] = list(replies)

    def asked(self, verb: str, path: str = "") -> list[Request]:
        """The requests of a verb so far."""
        return [request for request in self.requests if request.verb == verb and request.path.startswith(path)]

    def cut_all(self) -> None:
        """Abort every connection."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def serve(self) -> asyncio.Server:
        """Start to listen."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def stop(self, server: asyncio.Server) -> None:
        """Close all connections, those being accepted too."""
        server.close()
        self._stopped = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut_all()
        for _ in range(3):
            await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        if self._stopped:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._talk(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while request := await _read(reader):
                self.requests.append(request)
                if not await _write(writer, self._reply(request)):
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    def _reply(self, request: Request) -> Reply:
        replies = self._scripts.get(f"{request.verb} {request.path}")
        if replies is None and request.verb == "LOOK":
            return listed(version="")
        if replies is None:
            missing = {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"{request.path} not found"}
            return _QUIET if request.verb == "WATCH" else Reply(404, missing)
        if request.verb == "WATCH":
            return replies.pop(0) if replies else _QUIET
        return replies.pop(0) if len(replies) > 1 else replies[0]


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").rstrip().split("\r\n")
    headers = {key.lower(): value for key, _, value in (entry.partition(": ") for entry in rest)}
    method, target, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    verb = "WATCH" if query.get("watch") else "LOOK" if query.get("limit") == "1" else method
    return Request(verb, url.path, query, headers, json.loads(body) if body else None)


async def _write(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Answer; returns whether the connection stays open."""
    if reply.ending == "reset":
        writer.transport.abort()
        return False
    if reply.ending == "silence":
        await asyncio.Event().wait()
    extra = "".join(f"{key}: {value}\r\n" for key, value in reply.headers.items())
    head = f"HTTP/1.1 {reply.status} Said\r\nContent-Type: application/json\r\n{extra}"
    if reply.pieces is None:
        body = reply.document if isinstance(reply.document, bytes) else json.dumps(reply.document).encode()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        return True
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
    for piece in reply.pieces:
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0.002)  # so that pieces arrive one by one
    if reply.ending == "open":
        await asyncio.Event().wait()
    writer.write(b"0\r\n\r\n" if reply.ending == "whole" else b"")
    await writer.drain()
    return reply.ending == "whole"


def line(change: str, document: object) -> bytes:
    """One event of a watch."""
    return json.dumps({"type": change, "object": document}).encode() + b"\n"


def listed(*items: object, version: str = "100", rest: str = "") -> Reply:
    """A page of a list."""
    meta = {"resourceVersion": version} | ({"continue": rest} if rest else {})
    return Reply(200, {"kind": "List", "metadata": meta, "items": list(items)})


@dataclass(slots=True)
class FakeTime:
    """Clock that advances only by sleeping; random numbers are always 1."""

    seconds: float = 1_000.0
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        """Advance the clock without waiting."""
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)

    @property
    def timing(self) -> Timing:
        """The same as `Timing`."""
        return Timing(lambda: self.seconds, lambda: self.seconds, self.sleep, lambda: 1.0)


def play(scenario: Callable[[ScriptedApi, Connection], Awaitable[T]]) -> T:
    """Run a coroutine against a scripted API server."""

    async def played() -> T:
        api = ScriptedApi()
        server = await api.serve()
        http = Http(Origin("127.0.0.1", api.port))
        connection = Connection(http, Credentials(None, "test"), f"http://127.0.0.1:{api.port}")
        try:
            async with asyncio.timeout(_PATIENCE):
                return await scenario(api, connection)
        finally:
            await connection.close()
            await api.stop(server)

    return run_idle(played())


async def until(holds: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    while not holds():  # noqa: ASYNC110 - the condition is the test's own
        await asyncio.sleep(0.001)

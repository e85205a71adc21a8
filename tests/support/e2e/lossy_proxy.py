"""Faulty proxy between the service and the API server: it cuts connections, loses answers and delays them.

It speaks HTTP to the service, and HTTP or HTTPS to the API server. It runs on its own loop in a thread, so that a test can
set a fault and continue.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from support.e2e.config_files import USERS, kubeconfig
from support.e2e.processes import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.e2e.own_cluster import OwnCluster

__all__ = ["Fate", "Line", "slow_binds", "sound"]

Fate = Literal["passed", "lost", "unanswered", "held"]
"""of a request: it arrives and is answered; it never arrives; it arrives and its answer does not; it arrives late"""

LARGEST: Final = 1 << 20


def sound(method: str, path: str) -> Fate:
    """Nothing happens to any request."""
    del method, path
    return "passed"


def slow_binds(method: str, path: str) -> Fate:
    """Binds arrive late."""
    return "held" if method == "POST" and "/binding" in path else "passed"


class Line:
    """The way of one user to the API server of a cluster of our own."""

    def __init__(self, cluster: OwnCluster, user: str = "linkwise") -> None:
        (self.port,) = free_ports(1)
        there = urlsplit(cluster.server)
        self._there = (there.hostname or "", there.port or 443)
        self._cluster, self._user = cluster, user
        self.fate: Callable[[str, str], Fate] = sound
        """decides what becomes of a request, by method and path; it is called on the line's own thread"""
        self.hold = 1.0  # seconds
        """by which a request arrives late that is held"""
        self.lag = 0.0  # seconds
        """by which everything that the server says arrives late"""
        self.fates: Counter[tuple[str, str]] = Counter()
        """by method and fate"""
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def kubeconfig(self, path: Path) -> Path:
        """How the user reaches the API server over this line."""
        return kubeconfig(path, f"http://127.0.0.1:{self.port}", USERS[self._user].token)

    def cut(self) -> None:
        """End all connections there are: every watch, and every request that is under way."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(10)

    def close(self) -> None:
        """End it."""
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._server.close)
            self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=LARGEST)

    async def _cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the service, and one to the server for it."""
        back: asyncio.StreamWriter | None = None
        pump: asyncio.Task[None] | None = None
        self._open.add(writer)
        try:
            answers, back = await asyncio.open_connection(*self._there, ssl=self._trust())
            self._open.add(back)
            mute = asyncio.Event()
            pump = asyncio.create_task(self._answer(answers, writer, mute))
            while await self._request(reader, back, mute):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass  # the side that ended it knows why
        finally:
            for end in filter(None, (writer, back)):
                self._open.discard(end)
                end.transport.abort()
            if pump is not None:
                pump.cancel()
                with suppress(asyncio.CancelledError):
                    await pump

    async def _request(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter, mute: asyncio.Event) -> bool:
        """Hand on one request as its fate has it; false if the connection ends with it."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        lengths = [int(line.split(":", 1)[1]) for line in lines if line.lower().startswith("content-length:")]
        body = await reader.readexactly(sum(lengths))
        fate = self.fate(method, path)
        self.fates[method, fate] += 1
        if fate == "lost":
            return False
        if fate == "held":
            await asyncio.sleep(self.hold)
        if fate == "unanswered":
            mute.set()
        back.write(head + body)
        await back.drain()
        return True

    async def _answer(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, mute: asyncio.Event) -> None:
        """Pass on what the server says, until it ends or the client is gone."""
        with suppress(OSError):
            while (piece := await answers.read(65536)) and not mute.is_set():
                if self.lag:
                    self._loop.call_later(self.lag, _said, writer, piece)
                else:
                    _said(writer, piece)
        writer.transport.abort()

    def _trust(self) -> ssl.SSLContext:
        trust = ssl.create_default_context(cafile=self._cluster.certificate)
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as for any client of this server
        return trust


def _said(writer: asyncio.StreamWriter, piece: bytes) -> None:
    if not writer.is_closing():
        writer.write(piece)

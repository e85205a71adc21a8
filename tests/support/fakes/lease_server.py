"""One Lease in memory, served to several replicas over bad lines, in virtual time.

A request or its answer may be lost, late, or both. A late request is carried out when it arrives, whether or not its sender
still waits for it. Nothing waits in real time: the clock of the loop jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import json
import selectors
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from linkwise.kube.client.api import JSON, Answer, Connection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.net.http.client import CutError, Exchange, Http, Origin, SlowError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

__all__ = ["BadLine", "LeaseServer", "run_virtually"]

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Selector that never waits, and counts the seconds for which it would have."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look once; if nothing is ready, the timeout has passed."""
        found = super().select(0)
        self.seconds += 0.0 if found else timeout or 0.0
        return found


class _VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock jumps from timer to timer; for coroutines that wait for nothing outside of it."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the loop was created, by its timers."""
        return self._jumping.seconds


def run_virtually(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(story)


@dataclass(slots=True)
class LeaseServer:
    """The stored Lease; every write needs the current resourceVersion."""

    document: dict[str, Any] | None = None
    writes: int = 0
    holders: list[str] = field(default_factory=list)
    """one after the other"""
    written: list[float] = field(default_factory=list)
    """when, by the clock of the loop"""
    watches: bool = True
    """whether it serves them"""
    watched: int = 0
    """watches so far"""
    _open: set[asyncio.Queue[bytes | None]] = field(default_factory=set)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[asyncio.Queue[bytes | None]]:
        """The events of a watch; None is its end."""
        events = asyncio.Queue[bytes | None]()
        self.watched += 1
        self._open.add(events)
        try:
            yield events
        finally:
            self._open.discard(events)

    def end_watches(self) -> None:
        """End all watches, as an API server that restarts."""
        for events in self._open:
            events.put_nowait(None)

    def answer(self, method: str, body: bytes) -> Answer:
        """Carry one request out."""
        if method == "GET":
            return Answer(200, json.dumps(self.document).encode()) if self.document else Answer(404, b"{}")
        wanted = json.loads(body)
        if method == "POST" and self.document is not None:
            return Answer(409, b"{}")
        if method == "PUT":
            if self.document is None:
                return Answer(404, b"{}")
            if wanted["metadata"].get("resourceVersion") != self.document["metadata"]["resourceVersion"]:
                return Answer(409, b"{}")
        self.writes += 1
        self.written.append(asyncio.get_running_loop().time())
        for events in self._open:
            events.put_nowait(b"{}\n")
        self.document = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": str(self.writes)}}
        if self.holders[-1:] != [wanted["spec"]["holderIdentity"]]:
            self.holders.append(wanted["spec"]["holderIdentity"])
        return Answer(200, json.dumps(self.document).encode())


class _Events(Exchange):
    """The events of a watch behind a bad line; one that is lost takes the later ones with it."""

    def __init__(self, line: BadLine, events: asyncio.Queue[bytes | None], status: int) -> None:
        super().__init__()
        self._line, self._events, self.status = line, events, status

    async def chunks(self) -> AsyncIterator[bytes]:
        """Events as they arrive."""
        while (event := await self._events.get()) is not None:
            await self._line.way()
            yield event
        raise CutError("the API server has ended the watch")


class BadLine(Connection):
    """The connection of one replica; `delay` says how long each way takes, and infinity that it is lost."""

    def __init__(self, server: LeaseServer, delay: Callable[[], float]) -> None:
        super().__init__(Http(Origin("127.0.0.1", 1)), Credentials(None, "test"), "http://lease")
        self._server, self._delay = server, delay
        self._late: set[asyncio.Task[Answer]] = set()

    async def call(  # noqa: PLR0913 - as the real one
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content: str = JSON,
        wait: float = 10.0,
        *,
        headers: bytes = b"",
        guard: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request, which goes on if its sender gives up."""
        del content, headers
        if guard is not None:
            guard()
        task = asyncio.create_task(self._carry(method, body))
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        try:
            async with asyncio.timeout(wait):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise SlowError(f"no answer to {method} {path}") from error

    @asynccontextmanager
    async def stream(self, path: str, wait: float = 10.0, *, headers: bytes = b"") -> AsyncIterator[Exchange]:
        """A watch."""
        del headers
        try:
            async with asyncio.timeout(wait):
                await self.way()
        except TimeoutError as error:
            raise SlowError(f"no answer to GET {path}") from error
        async with self._server.events() as events:
            yield _Events(self, events, 200 if self._server.watches else 403)

    async def _carry(self, method: str, body: bytes) -> Answer:
        await self.way()
        answer = self._server.answer(method, body)
        await self.way()
        return answer

    async def way(self) -> None:
        """The time that a request, an answer or an event takes."""
        seconds = self._delay()
        await (asyncio.Event().wait() if seconds == float("inf") else asyncio.sleep(seconds))

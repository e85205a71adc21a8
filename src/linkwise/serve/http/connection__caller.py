"""One connection of the HTTP server: whoever does not come to the point is hung up on.

uvicorn waits for the head of a request without end, and reads it however long it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

__all__ = ["KEEP_ALIVE", "Caller"]

KEEP_ALIVE: Final = 120  # seconds; longer than the 90 of Go's clients, so that they end an idle connection and not we
HEAD: Final = 10.0  # seconds
"""for a head that was begun"""
LARGEST_HEAD: Final = 256 << 10  # bytes
"""kube-scheduler's take a few hundred"""


class Caller(HttpToolsProtocol):
    """Ends a connection on which nothing is asked, or a head that goes on for too long."""

    head_seconds: float = HEAD
    _ending: asyncio.TimerHandle | None = None
    _begun = False
    _head = 0  # bytes
    _heads = 0
    """how many were whole"""

    @property
    def _waits(self) -> bool:
        """Whether the next that must come is a head."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's own type leaves the time before the first out
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Somebody is there."""
        super().connection_made(transport)
        self._ending = self.loop.call_later(KEEP_ALIVE, self._end)

    def data_received(self, data: bytes) -> None:
        """They said something."""
        heads, waited = self._heads, self._waits
        super().data_received(data)
        if not (waited and self._waits) or self._heads > heads:  # a body or a head ended; it may be answered already
            self._listen()
            return
        if not self._begun:
            self._listen()
            self._begun = True
            self._ending = self.loop.call_later(self.head_seconds, self._end)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.more_body:  # else it is what is left of a body that was not read
            self._head += len(data)
        if self._head > LARGEST_HEAD:
            self._end()

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._heads += 1
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._listen()
        super().connection_lost(exc)

    def _listen(self) -> None:
        """There is a whole head, or nobody to wait for."""
        self._begun, self._head = False, 0
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end(self) -> None:
        if self._waits:
            self.transport.abort()

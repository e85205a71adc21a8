"""Watches over HTTP: one line a change, bookmarks now and then, and an end when the time is over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import ApiError, expired
from linkwise.embedded.apiserver.bodies import JSON
from linkwise.embedded.apiserver.request import Answer
from linkwise.embedded.storage.collection import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.apiserver.faults import Faults
    from linkwise.embedded.apiserver.request import Exchange
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.watches import Watch, WatchEvent

__all__ = ["Failed", "Watched"]

_AT_ONCE: Final = 256
_HEAD: Final = [(b"content-type", JSON.encode()), (b"cache-control", b"no-cache, private")]


@dataclass(frozen=True, slots=True)
class Failed(Answer):
    """A watch that begins with its end: clients look for the reason in the stream."""

    error: ApiError

    async def tell(self, exchange: Exchange) -> None:
        """One line."""
        await exchange.begin(200, list(_HEAD))
        await exchange.more(_error_line(self.error), last=True)


@dataclass(slots=True, kw_only=True)
class Watched(Answer):
    """A watch, told as long as the client listens."""

    resource: Resource
    watch: Watch
    faults: Faults
    line: Callable[[WatchEvent], bytes]
    """a change as this client wants it"""
    seconds: float
    bookmarks: float
    """seconds between two; 0 for none"""
    version: Callable[[], int]
    """of the last write of any kind"""
    ending: asyncio.Event | None = None
    """set when the server ends"""
    initial: bool = False
    """whether the end of what was there at the beginning is marked"""

    async def tell(self, exchange: Exchange) -> None:
        """Line by line."""
        left = asyncio.ensure_future(self._until_over(exchange))
        try:
            await exchange.begin(200, list(_HEAD))
            await exchange.more(b"")
            await self._tell(exchange)
        finally:
            left.cancel()
            self.watch.close()

    async def _tell(self, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        end, marked, marks = loop.time() + self.seconds, loop.time() + self.bookmarks, self.initial
        while True:
            if not await self._tell_news(exchange):
                return
            if marks and not self.watch.has_events:
                marks = False
                await exchange.more(self._bookmark(initial=True))
            now = loop.time()
            if self.watch.closed or now >= end:
                break
            if self.bookmarks and now >= marked:
                await exchange.more(self._bookmark())
                marked = now + self.bookmarks
            await self._pause(min(end, marked if self.bookmarks else end) - now)
        if self.bookmarks and now >= end:
            await exchange.more(self._bookmark())
        await exchange.more(b"", last=True)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self.watch.wait()
        except TimeoutError:
            pass

    async def _tell_news(self, exchange: Exchange) -> bool:
        """All that is there to tell; whether the watch goes on."""
        while self.watch.has_events:
            lines: list[bytes] = []
            for event in self.watch.take(_AT_ONCE):
                fault = self.faults.told(exchange.path)
                word = fault.do if fault else ""
                if word in {"cut", "expire"}:
                    last = _error_line(expired("too old resource version")) if word == "expire" else b""
                    await exchange.more(b"".join(lines) + last, last=word == "expire")
                    if word == "cut":
                        await exchange.cut()
                    return False
                line = self.line(event)
                lines += [] if word == "drop" else [line, line] if word == "repeat" else [line]
            await exchange.more(b"".join(lines))
            await asyncio.sleep(0)
        return True

    async def _until_over(self, exchange: Exchange) -> None:
        """Close the watch when the client is gone or the server ends."""
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(exchange.gone())]
        if self.ending is not None:
            waiting.append(asyncio.ensure_future(self.ending.wait()))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        self.watch.close()

    def _bookmark(self, *, initial: bool = False) -> bytes:
        meta: dict[str, object] = {"resourceVersion": str(self.version()), "creationTimestamp": None}
        if initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        told = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": told}) + b"\n"


def _error_line(error: ApiError) -> bytes:
    return encode({"type": "ERROR", "object": error.status()}) + b"\n"

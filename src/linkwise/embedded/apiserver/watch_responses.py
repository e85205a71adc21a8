"""Watch responses: one JSON line per event, bookmarks, and an end at the timeout."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import ApiError, expired
from linkwise.embedded.apiserver.bodies import JSON
from linkwise.embedded.apiserver.request import Response
from linkwise.embedded.storage.collection import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.apiserver.faults import Faults
    from linkwise.embedded.apiserver.request import Exchange
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.watches import Watch, WatchEvent

__all__ = ["FailedWatch", "WatchResponse"]

_BATCH_SIZE: Final = 256
_HEADERS: Final = [(b"content-type", JSON.encode()), (b"cache-control", b"no-cache, private")]


@dataclass(frozen=True, slots=True)
class FailedWatch(Response):
    """A watch that fails at once: clients expect the Status as an ERROR event in the stream."""

    error: ApiError

    async def send_to(self, exchange: Exchange) -> None:
        """Send the ERROR event."""
        await exchange.start(200, list(_HEADERS))
        await exchange.write(_error_line(self.error), last=True)


@dataclass(slots=True, kw_only=True)
class WatchResponse(Response):
    """A watch, streamed until it times out or either side closes it."""

    resource: Resource
    watch: Watch
    faults: Faults
    encode_event: Callable[[WatchEvent], bytes]
    """the event in the format that the client accepts"""
    timeout: float
    bookmark_interval: float
    """seconds between bookmarks; 0 for none"""
    version: Callable[[], int]
    """the current resourceVersion"""
    shutdown: asyncio.Event | None = None
    """set when the server shuts down"""
    send_initial_end: bool = False
    """whether a bookmark marks the end of the initial events"""

    async def send_to(self, exchange: Exchange) -> None:
        """Stream the events."""
        closer = asyncio.ensure_future(self._close_on_end(exchange))
        try:
            await exchange.start(200, list(_HEADERS))
            await exchange.write(b"")
            await self._send_all(exchange)
        finally:
            closer.cancel()
            self.watch.close()

    async def _send_all(self, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        end, next_bookmark, initial_pending = (
            loop.time() + self.timeout,
            loop.time() + self.bookmark_interval,
            self.send_initial_end,
        )
        while True:
            if not await self._send_events(exchange):
                return
            if initial_pending and not self.watch.has_events:
                initial_pending = False
                await exchange.write(self._bookmark(initial_end=True))
            now = loop.time()
            if self.watch.closed or now >= end:
                break
            if self.bookmark_interval and now >= next_bookmark:
                await exchange.write(self._bookmark())
                next_bookmark = now + self.bookmark_interval
            await self._wait(min(end, next_bookmark if self.bookmark_interval else end) - now)
        if self.bookmark_interval and now >= end:
            await exchange.write(self._bookmark())
        await exchange.write(b"", last=True)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self.watch.wait()
        except TimeoutError:
            pass

    async def _send_events(self, exchange: Exchange) -> bool:
        """Send all unread events; False if the watch ended."""
        while self.watch.has_events:
            lines: list[bytes] = []
            for event in self.watch.take(_BATCH_SIZE):
                fault = self.faults.on_event(exchange.path)
                action = fault.do if fault else ""
                if action in {"cut", "expire"}:
                    last = _error_line(expired("too old resource version")) if action == "expire" else b""
                    await exchange.write(b"".join(lines) + last, last=action == "expire")
                    if action == "cut":
                        await exchange.abort()
                    return False
                encode_event = self.encode_event(event)
                lines += (
                    [] if action == "drop" else [encode_event, encode_event] if action == "repeat" else [encode_event]
                )
            await exchange.write(b"".join(lines))
            await asyncio.sleep(0)
        return True

    async def _close_on_end(self, exchange: Exchange) -> None:
        """Close the watch when the client disconnects or the server shuts down."""
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(exchange.wait_for_disconnect())]
        if self.shutdown is not None:
            waiting.append(asyncio.ensure_future(self.shutdown.wait()))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        self.watch.close()

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        meta: dict[str, object] = {"resourceVersion": str(self.version()), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        document = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": document}) + b"\n"


def _error_line(error: ApiError) -> bytes:
    return encode({"type": "ERROR", "object": error.status()}) + b"\n"

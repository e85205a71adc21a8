"""Watch responses: one JSON line per event, bookmarks, and an end at the timeout."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError, expired
from linkwise.embedded.storage.collection import encode
from linkwise.net.http.messages import HangUpError, Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from linkwise.embedded.apiserver.faults import Faults
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.watches import Watch, WatchEvent

__all__ = ["WatchStream", "failed_watch"]

_BATCH_SIZE: Final = 256
_HEADERS: Final = (("cache-control", "no-cache, private"),)


def failed_watch(error: ApiError) -> Response:
    """A watch that fails at once: clients expect the Status as an ERROR event in the stream."""
    return Response(_error_line(error), headers=_HEADERS)


@dataclass(slots=True, kw_only=True)
class WatchStream:
    """A watch, streamed until it times out or either side closes it."""

    path: str
    """of the request, by which faults are chosen"""
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
    send_initial_end: bool = False
    """whether a bookmark marks the end of the initial events"""

    def response(self) -> Response:
        """The response that streams the events."""
        return Response(headers=_HEADERS, stream=self._lines())

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end, next_bookmark = loop.time() + self.timeout, loop.time() + self.bookmark_interval
        initial_pending = self.send_initial_end
        try:
            while True:
                while self.watch.has_events:
                    lines, fault = self._next_lines()
                    yield lines
                    if fault == "cut":
                        raise HangUpError
                    if fault == "expire":
                        return
                    await asyncio.sleep(0)
                if initial_pending:
                    initial_pending = False
                    yield self._bookmark(initial_end=True)
                now = loop.time()
                if self.watch.closed or now >= end:
                    break
                if self.bookmark_interval and now >= next_bookmark:
                    yield self._bookmark()
                    next_bookmark = now + self.bookmark_interval
                await self._wait(min(end, next_bookmark if self.bookmark_interval else end) - now)
            if self.bookmark_interval and now >= end:
                yield self._bookmark()
        finally:
            self.watch.close()

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self.watch.wait()

    def _next_lines(self) -> tuple[bytes, str]:
        """The lines of a batch of unread events, and the fault that ends the watch after them, if any."""
        lines: list[bytes] = []
        for event in self.watch.take(_BATCH_SIZE):
            fault = self.faults.on_event(self.path)
            action = fault.do if fault else ""
            if action in {"cut", "expire"}:
                last = _error_line(expired("too old resource version")) if action == "expire" else b""
                return b"".join(lines) + last, action
            line = self.encode_event(event)
            lines += [] if action == "drop" else [line, line] if action == "repeat" else [line]
        return b"".join(lines), ""

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        meta: dict[str, object] = {"resourceVersion": str(self.version()), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        document = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": document}) + b"\n"


def _error_line(error: ApiError) -> bytes:
    return encode({"type": "ERROR", "object": error.status()}) + b"\n"

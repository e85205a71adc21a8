"""Watches: initial objects or the history since a resourceVersion, followed by live events that match a selector."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from linkwise.embedded.storage.collection import Change, Collection, Raw, Stored
    from linkwise.embedded.storage.lists import Selector

__all__ = ["Watch", "WatchEvent"]

BUFFER_BYTES: Final = 32 << 20
"""unread bytes after which a slow watch is closed; the client resumes from its last resourceVersion"""


@dataclass(frozen=True, slots=True, eq=False)
class WatchEvent:
    """One event of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    stored: Stored
    line: bytes = b""
    """the encoded event, if it is the same for all watches"""

    @property
    def object(self) -> Raw:
        """Decode the object; the caller owns the copy."""
        return self.stored.read()


class Watch:
    """A watch of one resource for one reader: `async for event in watch`, until either side closes it."""

    def __init__(self, collection: Collection, parse_selector: Selector) -> None:
        self.closed = False
        self.version = 0
        """the resourceVersion that the reader has caught up to"""
        self._collection, self._selector = collection, parse_selector
        self._initial: deque[Stored] = deque()
        """objects to report as ADDED; they cost no memory, as the collection holds them anyway"""
        self._events: deque[WatchEvent] = deque()
        self._size = 0
        self._readable: asyncio.Event = asyncio.Event()
        collection.listeners.add(self._on_change)

    @property
    def has_events(self) -> bool:
        """Whether there are unread events."""
        return bool(self._initial or self._events)

    def start_with(self, stored: list[Stored], version: int) -> None:
        """Report these objects as ADDED first."""
        self._initial.extend(stored)
        self.version = version
        if stored:
            self._readable.set()

    def start_at(self, version: int) -> None:
        """Report all changes since a resourceVersion first; ApiError 410 if it is too old."""
        for change in self._collection.since(version):
            self._on_change(change)
        self.version = max(version, self._collection.newest)

    def skip_initial(self) -> None:
        """Do not report the initial objects (sendInitialEvents=false)."""
        self._initial.clear()
        self._update_readable()

    def take(self, limit: int = 512) -> list[WatchEvent]:
        """Take up to `limit` unread events."""
        if self._initial:
            events = [WatchEvent("ADDED", self._initial.popleft()) for _ in range(min(limit, len(self._initial)))]
        else:
            events = [self._events.popleft() for _ in range(min(limit, len(self._events)))]
            self._size -= sum(len(event.stored.data) for event in events)
        self._update_readable()
        return events

    async def wait(self) -> None:
        """Wait until there are unread events, or the watch is closed."""
        await self._readable.wait()

    def close(self) -> None:
        """Stop receiving events."""
        self._collection.listeners.discard(self._on_change)
        self.closed = True
        self._readable.set()

    async def __aiter__(self) -> AsyncIterator[WatchEvent]:
        try:
            while self.has_events or not self.closed:
                await self.wait()
                for event in self.take():
                    yield event
        finally:
            self.close()

    def _update_readable(self) -> None:
        """Make readers wait if there are no unread events."""
        if not self.has_events and not self.closed:
            self._readable.clear()

    def _on_change(self, change: Change) -> None:
        self.version = change.version
        if (event := _event_for(self._selector.matches, change, everything=self._selector.everything)) is not None:
            self._put(event)

    def _put(self, event: WatchEvent) -> None:
        self._events.append(event)
        self._size += len(event.stored.data)
        self._readable.set()
        if self._size > BUFFER_BYTES and len(self._events) > 1:
            self._initial.clear()
            self._events.clear()
            self.close()


def _event_for(matches: Callable[[Stored], bool], change: Change, *, everything: bool) -> WatchEvent | None:
    """The event that a change means for a selector: an object that starts to match is ADDED, one that stops is DELETED."""
    if everything:
        return WatchEvent(change.type, change.stored, change.line)
    now = change.type != "DELETED" and matches(change.stored)
    before = change.before is not None and matches(change.before)
    if now:
        kind: Literal["ADDED", "MODIFIED"] = "MODIFIED" if before else "ADDED"
        return WatchEvent(kind, change.stored, change.line if kind == change.type else b"")
    return WatchEvent("DELETED", change.stored, change.line if change.type == "DELETED" else b"") if before else None

"""Watches: what is there or what happened since a version, then everything as it happens, to those whom it concerns."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from linkwise.embedded.storage.collection import Change, Collection, Raw, Stored
    from linkwise.embedded.storage.selectors import Selection

__all__ = ["News", "Watch"]

HELD: Final = 32 << 20
"""bytes that may wait for a slow reader until its watch is ended; it can go on from what it saw last"""


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """One line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    stored: Stored
    line: bytes = b""
    """the whole line, where it is the one that others get as well"""

    @property
    def object(self) -> Raw:
        """The object, for the reader alone."""
        return self.stored.read()


class Watch:
    """News of one kind, for one reader: `async for news in watch`, until either side closes it."""

    def __init__(self, shelf: Collection, selection: Selection) -> None:
        self.closed = False
        self.seen = 0
        """the last version that the reader was handed or could do without"""
        self._shelf, self._selection = shelf, selection
        self._first: deque[Stored] = deque()
        """what was there at the beginning, which costs nothing to keep"""
        self._line: deque[News] = deque()
        self._size = 0
        self._wakes: asyncio.Event = asyncio.Event()
        shelf.listeners.add(self._hear)

    @property
    def waiting(self) -> bool:
        """Whether there is something to read."""
        return bool(self._first or self._line)

    def begin_with(self, stored: list[Stored], version: int) -> None:
        """Tell first of all that is there."""
        self._first.extend(stored)
        self.seen = version
        if stored:
            self._wakes.set()

    def begin_at(self, version: int) -> None:
        """Tell first of all that happened since; RefusedError if that is not known any more."""
        for change in self._shelf.since(version):
            self._hear(change)
        self.seen = max(version, self._shelf.newest)

    def skip(self) -> None:
        """Tell nothing of what was there at the beginning."""
        self._first.clear()
        self._rest()

    def take(self, most: int = 512) -> list[News]:
        """What is there to read, at most so many."""
        if self._first:
            found = [News("ADDED", self._first.popleft()) for _ in range(min(most, len(self._first)))]
        else:
            found = [self._line.popleft() for _ in range(min(most, len(self._line)))]
            self._size -= sum(len(news.stored.data) for news in found)
        self._rest()
        return found

    async def wait(self) -> None:
        """Wait until there is something to read, or the watch is closed."""
        await self._wakes.wait()

    def close(self) -> None:
        """Hear no more."""
        self._shelf.listeners.discard(self._hear)
        self.closed = True
        self._wakes.set()

    async def __aiter__(self) -> AsyncIterator[News]:
        try:
            while self.waiting or not self.closed:
                await self.wait()
                for news in self.take():
                    yield news
        finally:
            self.close()

    def _rest(self) -> None:
        """Let readers wait where there is nothing to read."""
        if not self.waiting and not self.closed:
            self._wakes.clear()

    def _hear(self, change: Change) -> None:
        self.seen = change.version
        if (news := _meant(self._selection.holds, change, everything=self._selection.everything)) is not None:
            self._put(news)

    def _put(self, news: News) -> None:
        self._line.append(news)
        self._size += len(news.stored.data)
        self._wakes.set()
        if self._size > HELD and len(self._line) > 1:
            self._first.clear()
            self._line.clear()
            self.close()


def _meant(holds: Callable[[Stored], bool], change: Change, *, everything: bool) -> News | None:
    """What a change is to a reader who sees only some objects."""
    if everything:
        return News(change.type, change.stored, change.line)
    now = change.type != "DELETED" and holds(change.stored)
    before = change.before is not None and holds(change.before)
    if now:
        kind: Literal["ADDED", "MODIFIED"] = "MODIFIED" if before else "ADDED"
        return News(kind, change.stored, change.line if kind == change.type else b"")
    return News("DELETED", change.stored, change.line if change.type == "DELETED" else b"") if before else None

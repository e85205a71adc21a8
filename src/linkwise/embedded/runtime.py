"""Time of a cluster: how it passes, and what is to be done when. Tests and demos let it pass faster, or by hand."""

from __future__ import annotations

import asyncio
import heapq
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Alarms", "Pace", "paced"]


@dataclass(frozen=True, slots=True)
class Pace:
    """Where time comes from."""

    clock: Callable[[], float] = time.monotonic
    """seconds that never go back"""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


def paced(speed: float = 1.0) -> Pace:
    """Time that passes so many times as fast as that of the clock on the wall."""
    return Pace(lambda: time.monotonic() * speed, lambda seconds: asyncio.sleep(seconds / speed))


class Alarms:
    """What is to be done later, in the order of its time; all on one loop."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._line: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._line)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something after this time; it looks for itself whether it is still wanted then."""
        when = self._pace.clock() + seconds
        heapq.heappush(self._line, (when, next(self._numbers), action))
        if self._line[0][0] == when:
            self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._news.clear()
            now, done = self._pace.clock(), 0
            while self._line and self._line[0][0] <= now and done < _AT_ONCE:
                heapq.heappop(self._line)[2]()
                done += 1
            if done:
                await asyncio.sleep(0)
                continue
            await wait_for_news(self._news, self._pace, self._line[0][0] - now if self._line else None)


async def wait_for_news(news: asyncio.Event, pace: Pace, seconds: float | None) -> None:
    """Wait until something is told, or the time is over; without a time for as long as it takes."""
    if seconds is None:
        await news.wait()
        return
    told, over = asyncio.ensure_future(news.wait()), asyncio.ensure_future(pace.sleep(seconds))
    try:
        await asyncio.wait({told, over}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        over.cancel()


_AT_ONCE = 20
"""actions after which others get their turn"""

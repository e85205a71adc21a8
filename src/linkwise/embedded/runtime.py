"""Time of a cluster: how it passes, and what is to be done when. Tests and demos let it pass faster, or by hand.

News of a store for the parts of a cluster that live beside it: a few at a time, so that everybody gets their turn.
"""
# Joined from cluster_pace, cluster_news: one docstring for all.

from __future__ import annotations

import asyncio
import heapq
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.embedded.storage.watches import News
    from linkwise.embedded.store import Store

__all__ = ["Alarms", "Pace", "follow", "paced"]


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
            while self._line and self._line[0][0] <= now and done < _ALARMS_AT_ONCE:
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


_ALARMS_AT_ONCE = 20
"""actions after which others get their turn"""


_EVENTS_AT_ONCE: Final = 64


async def follow(store: Store, kind: str, hear: Callable[[News], None]) -> None:
    """Tell of all objects of a kind, and of all that happens to them, until cancelled."""
    watch = store.watch(kind)
    try:
        while True:
            await watch.wait()
            for news in watch.take(_EVENTS_AT_ONCE):
                hear(news)
            await asyncio.sleep(0)
            if watch.closed and not watch.waiting:
                raise ClusterError(f"{kind} could not be followed: more happened than could be told")
    finally:
        watch.close()

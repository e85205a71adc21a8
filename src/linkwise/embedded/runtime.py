"""Clock, timers and watch dispatch for the components of an embedded cluster.

Tests and demos run the clock faster or advance it by hand.
"""

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

    from linkwise.embedded.storage.watches import WatchEvent
    from linkwise.embedded.store import Store

__all__ = ["Clock", "Timers", "follow", "scaled_clock"]

_TIMER_BATCH: Final = 20
"""callbacks run before other tasks get the event loop"""
_TIMER_SECONDS: Final = 0.01
"""after which other tasks get it earlier: to start a pod with shares of devices may take a tenth of a second"""
_EVENT_BATCH: Final = 64
"""watch events handled before other tasks get the event loop"""


@dataclass(frozen=True, slots=True)
class Clock:
    """A source of time."""

    now: Callable[[], float] = time.monotonic
    """monotonic seconds"""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


def scaled_clock(clock: Clock, speed: float) -> Clock:
    """A clock that runs `speed` times as fast as another."""
    return Clock(lambda: clock.now() * speed, lambda seconds: clock.sleep(seconds / speed))


class Timers:
    """Callbacks at a later time, in order, on the running event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = count()
        self._wakeup = asyncio.Event()

    def __len__(self) -> int:
        return len(self._heap)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` after a delay; it checks by itself whether it still applies."""
        when = self._clock.now() + seconds
        heapq.heappush(self._heap, (when, next(self._sequence), action))
        if self._heap[0][0] == when:
            self._wakeup.set()

    async def run(self) -> None:
        """Run callbacks until cancelled."""
        while True:
            self._wakeup.clear()
            now, fired, began = self._clock.now(), 0, time.monotonic()
            while self._heap and self._heap[0][0] <= now and fired < _TIMER_BATCH:
                heapq.heappop(self._heap)[2]()
                fired += 1
                if time.monotonic() - began > _TIMER_SECONDS:
                    break
            if fired:
                await asyncio.sleep(0)
                continue
            await wait_or_timeout(self._wakeup, self._clock, self._heap[0][0] - now if self._heap else None)


async def wait_or_timeout(event: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Wait until the event is set or the time has passed; without a time, wait for the event."""
    if seconds is None:
        await event.wait()
        return
    event_set, timed_out = asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({event_set, timed_out}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        event_set.cancel()
        timed_out.cancel()


async def follow(store: Store, kind: str, handle: Callable[[WatchEvent], None]) -> None:
    """Call `handle` for all existing objects of a kind and for every event, until cancelled."""
    watch = store.watch(kind)
    try:
        while True:
            await watch.wait()
            for event in watch.take(_EVENT_BATCH):
                handle(event)
            await asyncio.sleep(0)
            if watch.closed and not watch.has_events:
                raise ClusterError(f"the watch of {kind} was closed: its reader fell too far behind")
    finally:
        watch.close()

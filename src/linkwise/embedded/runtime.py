"""Runtime of the components of an embedded cluster: clock, timers, watch dispatch and recorded events.

Tests and demos run the clock faster or advance it by hand. Repeated events of one component are counted.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

from linkwise.embedded.api_errors import ApiError
from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.storage.list_watch import WatchEvent
    from linkwise.embedded.store import Store

__all__ = ["Clock", "EventRecorder", "Timers", "follow", "scaled_clock"]

_TIMER_BATCH: Final = 20
"""callbacks run before other tasks get the event loop"""
_TIMER_SECONDS: Final = 0.01
"""after which other tasks get it earlier: to start a pod with shares of devices may take a tenth of a second"""
_EVENT_BATCH: Final = 64
"""watch events handled before other tasks get the event loop"""
_CACHE_SIZE: Final = 4096
"""events remembered for counting"""


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


class EventRecorder:
    """Records events as one component."""

    def __init__(self, store: Store, component: str, host: str = "") -> None:
        self._store, self._component = store, component
        self._source = {"component": component, **({"host": host} if host else {})}
        self._cache: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()
        self._sequence = 0

    def record(self, involved: Raw, event_type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an event about an object; events that can't be written are dropped."""
        meta = involved["metadata"]
        key = (meta["uid"], reason, message)
        try:
            if key in self._cache:
                self._count_up(key)
            else:
                self._create(involved, key, event_type)
        except ApiError:
            self._cache.pop(key, None)

    def _count_up(self, key: tuple[str, str, str]) -> None:
        self._cache.move_to_end(key)
        namespace, name = self._cache[key]
        event = self._store.get("events", name, namespace).read()
        change = {"count": event.get("count", 1) + 1, "lastTimestamp": self._store.database.now}
        self._store.patch("events", name, change, namespace)

    def _create(self, involved_object: Raw, key: tuple[str, str, str], event_type: str) -> None:
        meta, now = involved_object["metadata"], self._store.database.now
        namespace = meta.get("namespace") or "default"
        self._sequence += 1
        reference = {
            "kind": involved_object["kind"],
            "apiVersion": involved_object.get("apiVersion", "v1"),
            "name": meta["name"],
            "uid": meta["uid"],
            **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
        }
        name = f"{meta['name'][:200]}.{self._component}.{self._sequence:x}.{meta['uid'][:8]}"
        document = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": reference,
            "reason": key[1],
            "message": key[2],
            "type": event_type,
            "source": self._source,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        self._store.create("events", document, namespace)
        self._cache[key] = (namespace, name)
        if len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)

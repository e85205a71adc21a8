"""Events written off the hot path: at a limited rate, equal ones counted up, too many dropped and counted.

Warnings go first. What is none lets binds go first: an event is a write to the API server, as a bind is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.annotate import timestamp
from linkwise.net.timing import RateLimit
from linkwise.wire.kubernetes.writes import About, count_patch, event

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.broker.effects import Event
    from linkwise.kube.perform.write_queue import Attempts, WriteResult

__all__ = ["Reporter"]

log = logging.getLogger(__name__)

_WARNING: Final = "Warning"
_PAUSE: Final = 0.1  # s
_PAUSES: Final = 20
"""for which an event lets binds go first"""
_ENDING: Final = "because it is being terminated"
"""what the server says of a namespace in which nothing new can be made"""


@dataclass(slots=True)
class _Made:
    """An event that the server has."""

    name: str
    count: int


@dataclass(slots=True)
class Reporter:
    """Tells people; an event that equals one before is that one once more."""

    attempts: Attempts
    busy: Callable[[], bool] = lambda: False
    """whether binds are under way"""
    done: Counter[str] = field(default_factory=Counter)
    """by end: made, repeated, gone, failed, dropped"""
    trouble: str = ""
    hurried: bool = False
    """whether the rate no longer counts"""
    _warnings: dict[Event, int] = field(default_factory=dict)
    """that wait, and how often each happened"""
    _others: dict[Event, int] = field(default_factory=dict)
    """the same of what is no warning"""
    _made: dict[Event, _Made] = field(default_factory=dict)
    _sending: bool = False
    _number: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def queued(self) -> int:
        """How many are not done yet."""
        return self._waiting + self._sending

    @property
    def _waiting(self) -> int:
        return len(self._warnings) + len(self._others)

    def tell(self, effect: Event) -> None:
        """Write an event soon."""
        line = self._warnings if effect.kind == _WARNING else self._others
        if effect in line:
            line[effect] += 1
        elif self._waiting < self.attempts.settings.events_held or self._made_room(effect):
            line[effect] = 1
            self._idle.clear()
            self._news.set()
        else:
            self.done["dropped"] += 1

    def _made_room(self, effect: Event) -> bool:
        """Whether one was dropped that matters less: somebody may wait for a warning."""
        if effect.kind != _WARNING or not self._others:
            return False
        del self._others[next(iter(self._others))]
        self.done["dropped"] += 1
        return True

    async def _quiet(self) -> None:
        """Wait until no bind is under way, but not for ever, and not with a warning."""
        for _ in range(_PAUSES):
            if self.hurried or not self.busy() or self._warnings:
                return
            await self.attempts.timing.sleep(_PAUSE)

    async def drained(self) -> None:
        """Wait until nothing is in line."""
        if self.queued:
            await self._idle.wait()

    async def run(self) -> None:
        """Write whatever is told, until cancelled."""
        settings = self.attempts.settings
        bucket = RateLimit(self.attempts.timing, settings.events, settings.events_burst)
        while True:
            await self._news.wait()
            if not self.hurried:
                await bucket.take()
                await self._quiet()
            line = self._warnings or self._others
            effect = next(iter(line))
            times = line.pop(effect)
            self._sending = True
            try:
                await self._write(effect, times)
            finally:
                self._sending = False
                if not self._waiting:
                    self._news.clear()
                    self._idle.set()

    async def _write(self, effect: Event, times: int) -> None:
        made = self._made.pop(effect, None)
        if made is not None:
            made.count += times
            patch = count_patch(made.count, timestamp(self.attempts.timing.now()))
            given = await self.attempts.write("PATCH", f"{_place(effect)}/{quote(made.name, safe='')}", patch, MERGE)
            if given.status != 404:
                self._end(effect, made, given, "repeated")
                return
            # The server keeps events for an hour: this one is over, and is told anew.
        self._number += 1
        about, now = _about(effect), self.attempts.timing.now()
        start = about.name[:200].rstrip("-.")  # no part of a name may end so
        made = _Made(f"{start}.{int(now * 1e6):x}{self._number & 0xFFFF:04x}", times)
        words = (effect.kind, effect.reason, effect.sentence)
        given = await self.attempts.write("POST", _place(effect), event(made.name, about, words, times, timestamp(now)))
        # Nobody else has that name: if it is there already, the answer to a try before was lost.
        self._end(effect, made, replace(given, status=201) if given.status == 409 else given, "made")

    def _end(self, effect: Event, made: _Made, given: WriteResult, word: str) -> None:
        gone = given.status == 404 or (given.status == 403 and _ENDING in given.sentence)
        self.done[word if given.done else "gone" if gone else "failed"] += 1
        if given.done:
            self._made[effect] = made
            if len(self._made) > self.attempts.settings.events_known:
                del self._made[next(iter(self._made))]
        elif not gone and given.sentence != self.trouble:
            log.warning("event reason=%s about=%s not written: %s", effect.reason, _about(effect).name, given.sentence)
        self.trouble = "" if given.done or gone else given.sentence


def _about(effect: Event) -> About:
    # Nodes are not in a namespace, and whoever asks for events of one asks by its name as if that were its UID.
    if not effect.name:
        return About("Node", effect.node, effect.node)
    return About("Pod", effect.name, effect.uid, effect.namespace)


def _place(effect: Event) -> str:
    namespace = effect.namespace if effect.name else "default"
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/events"

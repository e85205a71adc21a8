"""Annotations of pods written off the hot path: one that wakes a refused pod, and those that plans need."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from linkwise.kube.binding import pod_path
from linkwise.kube.connection import MERGE
from linkwise.kube.timing import Bucket
from linkwise.wire.api_writes import annotations_patch

if TYPE_CHECKING:
    from linkwise.broker.effects import Annotate, Wake
    from linkwise.kube.attempts import Attempts, Given

__all__ = ["WOKEN", "Annotator", "Waker", "timestamp"]

log = logging.getLogger(__name__)

WOKEN: Final = "linkwise.dev/woken"
"""its value says when; any change of a waiting pod makes the scheduler try it again"""
_GONE: Final = (404, 409)


def timestamp(now: float) -> str:
    """As Kubernetes writes times, with microseconds: the same text twice would change nothing."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class Waker:
    """Wakes pods in the order in which they were told, at a limited rate; a pod waits in line once."""

    attempts: Attempts
    done: Counter[str] = field(default_factory=Counter)
    """by end: written, gone, failed"""
    trouble: str = ""
    hurried: bool = False
    """whether the rate no longer counts"""
    _line: dict[str, Wake] = field(default_factory=dict)
    _sending: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def queued(self) -> int:
        """How many are not done yet."""
        return len(self._line) + self._sending

    def tell(self, effect: Wake) -> None:
        """Wake a pod soon."""
        self._line.setdefault(effect.uid, effect)
        self._idle.clear()
        self._news.set()

    async def drained(self) -> None:
        """Wait until nothing is in line."""
        if self.queued:
            await self._idle.wait()

    async def run(self) -> None:
        """Wake whoever is told, until cancelled."""
        settings, timing = self.attempts.settings, self.attempts.timing
        bucket = Bucket(timing, settings.wakes, settings.wakes_burst)
        while True:
            await self._news.wait()
            if not self.hurried:
                await bucket.take()
            uid = next(iter(self._line))
            effect = self._line.pop(uid)
            self._sending = True
            try:
                patch = annotations_patch(uid, {WOKEN: timestamp(timing.now())})
                given = await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)
            finally:
                self._sending = False
                if not self._line:
                    self._news.clear()
                    self._idle.set()
            self.trouble = _count(self.done, given, f"pod={effect.namespace}/{effect.name} is not woken", self.trouble)


@dataclass(slots=True)
class Annotator:
    """Writes annotations of several pods at once, and of one pod in the order in which they were told."""

    attempts: Attempts
    done: Counter[str] = field(default_factory=Counter)
    """by end: written, gone, failed"""
    trouble: str = ""
    _waiting: dict[str, Annotate] = field(default_factory=dict)
    _sending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def queued(self) -> int:
        """How many are not done yet."""
        return len(self._waiting) + len(self._sending)

    def tell(self, effect: Annotate) -> None:
        """Write annotations soon; what waits for the same pod is written with them."""
        before = self._waiting.get(effect.uid)
        joined = replace(effect, annotations={**before.annotations, **effect.annotations}) if before else effect
        self._waiting[effect.uid] = joined
        self._idle.clear()
        self._news.set()

    async def drained(self) -> None:
        """Wait until nothing is in line."""
        if self.queued:
            await self._idle.wait()

    async def run(self) -> None:
        """Write whatever is told, until cancelled."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                free = self.attempts.settings.annotating - len(self._sending)
                for uid in [uid for uid in self._waiting if uid not in self._sending][:free]:
                    self._sending[uid] = asyncio.create_task(self._write(self._waiting.pop(uid)))
        finally:
            for task in self._sending.values():
                task.cancel()

    async def _write(self, effect: Annotate) -> None:
        try:
            patch = annotations_patch(effect.uid, effect.annotations)
            given = await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)
        finally:
            del self._sending[effect.uid]
            self._news.set()
            if not self.queued:
                self._idle.set()
        what = f"pod={effect.namespace}/{effect.name} is not annotated"
        self.trouble = _count(self.done, given, what, self.trouble)


def _count(done: Counter[str], given: Given, what: str, before: str) -> str:
    """Count how a write ended; the trouble that there is now, which is told once."""
    if given.done or _is_gone(given):
        done["written" if given.done else "gone"] += 1
        return ""
    done["failed"] += 1
    sentence = given.sentence
    if given.status == 403:
        sentence += "; grant patch on pods (`linkwise manifests rbac` prints the role)"
    if sentence != before:
        log.warning("%s: %s", what, sentence)
    return sentence


def _is_gone(given: Given) -> bool:
    """Whether the pod is gone, or is another one by now: a patch with another UID is no conflict, but invalid."""
    return given.status in _GONE or (given.status == 422 and "metadata.uid" in given.sentence)

"""Annotations of pods written off the hot path: one that wakes a refused pod, and those that plans need."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from linkwise.broker.effects import Annotate, Wake
from linkwise.kube.binding import pod_path
from linkwise.kube.connection import MERGE
from linkwise.kube.timing import Bucket
from linkwise.wire.api_writes import annotations_patch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.kube.attempts import Attempts, Given

__all__ = ["WOKEN", "Annotator", "Waker", "timestamp"]

log = logging.getLogger(__name__)

WOKEN: Final = "linkwise.dev/woken"
"""its value says when; any change of a waiting pod makes the scheduler try it again"""
_GONE: Final = (404, 409)


def timestamp(now: float) -> str:
    """As Kubernetes writes times, with microseconds: the same text twice would change nothing."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Told = TypeVar("Told", Wake, Annotate)


@dataclass(slots=True)
class _Patches(Generic[Told]):
    """Patches pods, several at once, each begun in the order in which it was told; one pod is patched once at a time.

    A write that hangs, behind a webhook of its namespace for one, so holds up no other.
    """

    word: ClassVar[str]
    """what pods are afterwards"""
    attempts: Attempts
    done: Counter[str] = field(default_factory=Counter)
    """by end: written, gone, failed"""
    trouble: str = ""
    hurried: bool = False
    """whether the rate no longer counts"""
    _line: dict[str, Told] = field(default_factory=dict)
    _sending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def queued(self) -> int:
        """How many are not done yet."""
        return len(self._line) + len(self._sending)

    async def drained(self) -> None:
        """Wait until nothing is in line."""
        if self.queued:
            await self._idle.wait()

    def _put(self, effect: Told) -> None:
        self._line[effect.uid] = effect
        self._idle.clear()
        self._news.set()

    async def _run(self, at_once: int, bucket: Bucket | None = None) -> None:
        try:
            while True:
                await self._news.wait()
                uid = self._next(at_once)
                if uid is None:
                    self._news.clear()
                    continue
                if bucket and not self.hurried:
                    await bucket.take()
                self._sending[uid] = asyncio.create_task(self._write(self._line.pop(uid)))
        finally:
            for task in self._sending.values():
                task.cancel()

    def _next(self, at_once: int) -> str | None:
        """Who is to be patched now; None as long as nobody can be."""
        if len(self._sending) >= at_once:
            return None
        return next((uid for uid in self._line if uid not in self._sending), None)

    async def _write(self, effect: Told) -> None:
        try:
            patch = annotations_patch(effect.uid, self._annotations(effect))
            given = await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)
        finally:
            del self._sending[effect.uid]
            self._news.set()
            if not self.queued:
                self._idle.set()
        what = f"pod={effect.namespace}/{effect.name} is not {self.word}"
        self.trouble = _count(self.done, given, what, self.trouble)

    def _annotations(self, effect: Told) -> Mapping[str, str | None]:
        raise NotImplementedError


class Waker(_Patches[Wake]):
    """Wakes pods at a limited rate; a pod waits in line once."""

    word = "woken"

    def tell(self, effect: Wake) -> None:
        """Wake a pod soon; whoever is in line keeps its place."""
        if effect.uid not in self._line:
            self._put(effect)

    async def run(self) -> None:
        """Wake whoever is told, until cancelled."""
        settings = self.attempts.settings
        await self._run(settings.waking, Bucket(self.attempts.timing, settings.wakes, settings.wakes_burst))

    def _annotations(self, effect: Wake) -> Mapping[str, str | None]:
        del effect
        return {WOKEN: timestamp(self.attempts.timing.now())}


class Annotator(_Patches[Annotate]):
    """Writes annotations, of one pod in the order in which they were told."""

    word = "annotated"

    def tell(self, effect: Annotate) -> None:
        """Write annotations soon; what waits for the same pod is written with them."""
        before = self._line.get(effect.uid)
        joined = replace(effect, annotations={**before.annotations, **effect.annotations}) if before else effect
        self._put(joined)

    async def run(self) -> None:
        """Write whatever is told, until cancelled."""
        await self._run(self.attempts.settings.annotating)

    def _annotations(self, effect: Annotate) -> Mapping[str, str | None]:
        return effect.annotations


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

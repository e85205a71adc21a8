"""Writes about pods that wait in line: several at once, each begun in the order in which it was told.

Writes that can be repeated without harm: tried until the server answers, or given up after some time.
"""
# Joined from in_line, attempts: one docstring for all.

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from linkwise.broker.effects import Annotate, Evict, Wake
from linkwise.errors import ClusterError
from linkwise.kube.client.api import JSON
from linkwise.kube.perform.bind import retry_after
from linkwise.net.http_client import SlowError
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection
    from linkwise.kube.settings import PerformSettings
    from linkwise.net.http_client import Answer
    from linkwise.net.timing import RateLimit

__all__ = ["Attempts", "WriteQueue", "WriteResult", "is_gone"]

log = logging.getLogger(__name__)

_OTHER_UID: Final = ((409, "UID in precondition"), (422, "metadata.uid"))
"""how an eviction and how a patch of another pod is refused"""

Told = TypeVar("Told", Wake, Annotate, Evict)


@dataclass(slots=True)
class WriteQueue(Generic[Told]):
    """Writes about one pod once at a time; a write that hangs, behind a webhook of its namespace for one, holds up no other."""

    word: ClassVar[str]
    """what pods are afterwards"""
    right: ClassVar[str] = "patch on pods"
    """what must be allowed"""
    role: ClassVar[str] = "linkwise manifests rbac"
    """what prints the role that allows it"""
    attempts: Attempts
    done: Counter[str] = field(default_factory=Counter)
    """by end: written, gone, failed, and kept for what was not to be written any more"""
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

    async def _run(self, at_once: int, bucket: RateLimit | None = None) -> None:
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
        """Who is to be written about now; None as long as nobody can be."""
        if len(self._sending) >= at_once:
            return None
        return next((uid for uid in self._line if uid not in self._sending), None)

    async def _write(self, effect: Told) -> None:
        try:
            given = await self._send(effect)
        finally:
            del self._sending[effect.uid]
            self._news.set()
            if not self.queued:
                self._idle.set()
        if given is None:
            self.done["kept"] += 1
        else:
            self._count(given, f"pod={effect.namespace}/{effect.name} is not {self.word}")

    async def _send(self, effect: Told) -> WriteResult | None:
        """The server's last word; None if there is nothing to write any more."""
        raise NotImplementedError

    def _count(self, given: WriteResult, what: str) -> None:
        """Count how a write ended; the trouble that there is now is told once."""
        if given.done or is_gone(given):
            self.done["written" if given.done else "gone"] += 1
            self.trouble = ""
            return
        self.done["failed"] += 1
        sentence = given.sentence
        if given.status == 403:
            sentence += f"; grant {self.right} (`{self.role}` prints the role)"
        if sentence != self.trouble:
            log.warning("%s: %s", what, sentence)
        self.trouble = sentence


def is_gone(given: WriteResult) -> bool:
    """Whether the pod is gone, or is another one by now; any other conflict is of a pod that is there."""
    return given.status == 404 or any(given.status == code and word in given.sentence for code, word in _OTHER_UID)


# A patch that names no version conflicts only where others write all the time: the server has tried it a few times itself.
_AGAIN: Final = {"POST": (408, 429), "PATCH": (408, 409, 429)}


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The server's last word."""

    status: int
    """0 if it never said anything"""
    sentence: str = ""

    @property
    def done(self) -> bool:
        """Whether it was written."""
        return 200 <= self.status < 300


@dataclass(slots=True)
class Attempts:
    """Tries a write as often as the settings allow."""

    connection: Connection
    settings: PerformSettings
    timing: Timing

    async def write(self, method: str, path: str, body: bytes, content: str = JSON) -> WriteResult:
        """The first answer that decides; the last one if the server only ever fails, or can't be reached for long."""
        backoff, begin, answers = Backoff(self.timing, first=0.2, most=10.0), self.timing.clock(), 0
        while True:
            try:
                answer = await self.connection.call(method, path, body, content, self.settings.wait)
            except SlowError as error:
                # It was sent: what one write waits for, such as a webhook of its namespace, may answer all others.
                given, pause, answers = WriteResult(0, str(error)), 0.0, answers + 1
                over = answers >= self.settings.tries
            except ClusterError as error:
                given, pause = WriteResult(0, str(error)), 0.0
                over = self.timing.clock() - begin >= self.settings.outage
            else:
                given, pause, answers = _given(answer), retry_after(answer), answers + 1
                over = answers >= self.settings.tries or not (given.status >= 500 or given.status in _AGAIN[method])
            if over:
                return given
            await backoff.wait(pause)


def _given(answer: Answer) -> WriteResult:
    if answer.status < 300:
        return WriteResult(answer.status)
    return WriteResult(answer.status, status_of(answer.body).message or f"the API server answers {answer.status}")

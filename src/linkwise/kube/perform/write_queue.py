"""Writes about pods that wait in line: several at once, each begun in the order in which it was told."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from linkwise.broker.effects import Annotate, Evict, Wake

if TYPE_CHECKING:
    from linkwise.kube.perform.write_queue__attempts import Attempts, Given
    from linkwise.net.timing import Bucket

__all__ = ["Line", "is_gone"]

log = logging.getLogger(__name__)

_OTHER_UID: Final = ((409, "UID in precondition"), (422, "metadata.uid"))
"""how an eviction and how a patch of another pod is refused"""

Told = TypeVar("Told", Wake, Annotate, Evict)


@dataclass(slots=True)
class Line(Generic[Told]):
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

    async def _send(self, effect: Told) -> Given | None:
        """The server's last word; None if there is nothing to write any more."""
        raise NotImplementedError

    def _count(self, given: Given, what: str) -> None:
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


def is_gone(given: Given) -> bool:
    """Whether the pod is gone, or is another one by now; any other conflict is of a pod that is there."""
    return given.status == 404 or any(given.status == code and word in given.sentence for code, word in _OTHER_UID)

"""Write queue: bounded concurrency, one write in flight per pod; with retries.

The writes are idempotent, so they are retried until the API server answers or a limit is reached. A write that hangs,
for example behind an admission webhook of its namespace, delays no other pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from linkwise.broker.effects import Condition, Evict, PolicyStatus, RankTable, Record, Steer, Wake, WriteClaim
from linkwise.errors import ClusterError
from linkwise.kube.client.api import JSON
from linkwise.kube.perform.bind import retry_after
from linkwise.net.http.client import SlowError
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from linkwise.kube.client.api import Connection
    from linkwise.kube.settings import PerformSettings
    from linkwise.net.http.client import Answer
    from linkwise.net.timing import RateLimit

__all__ = ["Attempts", "Fifo", "PendingPodQueue", "WriteQueue", "WriteResult", "is_gone"]

log = logging.getLogger(__name__)

_UID_MISMATCH: Final = ((409, "UID in precondition"), (422, "metadata.uid"))
"""status and text by which an eviction and a patch are refused if the pod was recreated with another UID"""

E = TypeVar("E", Wake, Evict, Condition, PolicyStatus, RankTable, Record, Steer, WriteClaim)


class Fifo(dict[str, E]):
    """Effects by the UID of their pod, first in first out."""

    def take(self, uid: str) -> E:
        """Remove and return the effect of a pod, to be written."""
        return self.pop(uid)

    def first(self, sending: Collection[str], concurrency: int) -> str | None:
        """The pod to write next, of those without a write in flight."""
        del concurrency
        return next((uid for uid in self if uid not in sending), None)


@dataclass(slots=True)
class WriteQueue(Generic[E]):
    """Queue of effects, by the UID of their pod."""

    past_tense: ClassVar[str]
    """of the write, for log lines"""
    permission: ClassVar[str] = "patch on pods"
    """the RBAC permission that the write needs"""
    role_command: ClassVar[str] = "linkwise manifests rbac"
    """prints the role that grants it"""
    attempts: Attempts
    done: Counter[str] = field(default_factory=Counter)
    """by result: written, gone, failed, and kept if there was nothing to write any more"""
    trouble: str = ""
    flushing: bool = False
    """whether the rate limit is suspended, at shutdown"""
    _queue: Fifo[E] = field(default_factory=Fifo)
    _sending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def queued(self) -> int:
        """Effects that are not written yet."""
        return len(self._queue) + len(self._sending)

    async def drained(self) -> None:
        """Wait until the queue is empty."""
        if self.queued:
            await self._idle.wait()

    def _put(self, effect: E) -> None:
        self._queue[effect.uid] = effect
        self._idle.clear()
        self._changed.set()

    async def _run(self, concurrency: int, rate: RateLimit | None = None) -> None:
        try:
            while True:
                await self._changed.wait()
                if self._next(concurrency) is None:
                    self._changed.clear()
                    continue
                if rate and not self.flushing:
                    await rate.take()
                uid = self._next(concurrency)  # chosen after the wait: a more urgent effect may have come
                if uid is not None:
                    self._sending[uid] = asyncio.create_task(self._write(self._queue.take(uid)))
        finally:
            for task in self._sending.values():
                task.cancel()

    def _next(self, concurrency: int) -> str | None:
        """UID of the pod to write next; None if the concurrency is used up or every queued pod has a write in flight."""
        if len(self._sending) >= concurrency:
            return None
        return self._queue.first(self._sending, concurrency)

    async def _write(self, effect: E) -> None:
        try:
            result = await self._send(effect)
        finally:
            del self._sending[effect.uid]
            self._changed.set()
            if not self.queued:
                self._idle.set()
        if result is None:
            self.done["kept"] += 1
        else:
            subject = f"pod={effect.namespace}/{effect.name}" if effect.namespace else f"policy={effect.name}"
            self._count(result, f"{subject} not {self.past_tense}")

    async def _send(self, effect: E) -> WriteResult | None:
        """Write one effect; None if there is nothing to write any more."""
        raise NotImplementedError

    def _count(self, result: WriteResult, subject: str) -> None:
        """Count a result; a problem is logged once and kept for /readyz."""
        if result.done or is_gone(result):
            self.done["written" if result.done else "gone"] += 1
            self.trouble = ""
            return
        self.done["failed"] += 1
        sentence = result.sentence
        if result.status == 403:
            sentence += f"; grant {self.permission} (`{self.role_command}` prints the role)"
        if sentence != self.trouble:
            log.warning("%s: %s", subject, sentence)
        self.trouble = sentence


@dataclass(slots=True)
class PendingPodQueue(WriteQueue[E]):
    """Write queue about pods without a node; a failed write is retried later, as long as its pod has none."""

    waits: Callable[[str], bool] | None = None
    """by UID: whether the pod still has no node; without it, a failed write is not retried"""
    _failed: dict[str, E] = field(default_factory=dict)
    """by UID: failed writes of pods without a newer one in the queue"""
    _retry: asyncio.Task[None] | None = None

    def tell(self, effect: E) -> None:
        """Queue an effect; it replaces one that is queued or failed for the same pod."""
        self._failed.pop(effect.uid, None)
        self._put(effect)

    async def _send(self, effect: E) -> WriteResult | None:
        result = await self._attempt(effect)
        newer = effect.uid in self._queue
        if result is None or result.done or is_gone(result) or newer or not self.waits or self.flushing:
            return result
        self._failed[effect.uid] = effect
        self._retry = self._retry or asyncio.create_task(self._retry_failed(self.waits))
        return result

    async def _attempt(self, effect: E) -> WriteResult | None:
        """Write one effect; None if there is nothing to write any more."""
        raise NotImplementedError

    async def _run_and_retry(self, concurrency: int, rate: RateLimit) -> None:
        try:
            await self._run(concurrency, rate)
        finally:
            if self._retry:
                self._retry.cancel()

    async def _retry_failed(self, waits: Callable[[str], bool]) -> None:
        await self.attempts.timing.sleep(self.attempts.settings.retry_failed)
        failed, self._failed, self._retry = self._failed, {}, None
        for uid, effect in failed.items():
            if waits(uid):
                self._put(effect)
        if not self.queued:
            self.trouble = ""  # its pods are bound or deleted


def is_gone(result: WriteResult) -> bool:
    """Whether the pod was deleted, or recreated with another UID; any other conflict is with the pod itself."""
    return result.status == 404 or any(
        result.status == code and text in result.sentence for code, text in _UID_MISMATCH
    )


# A patch without a resourceVersion conflicts only under constant writes: the API server has retried it a few times itself.
_RETRIABLE: Final = {"GET": (408, 429), "POST": (408, 429), "DELETE": (408, 429), "PATCH": (408, 409, 429)}


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The last response to a write."""

    status: int
    """0 without any response"""
    sentence: str = ""
    body: bytes = b""
    """the object, if it was written"""

    @property
    def done(self) -> bool:
        """Whether it was written."""
        return 200 <= self.status < 300


@dataclass(slots=True)
class Attempts:
    """Retries a write as the settings allow."""

    connection: Connection
    settings: PerformSettings
    timing: Timing

    async def write(
        self, method: str, path: str, body: bytes = b"", content: str = JSON, *, versioned: bool = False
    ) -> WriteResult:
        """Write until a response is final, the attempts are used up, or an outage lasts too long; the last result.

        A conflict is final if the body has the resourceVersion of the object.
        """
        backoff, started, attempts = Backoff(self.timing, first=0.2, most=10.0), self.timing.clock(), 0
        limit = self.settings.max_attempts
        while True:
            try:
                answer = await self.connection.call(method, path, body, content, self.settings.wait)
            except SlowError as error:
                # Counts as an attempt, not as an outage: the server may answer all writes but this one.
                result, pause, attempts = WriteResult(0, str(error)), 0.0, attempts + 1
                final = attempts >= limit
            except ClusterError as error:
                result, pause = WriteResult(0, str(error)), 0.0
                final = self.timing.clock() - started >= self.settings.outage
            else:
                result, pause, attempts = _result_of(answer), retry_after(answer), attempts + 1
                retriable = result.status >= 500 or result.status in _RETRIABLE[method]
                final = attempts >= limit or not retriable or (versioned and result.status == 409)
            if final:
                return result
            await backoff.wait(pause)


def _result_of(answer: Answer) -> WriteResult:
    if answer.status < 300:
        return WriteResult(answer.status, body=answer.body)
    return WriteResult(answer.status, status_of(answer.body).message or f"the API server answered {answer.status}")

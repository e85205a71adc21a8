"""Pod annotations written in the background: wake-ups of unschedulable pods, and the records of plans."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.broker.effects import Annotate, Wake
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.wake_queue import WakeQueue
from linkwise.kube.perform.write_queue import WriteQueue, is_gone
from linkwise.net.timing import RateLimit
from linkwise.wire.kubernetes.writes import annotations_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["WOKEN", "Annotator", "Waker", "timestamp"]

WOKEN: Final = "linkwise.dev/woken"
"""its value is a timestamp; any update of an unschedulable pod makes kube-scheduler requeue it"""


def timestamp(now: float) -> str:
    """A Kubernetes timestamp with microseconds: writing the same value twice would not change the pod."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


E = TypeVar("E", Wake, Annotate)


@dataclass(slots=True)
class _PatchQueue(WriteQueue[E]):
    """Patches annotations; a failed patch is retried later, as long as its pod has no node."""

    waits: Callable[[str], bool] | None = None
    """by UID: whether the pod still has no node; without it, a failed patch is not retried"""
    _failed: dict[str, E] = field(default_factory=dict)
    """by UID: failed patches of pods without a newer one in the queue"""
    _retry: asyncio.Task[None] | None = None

    def tell(self, effect: E) -> None:
        """Queue a patch; it is merged with one that is queued or failed for the same pod."""
        older = self._failed.pop(effect.uid, None) or self._queue.get(effect.uid)
        self._put(self._merge(older, effect) if older else effect)

    async def _patch(self, concurrency: int, rate: RateLimit | None = None) -> None:
        try:
            await self._run(concurrency, rate)
        finally:
            if self._retry:
                self._retry.cancel()

    async def _send(self, effect: E) -> WriteResult:
        patch = annotations_patch(effect.uid, self._annotations(effect))
        result = await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)
        if result.done or is_gone(result):
            return result
        if newer := self._queue.get(effect.uid):
            self._queue[effect.uid] = self._merge(effect, newer)
        elif self.waits and not self.flushing:
            self._failed[effect.uid] = effect
            self._retry = self._retry or asyncio.create_task(self._retry_failed(self.waits))
        return result

    async def _retry_failed(self, waits: Callable[[str], bool]) -> None:
        await self.attempts.timing.sleep(self.attempts.settings.retry_failed)
        failed, self._failed, self._retry = self._failed, {}, None
        for uid, effect in failed.items():
            if waits(uid):
                self._put(effect)
        if not self.queued:
            self.trouble = ""  # its pods are bound or deleted

    def _annotations(self, effect: E) -> Mapping[str, str | None]:
        raise NotImplementedError

    def _merge(self, older: E, newer: E) -> E:
        """One patch with the effect of both."""
        raise NotImplementedError


@dataclass(slots=True)
class Waker(_PatchQueue[Wake]):
    """Wakes pods at a limited rate, the most urgent first.

    A failed wake must be retried: the broker expects a woken pod to be scheduled again and sends no second wake.
    """

    past_tense = "woken"
    _queue: WakeQueue = field(default_factory=WakeQueue)

    async def run(self) -> None:
        """Wake queued pods, until cancelled."""
        settings = self.attempts.settings
        await self._patch(
            settings.concurrent_wakes, RateLimit(self.attempts.timing, settings.wakes, settings.wakes_burst)
        )

    def _annotations(self, effect: Wake) -> Mapping[str, str | None]:
        del effect
        return {WOKEN: timestamp(self.attempts.timing.now())}

    def _merge(self, older: Wake, newer: Wake) -> Wake:
        del older
        return newer


@dataclass(slots=True)
class Annotator(_PatchQueue[Annotate]):
    """Writes annotations, in order per pod.

    A failed removal of a plan must be retried: a service that starts later would restore the plan.
    """

    past_tense = "annotated"

    async def run(self) -> None:
        """Write queued annotations, until cancelled."""
        await self._patch(self.attempts.settings.concurrent_annotations)

    def _annotations(self, effect: Annotate) -> Mapping[str, str | None]:
        return effect.annotations

    def _merge(self, older: Annotate, newer: Annotate) -> Annotate:
        return replace(newer, annotations={**older.annotations, **newer.annotations})

"""Wake-ups of unschedulable pods: an annotation written in the background, at a limited rate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Wake
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.wake_queue import WakeQueue
from linkwise.kube.perform.write_queue import WriteQueue, is_gone
from linkwise.net.timing import RateLimit
from linkwise.wire.kubernetes.writes import annotations_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["WOKEN", "Waker", "timestamp"]

WOKEN: Final = "linkwise.dev/woken"
"""its value is a timestamp; any update of an unschedulable pod makes kube-scheduler requeue it"""


def timestamp(now: float) -> str:
    """A Kubernetes timestamp with microseconds: writing the same value twice would not change the pod."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class Waker(WriteQueue[Wake]):
    """Wakes pods, the most urgent first; a failed wake is retried later, as long as its pod has no node.

    It must be: the broker expects a woken pod to be scheduled again and sends no second wake.
    """

    past_tense = "woken"
    _queue: WakeQueue = field(default_factory=WakeQueue)
    waits: Callable[[str], bool] | None = None
    """by UID: whether the pod still has no node; without it, a failed wake is not retried"""
    _failed: dict[str, Wake] = field(default_factory=dict)
    """by UID: failed wakes of pods without a newer one in the queue"""
    _retry: asyncio.Task[None] | None = None

    def tell(self, effect: Wake) -> None:
        """Queue a wake; it replaces one that is queued or failed for the same pod."""
        self._failed.pop(effect.uid, None)
        self._put(effect)

    async def run(self) -> None:
        """Wake queued pods, until cancelled."""
        settings = self.attempts.settings
        rate = RateLimit(self.attempts.timing, settings.wakes, settings.wakes_burst)
        try:
            await self._run(settings.concurrent_wakes, rate)
        finally:
            if self._retry:
                self._retry.cancel()

    async def _send(self, effect: Wake) -> WriteResult:
        patch = annotations_patch(effect.uid, {WOKEN: timestamp(self.attempts.timing.now())})
        result = await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)
        if (
            not result.done
            and not is_gone(result)
            and effect.uid not in self._queue
            and self.waits
            and not self.flushing
        ):
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

"""Wake-ups of unschedulable pods: an annotation written in the background, at a limited rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Wake
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.wake_queue import WakeQueue
from linkwise.kube.perform.write_queue import PendingPodQueue
from linkwise.net.timing import RateLimit
from linkwise.wire.kubernetes.writes import annotations_patch

if TYPE_CHECKING:
    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["WOKEN", "Waker", "timestamp"]

WOKEN: Final = "linkwise.dev/woken"
"""its value is a timestamp; any update of an unschedulable pod makes kube-scheduler requeue it"""


def timestamp(now: float) -> str:
    """A Kubernetes timestamp with microseconds: writing the same value twice would not change the pod."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class Waker(PendingPodQueue[Wake]):
    """Wakes pods, the most urgent first; a failed wake is retried later, as long as its pod has no node.

    It must be: the broker expects a woken pod to be scheduled again and sends no second wake.
    """

    past_tense = "woken"
    _queue: WakeQueue = field(default_factory=WakeQueue)

    async def run(self) -> None:
        """Wake queued pods, until cancelled."""
        settings = self.attempts.settings
        rate = RateLimit(self.attempts.timing, settings.wakes, settings.wakes_burst)
        await self._run_and_retry(settings.concurrent_wakes, rate)

    async def _attempt(self, effect: Wake) -> WriteResult:
        patch = annotations_patch(effect.uid, {WOKEN: timestamp(self.attempts.timing.now())})
        return await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)

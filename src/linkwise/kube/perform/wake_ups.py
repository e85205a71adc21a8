"""Wake-ups of unschedulable pods: an annotation written in the background, at a limited rate, from a queue of two lines.

One line is of single pods that fit, the other of all other pods, such as members of groups, of which thousands may wait.
Each is ordered by priority and then by age, and they take turns. A single pod that fits is therefore never behind more than
one of the others, whatever their number and priority.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.broker.effects import Wake
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.write_queue import Fifo, PendingPodQueue
from linkwise.net.timing import RateLimit
from linkwise.wire.kubernetes.writes import annotations_patch

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["WOKEN", "WakeQueue", "Waker", "timestamp"]

WOKEN: Final = "linkwise.dev/woken"
"""its value is a timestamp; any update of an unschedulable pod makes kube-scheduler requeue it"""


class _Place(NamedTuple):
    """The place of a pod in its line; the smallest is first."""

    rank: int
    """the negative priority"""
    number: int
    """of the request; a pod that is queued again keeps it"""
    uid: str


class WakeQueue(Fifo[Wake]):
    """Wake-ups by the UID of their pod."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[bool, list[_Place]] = {True: [], False: []}
        """by `Wake.fits`, sorted"""
        self._places: dict[str, _Place] = {}
        self._requests = 0
        self._turn = True
        """which line is next; single pods that fit begin"""
        self._others: set[str] = set()
        """pods of the other line whose write was in flight when last looked"""

    def __setitem__(self, uid: str, effect: Wake) -> None:
        """Queue a wake-up, or replace the one of its pod."""
        number = self._leave(uid)
        self._places[uid] = place = _Place(-effect.priority, number, uid)
        insort(self._lines[effect.fits], place)
        super().__setitem__(uid, effect)

    def take(self, uid: str) -> Wake:
        """Remove and return the wake-up of a pod, to be written."""
        self._leave(uid)
        effect = super().take(uid)
        self._turn = not effect.fits
        if not effect.fits:
            self._others.add(uid)
        return effect

    def first(self, sending: Collection[str], concurrency: int) -> str | None:
        """The pod to wake next.

        Single pods that fit have half of the writes to themselves: a webhook that hangs in the namespace of a large group
        delays no pod of another namespace.
        """
        self._others.intersection_update(sending)
        full = len(self._others) >= max(1, concurrency // 2)
        lines = [True] if full else [self._turn, not self._turn]
        return next((place.uid for line in lines for place in self._lines[line] if place.uid not in sending), None)

    def _leave(self, uid: str) -> int:
        """Remove a pod from its line; the number of its request, or that of a new one."""
        place = self._places.pop(uid, None)
        if place is None:
            self._requests += 1
            return self._requests
        line = self._lines[self[uid].fits]
        del line[bisect_left(line, place)]
        return place.number


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

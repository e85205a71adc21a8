"""Steerer: writes the plan of a gang on its pending members and removes their scheduling gate, in the background.

Two requests per member. The first writes the nomination to the status and returns the pod as it is; the second writes the
annotation and removes the gate in one patch that is refused if the pod has changed since. So no gate of others is lost, a pod
that was bound meanwhile is left alone, and repeating both is harmless. For a pod of Volcano the patch restricts its node affinity, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.broker.effects import Steer
from linkwise.errors import InputError
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.write_queue import PendingPodQueue, WriteResult
from linkwise.net.timing import RateLimit
from linkwise.wire.kubernetes.objects import decode_pod
from linkwise.wire.kubernetes.writes import gates_patch, nomination_patch, pinned_terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.views import PodView

__all__ = ["Steerer"]


@dataclass(slots=True)
class Steerer(PendingPodQueue[Steer]):
    """Writes plans in the order in which they come: a gang by rank, and before the next gang."""

    past_tense = "steered"
    permission = "patch on pods and pods/status"
    ungated: Callable[[float], None] = lambda _: None
    """called with the seconds from the complete gang to the removed gate"""

    async def run(self) -> None:
        """Write queued plans, until cancelled."""
        settings = self.attempts.settings
        rate = RateLimit(self.attempts.timing, settings.steers, settings.steers_burst)
        await self._run_and_retry(settings.concurrent_steers, rate)

    async def _attempt(self, effect: Steer) -> WriteResult | None:
        path = pod_path(effect.namespace, effect.name)
        result: WriteResult | None = None
        for _ in range(self.attempts.settings.steer_conflicts):
            first = await self._nominate(path, effect)
            if not first.done:
                return first
            try:
                pod = decode_pod(first.body)
            except InputError as error:
                return WriteResult(0, str(error))
            if _is_outdated(effect, pod):
                return None
            if _is_done(effect, pod):
                return first
            gates = [gate for gate in pod.gates if gate != effect.gate] if effect.gate in pod.gates else None
            terms = pinned_terms(first.body, effect.pin) if effect.pin else ()
            patch = gates_patch(effect.uid, pod.version, effect.annotations, gates, terms)
            result = await self.attempts.write("PATCH", path, patch, MERGE, versioned=True)
            if result.status != 409:
                break
        if result and result.done and effect.gate and effect.since:
            self.ungated(max(0.0, self.attempts.timing.now() - effect.since))
        return result

    async def _nominate(self, path: str, effect: Steer) -> WriteResult:
        if effect.node is None:
            return await self.attempts.write("GET", path)
        patch = nomination_patch(effect.uid, effect.node)
        return await self.attempts.write("PATCH", f"{path}/status", patch, MERGE)


def _is_outdated(effect: Steer, pod: PodView) -> bool:
    """Whether it is another pod, it has a node by now, or it can't be pinned any more because an earlier plan ungated it."""
    ungated = effect.pin and effect.gate not in pod.gates and not _is_done(effect, pod)
    return bool(pod.uid != effect.uid or pod.node or pod.deleting or ungated)


def _is_done(effect: Steer, pod: PodView) -> bool:
    """Whether the pod has all that is written by the second request."""
    there = all(pod.annotations.get(key, "") == text for key, text in effect.annotations.items())
    return there and effect.gate not in pod.gates

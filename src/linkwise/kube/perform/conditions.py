"""Writes the condition of pending pods to their status, in the background.

A strategic merge patch merges conditions by their type, so those of kube-scheduler and of the kubelet stay as they are. The
newest condition of a pod counts: one that waits in the queue is replaced. The sender limits the rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.broker.effects import Condition
from linkwise.kube.client.api import STRATEGIC
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.write_queue import WriteQueue
from linkwise.wire.kubernetes.writes import condition_patch

if TYPE_CHECKING:
    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["ConditionWriter"]


@dataclass(slots=True)
class ConditionWriter(WriteQueue[Condition]):
    """Writes conditions, one request in flight per pod."""

    past_tense = "given its condition"
    permission = "patch on pods/status"

    def tell(self, effect: Condition) -> None:
        """Queue a condition."""
        self._put(effect)

    async def run(self) -> None:
        """Write queued conditions, until cancelled."""
        await self._run(self.attempts.settings.concurrent_conditions)

    async def _send(self, effect: Condition) -> WriteResult:
        path = f"{pod_path(effect.namespace, effect.name)}/status"
        return await self.attempts.write("PATCH", path, condition_patch(effect.uid, effect.condition), STRATEGIC)

"""Recorder of devices: writes the annotations of a grant on a pod that another scheduler has bound, in the background.

The broker sends the effect again until the pod is observed with its annotations, so a failed write is not retried here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.broker.effects import Record
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.write_queue import WriteQueue
from linkwise.wire.kubernetes.writes import annotations_patch

if TYPE_CHECKING:
    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["GrantRecorder"]


@dataclass(slots=True)
class GrantRecorder(WriteQueue[Record]):
    """Writes records, one request in flight per pod."""

    past_tense = "given the record of its devices"

    def tell(self, effect: Record) -> None:
        """Queue a record; it replaces one that is queued for the same pod."""
        self._put(effect)

    async def run(self) -> None:
        """Write queued records, until cancelled."""
        await self._run(self.attempts.settings.concurrent_records)

    async def _send(self, effect: Record) -> WriteResult:
        patch = annotations_patch(effect.uid, effect.annotations)
        return await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)

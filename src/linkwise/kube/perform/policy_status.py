"""Status writer: writes the status of AcceleratorPolicies, the latest of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from linkwise.broker.effects import PolicyStatus
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.write_queue import WriteQueue
from linkwise.wire.kubernetes.writes import status_patch

if TYPE_CHECKING:
    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["StatusWriter"]


@dataclass(slots=True)
class StatusWriter(WriteQueue[PolicyStatus]):
    """Writes statuses one after the other; one that fails is made again by the service."""

    past_tense = "reported"
    permission = "patch on acceleratorpolicies/status"

    def tell(self, effect: PolicyStatus) -> None:
        """Queue a status; it replaces one that is queued for the same policy."""
        self._put(effect)

    async def run(self) -> None:
        """Write queued statuses, until cancelled."""
        await self._run(1)

    async def _send(self, effect: PolicyStatus) -> WriteResult:
        path = f"/apis/linkwise.dev/v1alpha1/acceleratorpolicies/{quote(effect.name, safe='')}/status"
        return await self.attempts.write("PATCH", path, status_patch(effect.status), MERGE)

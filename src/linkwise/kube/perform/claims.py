"""Writer of ResourceClaims that name the planned devices of pods.

The spec of a claim can't be changed. Another plan is written by deleting the claim, with its UID and resourceVersion as
preconditions, and creating it again under the same name. A claim that is allocated by then stays: its devices are in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from linkwise.broker.effects import WriteClaim
from linkwise.dialects.kubernetes.claims.objects import PLAN
from linkwise.errors import InputError
from linkwise.kube.perform.write_queue import PendingPodQueue, WriteResult
from linkwise.net.timing import RateLimit
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.writes import encode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ClaimWriter"]

_REFUSED: Final = (400, 403, 422)
"""the claim is not permitted: by a quota, an admission policy, its limits, or RBAC"""


@dataclass(slots=True)
class ClaimWriter(PendingPodQueue[WriteClaim]):
    """Writes claims, one request in flight per pod."""

    past_tense = "given its claim"
    permission = "create and delete on resourceclaims"
    refused: Callable[[str, str], None] = lambda _uid, _sentence: None
    """called with the UID of a pod and the answer of the API server, if it refused to create the claim"""

    async def run(self) -> None:
        """Write queued claims, until cancelled."""
        settings = self.attempts.settings
        rate = RateLimit(self.attempts.timing, settings.steers, settings.steers_burst)
        await self._run_and_retry(settings.concurrent_steers, rate)

    async def _attempt(self, effect: WriteClaim) -> WriteResult | None:
        claims = f"/apis/resource.k8s.io/v1/namespaces/{quote(effect.namespace, safe='')}/resourceclaims"
        place = f"{claims}/{quote(effect.claim, safe='')}"
        result: WriteResult | None = None
        for _ in range(self.attempts.settings.steer_conflicts):
            if effect.text:
                result = await self._create(claims, effect)
                if result.status != 409:
                    return result
            result, final = await self._make_room(place, effect)
            if final:
                return result
        return result

    async def _create(self, claims: str, effect: WriteClaim) -> WriteResult:
        result = await self.attempts.write("POST", claims, effect.text.encode())
        if result.status in _REFUSED:
            self.refused(effect.uid, result.sentence)
        return result

    async def _make_room(self, place: str, effect: WriteClaim) -> tuple[WriteResult | None, bool]:
        """Delete what has the name of the claim; return the result, and whether it is final."""
        found = await self.attempts.write("GET", place)
        if not found.done:
            gone = found.status == 404
            return (None if gone else found), not (gone and effect.text)
        known = _Known.of(found.body)
        if known.pod != effect.uid:
            return WriteResult(0, f"ResourceClaim {effect.claim} was not created for this pod; delete it"), True
        if effect.text and known.plan == _Known.of(effect.text.encode()).plan:
            return found, True
        if known.allocated:
            return None, True
        options = {"preconditions": {"uid": known.uid, "resourceVersion": known.version}}
        result = await self.attempts.write("DELETE", place, encode(options), versioned=True)
        again = result.status in {404, 409} or (result.done and bool(effect.text))
        return result, not again


@dataclass(frozen=True, slots=True)
class _Known:
    """A claim, as far as it decides whether it is replaced."""

    uid: str
    version: str
    pod: str
    """UID of the pod that controls it"""
    plan: object
    allocated: bool

    @classmethod
    def of(cls, body: bytes) -> _Known:
        try:
            document = decode_as(body, dict[str, Any])
        except InputError:
            document = {}
        meta, status = _part(document, "metadata"), _part(document, "status")
        owners = meta.get("ownerReferences")
        pods = [
            str(owner.get("uid"))
            for owner in (owners if isinstance(owners, list) else ())
            if isinstance(owner, dict) and owner.get("controller") is True
        ]
        plan = _part(meta, "annotations").get(PLAN)
        return cls(
            str(meta.get("uid", "")),
            str(meta.get("resourceVersion", "")),
            pods[0] if pods else "",
            plan,
            bool(status.get("allocation")),
        )


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}

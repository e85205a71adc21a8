"""Evictor: evicts pods at a limited rate, and only as long as the broker wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Evict
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.write_queue import Attempts, WriteQueue, is_gone
from linkwise.net.timing import Backoff, RateLimit
from linkwise.wire.kubernetes.writes import eviction

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["Evictor"]

_RETRIABLE: Final = (0, 408, 409, 429)
"""no response, a pod that changed in the meantime, a disruption budget without allowed disruptions"""


@dataclass(slots=True)
class Evictor(WriteQueue[Evict]):
    """Evicts pods; checks before every attempt whether the pod is still to be evicted."""

    past_tense = "evicted"
    permission = "create on pods/eviction"
    role_command = "linkwise manifests rbac"
    version_of: Callable[[str], int | None] = lambda _: 0
    """by UID: the resourceVersion of a pod that is still to be evicted, 0 if unknown, None if it is not"""
    given_up: Callable[[str], None] = lambda _: None
    """called with the UID of a pod that was not evicted, so that its eviction can be requested again"""

    def tell(self, effect: Evict) -> None:
        """Queue an eviction; a pod is queued once."""
        if effect.uid not in self._queue:
            self._put(effect)

    async def run(self) -> None:
        """Evict queued pods, until cancelled."""
        settings = self.attempts.settings
        rate = RateLimit(self.attempts.timing, settings.evictions, settings.evictions_burst)
        await self._run(settings.concurrent_evictions, rate)

    async def _send(self, effect: Evict) -> WriteResult | None:
        result = await self._evict(effect)
        if result is None or not (result.done or is_gone(result)):
            self.given_up(effect.uid)
        return result

    async def _evict(self, effect: Evict) -> WriteResult | None:
        single = self._single_attempt()
        path = f"{pod_path(effect.namespace, effect.name)}/eviction"
        backoff = Backoff(single.timing, first=1.0, most=60.0)
        for left in reversed(range(single.settings.evict_attempts)):
            version = self.version_of(effect.uid)
            if version is None:
                return None
            # With the resourceVersion as a precondition: a container that starts in the meantime changes it.
            result = await single.write("POST", path, eviction(effect.namespace, effect.name, effect.uid, version))
            retriable = result.status >= 500 or result.status in _RETRIABLE
            if not retriable or is_gone(result):
                return result
            if not left or self.flushing:
                break
            await backoff.wait()
        return result

    def _single_attempt(self) -> Attempts:
        """Attempts without retries: the eviction must be checked again before each one."""
        attempts = self.attempts
        return Attempts(attempts.connection, replace(attempts.settings, max_attempts=1, outage=0.0), attempts.timing)

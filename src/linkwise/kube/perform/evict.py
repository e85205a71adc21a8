"""Pods that are sent away: asked for at a limited rate, and only as long as nothing of them has run."""

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

_LATER: Final = (0, 408, 409, 429)
"""no answer, a pod that changed meanwhile, a disruption budget that allows nothing now"""


@dataclass(slots=True)
class Evictor(WriteQueue[Evict]):
    """Evicts pods; before every try it is asked whether that is still wanted."""

    word = "evicted"
    right = "create on pods/eviction"
    role = "linkwise manifests rbac --evict"
    version_of: Callable[[str], int | None] = lambda _: 0
    """by UID the version of a pod that is still to be evicted, 0 if it has none, None if it is not"""
    given_up: Callable[[str], None] = lambda _: None
    """told of a pod that is there and is not evicted: it may be asked for again"""

    def tell(self, effect: Evict) -> None:
        """Evict a pod soon; whoever is in line keeps its place."""
        if effect.uid not in self._line:
            self._put(effect)

    async def run(self) -> None:
        """Evict whoever is told, until cancelled."""
        settings = self.attempts.settings
        bucket = RateLimit(self.attempts.timing, settings.evictions, settings.evictions_burst)
        await self._run(settings.evicting, bucket)

    async def _send(self, effect: Evict) -> WriteResult | None:
        given = await self._tried(effect)
        if given is None or not (given.done or is_gone(given)):
            self.given_up(effect.uid)
        return given

    async def _tried(self, effect: Evict) -> WriteResult | None:
        once = self._once()
        path = f"{pod_path(effect.namespace, effect.name)}/eviction"
        backoff = Backoff(once.timing, first=1.0, most=60.0)
        for left in reversed(range(once.settings.evict_tries)):
            version = self.version_of(effect.uid)
            if version is None:
                return None
            # The version as well: a container that begins to run while this is under way changes it.
            given = await once.write("POST", path, eviction(effect.namespace, effect.name, effect.uid, version))
            again = given.status >= 500 or given.status in _LATER
            if not again or is_gone(given):
                return given
            if not left or self.hurried:
                break
            await backoff.wait()
        return given

    def _once(self) -> Attempts:
        """One try at a time: what is known may change between two."""
        found = self.attempts
        return Attempts(found.connection, replace(found.settings, tries=1, outage=0.0), found.timing)

"""Annotations of pods written off the hot path: one that wakes a refused pod, and those that plans need."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.broker.effects import Annotate, Wake
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.write_queue import WriteQueue, is_gone
from linkwise.net.timing import RateLimit
from linkwise.wire.kubernetes.writes import annotations_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["WOKEN", "Annotator", "Waker", "timestamp"]

WOKEN: Final = "linkwise.dev/woken"
"""its value says when; any change of a waiting pod makes the scheduler try it again"""


def timestamp(now: float) -> str:
    """As Kubernetes writes times, with microseconds: the same text twice would change nothing."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Told = TypeVar("Told", Wake, Annotate)


@dataclass(slots=True)
class _Patches(WriteQueue[Told]):
    """Patches annotations of pods; what could not be written is written later, as long as its pod waits."""

    waits: Callable[[str], bool] | None = None
    """by UID whether a pod still has no node; if nobody can tell, a write that failed is over"""
    _failed: dict[str, Told] = field(default_factory=dict)
    """by UID, of pods about which nothing newer is in line"""
    _later: asyncio.Task[None] | None = None

    def tell(self, effect: Told) -> None:
        """Write soon; whoever is in line keeps its place, and what waits for the same pod is written with it."""
        older = self._failed.pop(effect.uid, None) or self._line.get(effect.uid)
        self._put(self._joined(older, effect) if older else effect)

    async def _patch(self, at_once: int, bucket: RateLimit | None = None) -> None:
        try:
            await self._run(at_once, bucket)
        finally:
            if self._later:
                self._later.cancel()

    async def _send(self, effect: Told) -> WriteResult:
        patch = annotations_patch(effect.uid, self._annotations(effect))
        given = await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)
        if given.done or is_gone(given):
            return given
        if newer := self._line.get(effect.uid):
            self._line[effect.uid] = self._joined(effect, newer)
        elif self.waits and not self.hurried:
            self._failed[effect.uid] = effect
            self._later = self._later or asyncio.create_task(self._try_again(self.waits))
        return given

    async def _try_again(self, waits: Callable[[str], bool]) -> None:
        await self.attempts.timing.sleep(self.attempts.settings.again)
        failed, self._failed, self._later = self._failed, {}, None
        for uid, effect in failed.items():
            if waits(uid):
                self._put(effect)
        if not self.queued:
            self.trouble = ""  # whom it was about is placed, or gone

    def _annotations(self, effect: Told) -> Mapping[str, str | None]:
        raise NotImplementedError

    def _joined(self, older: Told, newer: Told) -> Told:
        """What is written where one was not yet when the other was told."""
        raise NotImplementedError


@dataclass(slots=True)
class Waker(_Patches[Wake]):
    """Wakes pods at a limited rate; a pod waits in line once.

    A wake that is lost is not made up for by another: whoever was woken counts as about to ask.
    """

    word = "woken"

    async def run(self) -> None:
        """Wake whoever is told, until cancelled."""
        settings = self.attempts.settings
        await self._patch(settings.waking, RateLimit(self.attempts.timing, settings.wakes, settings.wakes_burst))

    def _annotations(self, effect: Wake) -> Mapping[str, str | None]:
        del effect
        return {WOKEN: timestamp(self.attempts.timing.now())}

    def _joined(self, older: Wake, newer: Wake) -> Wake:
        del older
        return newer


@dataclass(slots=True)
class Annotator(_Patches[Annotate]):
    """Writes annotations, of one pod in the order in which they were told.

    A plan that could not be taken away would be believed by whoever starts anew.
    """

    word = "annotated"

    async def run(self) -> None:
        """Write whatever is told, until cancelled."""
        await self._patch(self.attempts.settings.annotating)

    def _annotations(self, effect: Annotate) -> Mapping[str, str | None]:
        return effect.annotations

    def _joined(self, older: Annotate, newer: Annotate) -> Annotate:
        return replace(newer, annotations={**older.annotations, **newer.annotations})

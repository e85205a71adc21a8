"""Annotations of pods written off the hot path: one that wakes a refused pod, and those that plans need."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.broker.effects import Annotate, Wake
from linkwise.kube.binding import pod_path
from linkwise.kube.connection import MERGE
from linkwise.kube.in_line import Line, is_gone
from linkwise.kube.timing import Bucket
from linkwise.wire.api_writes import annotations_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.kube.attempts import Given

__all__ = ["WOKEN", "Annotator", "Waker", "timestamp"]

WOKEN: Final = "linkwise.dev/woken"
"""its value says when; any change of a waiting pod makes the scheduler try it again"""


def timestamp(now: float) -> str:
    """As Kubernetes writes times, with microseconds: the same text twice would change nothing."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Told = TypeVar("Told", Wake, Annotate)


class _Patches(Line[Told]):
    """Patches annotations of pods."""

    async def _patched(self, effect: Told) -> Given:
        patch = annotations_patch(effect.uid, self._annotations(effect))
        return await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)

    def _annotations(self, effect: Told) -> Mapping[str, str | None]:
        raise NotImplementedError


@dataclass(slots=True)
class Waker(_Patches[Wake]):
    """Wakes pods at a limited rate; a pod waits in line once.

    A wake that is lost is not made up for by another: whoever was woken counts as about to ask. So who could not be woken
    is woken later, as long as it waits.
    """

    word = "woken"
    waits: Callable[[str], bool] | None = None
    """by UID whether a pod still has no node; if nobody can tell, a wake that failed is over"""
    _failed: dict[str, Wake] = field(default_factory=dict)
    _later: asyncio.Task[None] | None = None

    def tell(self, effect: Wake) -> None:
        """Wake a pod soon; whoever is in line keeps its place."""
        if effect.uid not in self._line:
            self._put(effect)

    async def run(self) -> None:
        """Wake whoever is told, until cancelled."""
        settings = self.attempts.settings
        try:
            await self._run(settings.waking, Bucket(self.attempts.timing, settings.wakes, settings.wakes_burst))
        finally:
            if self._later:
                self._later.cancel()

    async def _send(self, effect: Wake) -> Given:
        given = await self._patched(effect)
        if self.waits and not self.hurried and not (given.done or is_gone(given)):
            self._failed[effect.uid] = effect
            self._later = self._later or asyncio.create_task(self._wake_again(self.waits))
        return given

    async def _wake_again(self, waits: Callable[[str], bool]) -> None:
        await self.attempts.timing.sleep(self.attempts.settings.wake_again)
        failed, self._failed, self._later = self._failed, {}, None
        still = [effect for uid, effect in failed.items() if waits(uid)]
        for effect in still:
            self.tell(effect)
        if not still:
            self.trouble = ""  # whom it was about is placed, or gone

    def _annotations(self, effect: Wake) -> Mapping[str, str | None]:
        del effect
        return {WOKEN: timestamp(self.attempts.timing.now())}


class Annotator(_Patches[Annotate]):
    """Writes annotations, of one pod in the order in which they were told."""

    word = "annotated"

    def tell(self, effect: Annotate) -> None:
        """Write annotations soon; what waits for the same pod is written with them."""
        before = self._line.get(effect.uid)
        joined = replace(effect, annotations={**before.annotations, **effect.annotations}) if before else effect
        self._put(joined)

    async def run(self) -> None:
        """Write whatever is told, until cancelled."""
        await self._run(self.attempts.settings.annotating)

    async def _send(self, effect: Annotate) -> Given:
        return await self._patched(effect)

    def _annotations(self, effect: Annotate) -> Mapping[str, str | None]:
        return effect.annotations

"""Reflector that follows one kind of a scripted API server in the background and records its events."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from linkwise.kube.settings import WatchSettings
from linkwise.kube.watch.kinds import PODS
from linkwise.kube.watch.reflector import Reflector
from linkwise.model.views import NodeView, PodView
from support.fakes.scripted_api import FakeTime, Reply, play, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.kinds import WatchedKind
    from support.fakes.scripted_api import ScriptedApi

__all__ = ["GONE", "LIST", "LOOK", "WATCH", "Seen", "follow", "node", "pod"]

LIST: Final = "GET /api/v1/pods"
LOOK: Final = "LOOK /api/v1/pods"
WATCH: Final = "WATCH /api/v1/pods"
GONE: Final = Reply(410, {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


def pod(name: str, version: int = 1, node: str = "") -> dict[str, Any]:
    """A pod as the API server shows it."""
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}}


def node(name: str, version: int = 1) -> dict[str, Any]:
    """A node as the API server shows it."""
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


class Seen:
    """Follows one source in the background and keeps what it shows."""

    def __init__(
        self,
        connection: Connection,
        source: WatchedKind = PODS,
        settings: WatchSettings | None = None,
        known: Callable[[], set[str]] | None = None,
        check: Callable[[list[WatchEvent]], object] = id,
    ) -> None:
        self.batches: list[list[WatchEvent]] = []
        self.check = check
        self.time = FakeTime()
        self.reflector = Reflector(
            connection=connection,
            source=source,
            sink=self.take_in,
            settings=settings or WatchSettings(),
            timing=self.time.timing,
            known=known,
            path=f"/api/v1/{source.resource}",
        )
        self.task = asyncio.create_task(self.reflector.run())

    def take_in(self, sights: list[WatchEvent]) -> None:
        """Keep what is shown, unless the check raises."""
        self.check(sights)
        self.batches.append(sights)

    @property
    def sights(self) -> list[WatchEvent]:
        """All that was shown so far."""
        return [sight for batch in self.batches for sight in batch]

    def names(self) -> list[str]:
        """Pods and nodes among it, in order."""
        return [sight.name for sight in self.sights if isinstance(sight, PodView | NodeView)]

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until it holds, or raise what ended the following."""
        await until(lambda: self.task.done() or holds())
        if self.task.done():
            await self.task

    async def end(self) -> None:
        """Follow no longer."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


def follow(  # noqa: PLR0913 - a builder: every field but two has a default
    scripts: Mapping[str, tuple[Reply, ...]],
    holds: Callable[[Seen, ScriptedApi], object],
    source: WatchedKind = PODS,
    settings: WatchSettings | None = None,
    *,
    known: Callable[[], set[str]] | None = None,
    check: Callable[[list[WatchEvent]], object] = id,
) -> tuple[Seen, ScriptedApi]:
    """Follow a source until something holds; what `check` raises, the sink does."""

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[Seen, ScriptedApi]:
        for asked, replies in scripts.items():
            api.script(asked, *replies)
        seen = Seen(connection, source, settings, known, check)
        try:
            await seen.until(lambda: holds(seen, api))
        finally:
            await seen.end()
        return seen, api

    return play(scenario)

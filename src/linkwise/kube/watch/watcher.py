"""Watcher: one reflector per watched kind; kinds that are not served or forbidden are searched for again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError
from linkwise.kube.client.discovery import find_path, prunes_topologies
from linkwise.kube.errors import AbsentError, ForbiddenError, OtherReleaseError, RestoredError
from linkwise.kube.settings import WatchSettings
from linkwise.kube.watch.kinds import KOORDINATOR_DEVICE, SOURCES
from linkwise.kube.watch.reflector import Reflector
from linkwise.net.timing import Backoff, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.kinds import WatchedKind
    from linkwise.kube.watch.reflector import Stats

__all__ = ["Watching"]

log = logging.getLogger(__name__)

_PRUNED: Final = (
    "the installed CRD of Koordinator's Device drops spec.topologies: link matrices written there are lost;"
    " use DeviceInventory objects, or a CRD whose schema has the field"
)

_SCHEMA_ATTEMPTS: Final = 10  # the check is optional: a server that never publishes the schema is not asked for ever


@dataclass(slots=True)
class Watching:
    """Watches the cluster and delivers all events to one sink."""

    connection: Connection
    sink: Callable[[list[WatchEvent]], None]
    """called on the event loop; must not block"""
    known: Callable[[], Collection[str]] | None = None
    """UIDs of all pods the receiver knows: a list can't show the deletion of pods that appear while it is read"""
    settings: WatchSettings = field(default_factory=WatchSettings)
    timing: Timing = field(default_factory=Timing)
    sources: Sequence[WatchedKind] = SOURCES
    _reflectors: list[Reflector] = field(init=False)
    _skipped: set[str] = field(default_factory=set)
    """optional kinds that are not served or forbidden; startup does not wait for them"""
    _forbidden: dict[str, tuple[int, float]] = field(default_factory=dict)
    """by kind: the number of lists before it was forbidden, and since when it is"""
    _advice: dict[str, str] = field(default_factory=dict)
    """warnings about kinds that are watched successfully"""
    _started: float | None = None
    _synced: bool = False

    def __post_init__(self) -> None:
        self._reflectors = [
            Reflector(
                connection=self.connection,
                source=source,
                sink=self.sink,
                settings=self.settings,
                timing=self.timing,
                known=self.known if source.by_uid else None,
            )
            for source in self.sources
        ]

    @property
    def stats(self) -> Mapping[str, Stats]:
        """Counters and problems, by resource."""
        return {reflector.source.name: reflector.stats for reflector in self._reflectors}

    @property
    def synced(self) -> bool:
        """Whether every kind was listed once; optional kinds that fail delay it only for the startup grace period."""
        if not self._synced and self._started is not None:
            overdue = self.timing.clock() - self._started >= self.settings.startup_grace
            self._synced = all(self._is_synced(reflector, overdue=overdue) for reflector in self._reflectors)
        return self._synced

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems for an operator to look at, as sentences."""
        sentences = [*self._advice.values()]
        for reflector in self._reflectors:
            stats, name = reflector.stats, reflector.source.name
            if stats.trouble:
                sentences.append(f"{name}: {stats.trouble}")
            sentences += [f"{name} {which} can't be read: {why}" for which, why in stats.unreadable.items()]
        return tuple(sentences)

    async def run(self) -> None:
        """Watch until cancelled.

        ClusterError if a required kind is forbidden, if etcd was restored from a backup, or if the CustomResourceDefinitions of
        Linkwise are of a release that this one can't read.
        """
        self._started = self.timing.clock()
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector in self._reflectors:
                    tasks.create_task(self._keep_watching(reflector), name=f"watch {reflector.source.name}")
        except ExceptionGroup as group:
            raise group.exceptions[0] from group

    async def list_pods(self) -> None:
        """List all pods by a quorum read that begins now, and return when they are delivered."""
        await asyncio.gather(*(reflector.list_now() for reflector in self._reflectors if reflector.source.by_uid))

    def _is_synced(self, reflector: Reflector, *, overdue: bool) -> bool:
        source, stats = reflector.source, reflector.stats
        skipped = source.name in self._skipped or (overdue and stats.trouble != "")
        return stats.synced or (not source.required and skipped)

    def _required_are_healthy(self) -> bool:
        """Whether every required kind is being watched now."""
        required = [reflector.stats for reflector in self._reflectors if reflector.source.required]
        return all(stats.synced and not stats.trouble for stats in required)

    async def _keep_watching(self, reflector: Reflector) -> None:
        source, stats, backoff = reflector.source, reflector.stats, Backoff(self.timing)
        while True:
            lists = stats.lists
            try:
                await self._watch_if_served(reflector)
            except ForbiddenError as error:
                self._report(reflector, str(error))
                if self._retry_forbidden(reflector, error):
                    await backoff.wait()
                    continue
            except (OtherReleaseError, RestoredError):
                raise
            except ClusterError as error:
                # The required kinds report an unreachable API server; the others need not repeat it.
                level = logging.INFO if self._required_are_healthy() else logging.DEBUG
                self._report(reflector, f"discovery failed: {error}", level)
                await backoff.wait()
                continue
            self._skipped.add(source.name)
            if stats.lists > lists or not stats.synced:
                backoff.reset()
            if stats.synced:
                await backoff.wait()  # a kind that was served is likely to come back: its CRD may be being replaced
            else:
                await self.timing.sleep(self.settings.rediscovery * (0.5 + self.timing.chance()))

    async def _watch_if_served(self, reflector: Reflector) -> None:
        """Returns once the API server does not serve the kind."""
        reflector.path = await find_path(self.connection, reflector.source, self.settings.wait)
        if reflector.path:
            schema_check = asyncio.create_task(self._check_schema(reflector))
            try:
                await reflector.run()
            except AbsentError:
                log.warning("resource=%s is no longer served: its objects are deleted", reflector.source.name)
                reflector.delete_all()
            finally:
                schema_check.cancel()
        elif reflector.source.only:
            reflector.delete_all()
        self._advice.pop(reflector.source.name, None)
        reflector.stats.trouble = ""

    def _retry_forbidden(self, reflector: Reflector, error: ForbiddenError) -> bool:
        """Whether to retry soon: an API server that has just started has not loaded its roles yet."""
        source, stats, now = reflector.source, reflector.stats, self.timing.clock()
        if source.required:
            if not stats.synced and now - (self._started or 0.0) >= self.settings.startup_grace:
                raise ClusterError(f"{self.connection.server}: {error}") from error
            return True
        if all(other.stats.synced for other in self._reflectors if other.source.required):
            self._skipped.add(source.name)  # roles are loaded, so startup need not wait for this kind
        lists, since = self._forbidden.get(source.name, (-1, now))
        since = since if lists == stats.lists else now  # it was allowed in between
        self._forbidden[source.name] = (stats.lists, since)
        return now - since < self.settings.startup_grace

    async def _check_schema(self, reflector: Reflector) -> None:
        """Warn about a CRD that prunes fields; its schema is published some time after the kind is served."""
        if reflector.source.name != KOORDINATOR_DEVICE.name:
            return
        backoff, pruned = Backoff(self.timing, first=1.0), None
        for _ in range(_SCHEMA_ATTEMPTS):
            with contextlib.suppress(ClusterError):  # the check is optional
                pruned = await prunes_topologies(self.connection, reflector.path, self.settings.wait)
            if pruned is not None:
                break
            await backoff.wait()
        if pruned:
            log.warning("resource=%s %s", reflector.source.name, _PRUNED)
            self._advice[reflector.source.name] = _PRUNED

    def _report(self, reflector: Reflector, sentence: str, level: int = logging.WARNING) -> None:
        """Log a problem once and keep it for /readyz."""
        if reflector.stats.trouble != sentence:
            log.log(level, "resource=%s %s", reflector.source.name, sentence)
        reflector.stats.trouble = sentence

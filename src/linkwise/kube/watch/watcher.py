"""All sources followed at once; those that are not there are looked for again, and those not allowed are said once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError
from linkwise.kube.client.discovery import find_path, prunes_topologies
from linkwise.kube.errors import AbsentError, ForbiddenError, RestoredError
from linkwise.kube.settings import WatchSettings
from linkwise.kube.watch.kinds import KOORDINATOR_DEVICE, PODS, SOURCES
from linkwise.kube.watch.reflector import Reflector
from linkwise.net.timing import Backoff, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.event_reader import Stats
    from linkwise.kube.watch.kinds import WatchedKind

__all__ = ["Watching"]

log = logging.getLogger(__name__)

_PRUNED: Final = (
    "the installed Device kind of Koordinator drops spec.topologies: matrices written there are lost;"
    " use DeviceInventory objects, or a CRD whose schema has the field"
)

_LOOKS: Final = 10


@dataclass(slots=True)
class Watching:
    """Follows the cluster and hands on what it sees."""

    connection: Connection
    sink: Callable[[list[WatchEvent]], None]
    """is called on the loop, and must not wait"""
    known: Callable[[], Collection[str]] | None = None
    """UIDs of all pods that whoever is behind the sink knows of: a list tells nothing of those who came while it was read"""
    settings: WatchSettings = field(default_factory=WatchSettings)
    timing: Timing = field(default_factory=Timing)
    sources: Sequence[WatchedKind] = SOURCES
    _reflectors: list[Reflector] = field(init=False)
    _decided: set[str] = field(default_factory=set)
    """sources that were found not to be there, or not to be allowed"""
    _refused: dict[str, tuple[int, float]] = field(default_factory=dict)
    """how often a source was listed before it was refused, and since when it is"""
    _advice: dict[str, str] = field(default_factory=dict)
    """what works, but not as people may think"""
    _begin: float | None = None
    _synced: bool = False

    def __post_init__(self) -> None:
        self._reflectors = [
            Reflector(
                connection=self.connection,
                source=source,
                sink=self.sink,
                settings=self.settings,
                timing=self.timing,
                known=self.known if source is PODS else None,
            )
            for source in self.sources
        ]

    @property
    def stats(self) -> Mapping[str, Stats]:
        """What happened so far, by source."""
        return {reflector.source.name: reflector.stats for reflector in self._reflectors}

    @property
    def synced(self) -> bool:
        """Whether all that is there was listed once; what is not required and fails is not waited for without end."""
        if not self._synced and self._begin is not None:
            late = self.timing.clock() - self._begin >= self.settings.patience
            self._synced = all(self._is_settled(reflector, late=late) for reflector in self._reflectors)
        return self._synced

    @property
    def problems(self) -> tuple[str, ...]:
        """What a person should look at, as sentences."""
        found = [*self._advice.values()]
        for reflector in self._reflectors:
            stats, name = reflector.stats, reflector.source.name
            if stats.trouble:
                found.append(f"{name}: {stats.trouble}")
            found += [f"{name} {which} can't be read: {why}" for which, why in stats.unreadable.items()]
        return tuple(found)

    async def run(self) -> None:
        """Follow everything until cancelled; ClusterError if what is required may not be read, or is of an earlier time."""
        self._begin = self.timing.clock()
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector in self._reflectors:
                    tasks.create_task(self._follow(reflector), name=f"watch {reflector.source.name}")
        except ExceptionGroup as group:
            raise group.exceptions[0] from group

    def _is_settled(self, reflector: Reflector, *, late: bool) -> bool:
        source, stats = reflector.source, reflector.stats
        given_up = source.name in self._decided or (late and stats.trouble != "")
        return stats.synced or (not source.required and given_up)

    def _is_well(self) -> bool:
        """Whether all that is required is followed now."""
        required = [found.stats for found in self._reflectors if found.source.required]
        return all(stats.synced and not stats.trouble for stats in required)

    async def _follow(self, reflector: Reflector) -> None:
        source, stats, backoff = reflector.source, reflector.stats, Backoff(self.timing)
        while True:
            lists = stats.lists
            try:
                await self._follow_if_there(reflector)
            except ForbiddenError as error:
                self._say(reflector, str(error))
                if self._is_doubtful(reflector, error):
                    await backoff.wait()
                    continue
            except RestoredError:
                raise
            except ClusterError as error:
                # A server that can't be reached is told by those that are required, not once for each kind.
                self._say(
                    reflector, f"can't be looked for: {error}", logging.INFO if self._is_well() else logging.DEBUG
                )
                await backoff.wait()
                continue
            self._decided.add(source.name)
            if stats.lists > lists or not stats.synced:
                backoff.reset()
            if stats.synced:
                await backoff.wait()  # what was there is likely to come back: somebody may be making it anew
            else:
                await self.timing.sleep(self.settings.look_again * (0.5 + self.timing.chance()))

    async def _follow_if_there(self, reflector: Reflector) -> None:
        """Ends when the server has no such kind."""
        reflector.path = await find_path(self.connection, reflector.source, self.settings.wait)
        if reflector.path:
            beside = asyncio.create_task(self._look_at_schema(reflector))
            try:
                await reflector.run()
            except AbsentError:
                log.warning("resource=%s is not served any more: all of it counts as gone", reflector.source.name)
                reflector.lose_all()
            finally:
                beside.cancel()
        self._advice.pop(reflector.source.name, None)
        reflector.stats.trouble = ""

    def _is_doubtful(self, reflector: Reflector, error: ForbiddenError) -> bool:
        """Whether what is refused is tried again soon: a server that has just started knows no roles yet."""
        source, stats, now = reflector.source, reflector.stats, self.timing.clock()
        if source.required:
            if not stats.synced and now - (self._begin or 0.0) >= self.settings.patience:
                raise ClusterError(f"{self.connection.server}: {error}") from error
            return True
        if all(found.stats.synced for found in self._reflectors if found.source.required):
            self._decided.add(source.name)  # it knows roles, so that nobody has to wait for this one
        lists, since = self._refused.get(source.name, (-1, now))
        since = since if lists == stats.lists else now  # it was allowed in between
        self._refused[source.name] = (stats.lists, since)
        return now - since < self.settings.patience

    async def _look_at_schema(self, reflector: Reflector) -> None:
        """Notice a kind that loses what is written; its schema is shown some time after the kind itself."""
        if reflector.source is not KOORDINATOR_DEVICE:
            return
        backoff, pruned = Backoff(self.timing, first=1.0), None
        for _ in range(_LOOKS):
            with contextlib.suppress(ClusterError):  # it is only advice
                pruned = await prunes_topologies(self.connection, reflector.path, self.settings.wait)
            if pruned is not None:
                break
            await backoff.wait()
        if pruned:
            log.warning("resource=%s %s", reflector.source.name, _PRUNED)
            self._advice[reflector.source.name] = _PRUNED

    def _say(self, reflector: Reflector, sentence: str, level: int = logging.WARNING) -> None:
        """Tell a problem once, and keep it for whoever asks."""
        if reflector.stats.trouble != sentence:
            log.log(level, "resource=%s %s", reflector.source.name, sentence)
        reflector.stats.trouble = sentence

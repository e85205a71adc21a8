"""Reflector: lists one kind page by page, then watches it, and delivers every change to a sink.

Events are delivered in small slices, so that other tasks get to run in between. An interrupted watch resumes from its last
resourceVersion; only if that has expired (410 Gone) is everything listed again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.broker.watch_events import PodListComplete
from linkwise.errors import ClusterError, InputError
from linkwise.kube.errors import AbsentError, ExpiredError, ForbiddenError, RestoredError
from linkwise.kube.settings import WatchSettings
from linkwise.kube.watch.event_reader import EventReader, ObjectKey, Stats
from linkwise.kube.watch.pages import Lister
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.kubernetes.watch_stream import Lines, change_of, head_of, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.event_reader import NamedEvent
    from linkwise.kube.watch.kinds import WatchedKind
    from linkwise.net.http.client import Exchange

__all__ = ["Reflector"]

log = logging.getLogger(__name__)

_HEALTHY_SECONDS: Final = 1.0
"""a watch that lasted this long resets the backoff, even without events"""
_OVERDUE_SECONDS: Final = 30.0
"""beyond its timeoutSeconds, after which a watch counts as dead"""
_LIST: Final = "(the complete list)"
_MAX_VERSION_DIGITS: Final = 20
"""resourceVersions of the API server are 64-bit numbers"""
_OBJECT_EVENTS: Final = ("ADDED", "MODIFIED", "DELETED")


@dataclass(slots=True, kw_only=True)
class Reflector:
    """Lists and watches one kind until it is no longer served, or forbidden."""

    connection: Connection
    source: WatchedKind
    sink: Callable[[list[WatchEvent]], None]
    settings: WatchSettings = field(default_factory=WatchSettings)
    timing: Timing = field(default_factory=Timing)
    known: Callable[[], Collection[str]] | None = None
    """UIDs of all pods that the receiver behind the sink knows"""
    path: str = ""
    """of the list, from discovery"""
    stats: Stats = field(default_factory=Stats)
    _reader: EventReader = field(init=False)
    _backoff: Backoff = field(init=False)
    _version: str = ""
    """resourceVersion to watch from; empty: list first"""
    _newest: int = 0
    """the highest resourceVersion so far"""
    _listed_at: float = 0.0
    _requested: int = 0
    """lists that `list_now` requested"""
    _served: int = 0
    """the last of them that is complete"""
    _listed: asyncio.Event = field(default_factory=asyncio.Event)
    """set whenever a list is complete"""
    _limit: asyncio.Timeout | None = None
    """of the watch in progress, by which it can be ended"""

    def __post_init__(self) -> None:
        self._reader = EventReader(self.source, self.stats)
        self._backoff = Backoff(self.timing)

    async def run(self) -> None:
        """List and watch; ends only with Absent-, Forbidden- or RestoredError. Events that the sink rejects are skipped."""
        while True:
            try:
                if not self._version or self._is_requested() or self._needs_resync():
                    await self._list()
                elif self.source.required:
                    await self._check_not_restored()
                await self._watch()
            except (AbsentError, ForbiddenError, RestoredError):
                self._version = ""
                raise
            except ExpiredError as error:
                if self.timing.clock() - self._listed_at >= _OVERDUE_SECONDS:
                    self._backoff.reset()  # the API server answers again, however long it did not
                self._version = ""
                await self._back_off("expired", error)
            except ClusterError as error:
                await self._back_off("failed", error)

    @property
    def _lister(self) -> Lister:
        return Lister(self.connection, self.source, self.path, self.settings)

    async def list_now(self) -> None:
        """List again, and return when all of it is delivered: a quorum read that begins after this call."""
        self._requested += 1
        number = self._requested
        self._end_watch()
        while self._served < number:
            self._listed.clear()
            await self._listed.wait()

    def _is_requested(self) -> bool:
        return self._served < self._requested

    def _end_watch(self) -> None:
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def delete_all(self) -> None:
        """Deliver the deletion of every object, because the kind is no longer served."""
        self._deliver(self._reader.missing(frozenset()))

    def _needs_resync(self) -> bool:
        resync = self.settings.resync
        return resync > 0 and self.timing.clock() - self._listed_at >= resync

    async def _back_off(self, kind: str, error: ClusterError) -> None:
        self.stats.errors[kind] += 1
        if str(error) != self.stats.trouble:
            log.warning("resource=%s %s: %s", self.source.name, kind, error)
        self.stats.trouble = str(error)
        await self._backoff.wait()

    def _clear_trouble(self) -> None:
        if self.stats.trouble:
            log.info("resource=%s recovered", self.source.name)
        self.stats.trouble = ""

    async def _list(self) -> None:
        """List all objects, page by page; objects that existed before and are not listed are deleted."""
        # Set before the list: a resync that fails must not keep the watch from resuming.
        self._listed_at = self.timing.clock()
        serves = self._requested
        before = frozenset(self.known()) if self.known else frozenset()
        keys, version, nameless = set[ObjectKey](), "", self._reader.nameless
        self._reader.begin_list()
        async for page in self._lister.pages():
            version = page.version
            self._check_version(version)
            for start in range(0, len(page.items), self.settings.slice):
                events = []
                for document in page.items[start : start + self.settings.slice]:
                    key, event = self._reader.listed(document)
                    keys.add(key)
                    if event is not None:
                        events.append(event)
                self._deliver(events)
                await asyncio.sleep(0)
        if self._reader.nameless == nameless:
            self._reader.end_list()
            self._deliver_missing(keys, before)
        if self.source.listed is not None:
            self._deliver([(_LIST, self.source.listed)])
        self._version, self._listed_at = version, self.timing.clock()
        self.stats.heard_at = self.timing.clock()
        self.stats.lists += 1
        self.stats.synced = True
        self._served = serves
        self._listed.set()
        self._clear_trouble()

    async def _check_not_restored(self) -> None:
        """Read the current resourceVersion: after a restore, a watch from a later one would stay silent."""
        try:
            page = await self._lister.page(1)
        except ClusterError:
            return  # the watch may succeed all the same; if not, it reports the error
        self._check_version(page.version)

    def _check_version(self, version: str) -> None:
        """Raise if the resourceVersion went back: etcd was restored from a backup, and deleted pods may exist again."""
        number = _number(version)
        if self.source.required and 0 < number < self._newest:
            raise RestoredError(
                f"{self.connection.server}: the resourceVersion of {self.source.name} went back from {self._newest} to"
                f" {number}; if etcd was restored from a backup, restart the service"
            )
        self._newest = max(self._newest, number)

    def _deliver_missing(self, keys: set[ObjectKey], before: frozenset[str]) -> None:
        if not self.source.by_uid:
            self._deliver(self._reader.missing(keys))
            return
        # Pods that became known since the list was requested may be newer than the list: it can't show their deletion.
        newer = frozenset(self.known()) - before if self.known else frozenset()
        self._deliver([(_LIST, PodListComplete(frozenset(keys) | newer if newer else frozenset(keys)))])

    async def _watch(self) -> None:
        settings, started = self.settings, self.timing.clock()
        seconds = int(settings.watch_min + (settings.watch_max - settings.watch_min) * self.timing.chance())
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={quote(self._version)}&timeoutSeconds={seconds}"
        query += self.source.selection
        events = self.stats.events
        self.stats.watches += 1
        try:
            async with (
                asyncio.timeout(seconds + _OVERDUE_SECONDS),
                self.connection.stream(f"{self.path}?{query}", settings.wait) as stream,
            ):
                if stream.status != 200:
                    raise self._lister.error("watch", stream.status, status_of(await _read_all(stream)))
                self._clear_trouble()
                self.stats.heard_at = self.timing.clock()
                await self._read_stream(stream)
        except TimeoutError as error:
            raise ClusterError(f"the watch of {self.source.name} did not end at its timeoutSeconds") from error
        finally:
            self._limit = None
            self._newest = max(self._newest, _number(self._version))
            if self.stats.events > events or self.timing.clock() - started >= _HEALTHY_SECONDS:
                self._backoff.reset()
        if self._is_requested():
            return
        if self.stats.events == events and self.timing.clock() - started < _HEALTHY_SECONDS:
            raise ClusterError(f"the watch of {self.source.name} ended immediately, without an event")

    async def _read_stream(self, stream: Exchange) -> None:
        lines, idle, loop = Lines(), self.settings.idle_timeout, asyncio.get_running_loop()
        # The API server, or a proxy before it, can be dead while the connection stays open.
        with suppress(TimeoutError):
            async with asyncio.timeout(idle) as limit:
                self._limit = limit
                if self._is_requested():
                    self._end_watch()
                async for chunk in stream.chunks():
                    self.stats.heard_at = self.timing.clock()
                    complete = lines.feed(chunk)
                    for start in range(0, len(complete), self.settings.slice):
                        self._read_lines(complete[start : start + self.settings.slice])
                        await asyncio.sleep(0)
                    if self._is_requested():
                        return
                    if (limit.when() or 0.0) < loop.time() + 0.9 * idle:  # rescheduling costs more than reading a chunk
                        limit.reschedule(loop.time() + idle)

    def _read_lines(self, lines: list[bytes]) -> None:
        """Deliver the events of these lines; if one is invalid, all before it."""
        events: list[NamedEvent] = []
        try:
            for line in lines:
                self._read_line(line, events)
        finally:
            self._deliver(events)

    def _read_line(self, line: bytes, events: list[NamedEvent]) -> None:
        try:
            change = change_of(line)
            if change.type in _OBJECT_EVENTS:
                version, event = self._reader.changed(change.document, deleted=change.type == "DELETED")
                if event is not None:
                    events.append(event)
            elif change.type == "BOOKMARK":
                version = head_of(change.document).resource_version
            else:
                status = status_of(change.document)
                raise self._lister.error("watch", status.code, status)
        except InputError as error:
            # It is unknown which object the line was about, so everything is listed again.
            self.stats.errors["garbage"] += 1
            raise ExpiredError(f"the watch of {self.source.name} sent an invalid line: {error}") from error
        self.stats.events += 1
        self._version = version or self._version

    def _deliver(self, events: list[NamedEvent]) -> None:
        """Pass events to the sink; if it fails on them, one by one, so that one object can't stop the service."""
        self.stats.objects += len(events)
        try:
            if events:
                self.sink([event for _, event in events])
        except Exception as error:  # noqa: BLE001 - any bug in applying an event
            log.warning("resource=%s delivering %d events one by one: %r", self.source.name, len(events), error)
            for name, event in events:  # an event that was applied already changes nothing
                try:
                    self.sink([event])
                except Exception as cause:  # noqa: BLE001 - as above
                    self._reader.rejected(name, cause)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() and len(version) <= _MAX_VERSION_DIGITS else 0


async def _read_all(stream: Exchange) -> bytes:
    return b"".join([chunk async for chunk in stream.chunks()])

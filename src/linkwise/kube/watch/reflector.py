"""Reflector: lists one kind page by page, then watches it, and delivers every change to a sink as a watch event.

Events are delivered in small slices, so that other tasks get to run in between. An interrupted watch resumes from its last
resourceVersion; only if that has expired (410 Gone) is everything listed again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.broker.watch_events import PodListComplete
from linkwise.errors import ClusterError, InputError
from linkwise.kube.errors import AbsentError, ExpiredError, ForbiddenError, RestoredError
from linkwise.kube.settings import WatchSettings
from linkwise.kube.watch.kinds import Decoded
from linkwise.kube.watch.lists import Lister
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.kubernetes.watch_stream import Head, Lines, change_of, head_of, status_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import msgspec

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.watch.kinds import WatchedKind

    NamedEvent = tuple[str, WatchEvent]
    """namespace/name of an object, for messages, and its event"""
    from collections.abc import Callable

    from linkwise.kube.client.api import Connection
    from linkwise.net.http.client import Exchange

__all__ = ["EventReader", "NamedEvent", "ObjectKey", "Reflector", "Stats"]

ObjectKey = str
"""identifies an object of one kind: the UID of a pod, otherwise namespace/name"""
log = logging.getLogger(__name__)
_HEALTHY_SECONDS: Final = 1.0
"""a watch that lasted this long resets the backoff, even without events"""
_OVERDUE_SECONDS: Final = 30.0
"""beyond its timeoutSeconds, after which a watch counts as dead"""
_LIST: Final = "(the complete list)"
_MAX_VERSION_DIGITS: Final = 20
"""resourceVersions of the API server are 64-bit numbers"""
_OBJECT_EVENTS: Final = ("ADDED", "MODIFIED", "DELETED")


@dataclass(slots=True)
class Stats:
    """Counters and current problems of one reflector."""

    synced: bool = False
    """whether one list was complete"""
    lists: int = 0
    watches: int = 0
    events: int = 0
    """lines of watches, bookmarks included"""
    objects: int = 0
    """watch events delivered to the sink"""
    heard_at: float = 0.0
    """monotonic time of the last complete list, event or bookmark"""
    errors: Counter[str] = field(default_factory=Counter)
    """by kind: expired, failed, garbage, unreadable, poison"""
    trouble: str = ""
    """why list and watch fail now; empty if they succeed"""
    unreadable: dict[str, str] = field(default_factory=dict)
    """objects that currently can't be decoded or applied, with the error"""


class EventReader:
    """Decodes objects of one kind."""

    def __init__(self, source: WatchedKind, stats: Stats) -> None:
        self.nameless = 0
        """objects without readable metadata"""
        self._source = source
        self._stats = stats
        self._by_uid = source.by_uid
        self._unlisted: set[str] = set()
        """unreadable objects that the current list has not contained so far"""
        self._existing: dict[ObjectKey, Head] = {}
        """delivered objects; pods are left out, since the broker knows those by UID"""

    def begin_list(self) -> None:
        """Start a full list."""
        self._unlisted = set(self._stats.unreadable)

    def end_list(self) -> None:
        """Complete a full list: unreadable objects that it did not contain are deleted."""
        for name in self._unlisted:
            self._stats.unreadable.pop(name, None)

    def listed(self, document: msgspec.Raw) -> tuple[ObjectKey, NamedEvent | None]:
        """Read an object of a list: its key, and its event if it is relevant."""
        head = self._head(document)
        if head is None:
            return "", None
        return head.uid if self._by_uid else _full_name(head), self._read(document, head)

    def changed(self, document: msgspec.Raw, *, deleted: bool) -> tuple[str, NamedEvent | None]:
        """Read an object of a watch: its resourceVersion, and its event if it is relevant."""
        head = self._head(document)
        if head is None:
            return "", None
        if not deleted:
            return head.resource_version, self._read(document, head)
        self._stats.unreadable.pop(_full_name(head), None)
        existed = self._existing.pop(_full_name(head), None)
        relevant = self._by_uid or existed is not None
        return head.resource_version, (_full_name(head), self._source.deleted(head)) if relevant else None

    def missing(self, listed: Collection[ObjectKey]) -> list[NamedEvent]:
        """Deletion events for all objects that a full list no longer contains, and for one that is watched by name."""
        lost = {name: self._existing.pop(name) for name in [*self._existing] if name not in listed}
        if self._source.only and self._source.only not in listed:
            lost.setdefault(self._source.only, Head(self._source.only))
        return [(name, self._source.deleted(head)) for name, head in lost.items()]

    def rejected(self, name: str, error: Exception) -> None:
        """Report an event that the sink failed on, which is a bug; other objects are not affected."""
        self._stats.errors["poison"] += 1
        problem = f"it can't be applied (a bug in Linkwise): {_describe(error)}"
        if self._stats.unreadable.get(name) != problem:
            log.error("resource=%s name=%s %s", self._source.name, name, problem, exc_info=error)
        self._stats.unreadable[name] = problem

    def _read(self, document: msgspec.Raw, head: Head) -> NamedEvent | None:
        if not self._source.is_relevant(head):
            return None
        decoded, name = self._decode(document, head), _full_name(head)
        self._unlisted.discard(name)
        if decoded.error:
            self._stats.errors["unreadable"] += 1
            if self._stats.unreadable.get(name) != decoded.error:
                log.error("resource=%s name=%s can't be read: %s", self._source.name, name, decoded.error)
            self._stats.unreadable[name] = decoded.error
        elif self._stats.unreadable:
            self._stats.unreadable.pop(name, None)
        if not self._by_uid and decoded.event is not None:
            self._existing[name] = head
        return (name, decoded.event) if decoded.event is not None else None

    def _decode(self, document: msgspec.Raw, head: Head) -> Decoded:
        try:
            return self._source.decode(document, head)
        except Exception as error:  # one unexpected object must not stop all others
            log.exception("resource=%s name=%s", self._source.name, _full_name(head))
            return Decoded(None, _describe(error))

    def _head(self, document: msgspec.Raw) -> Head | None:
        try:
            head = head_of(document)
        except InputError as error:
            problem = str(error)
        else:
            if head.name:
                return head
            problem = "it has no name"
        self.nameless += 1
        self._stats.errors["unreadable"] += 1
        log.error("resource=%s an object without readable metadata: %s", self._source.name, problem)
        return None


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


def _full_name(head: Head) -> str:
    return f"{head.namespace}/{head.name}" if head.namespace else head.name


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _number(version: str) -> int:
    return int(version) if version.isdecimal() and len(version) <= _MAX_VERSION_DIGITS else 0


async def _read_all(stream: Exchange) -> bytes:
    return b"".join([chunk async for chunk in stream.chunks()])

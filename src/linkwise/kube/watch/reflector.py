"""One kind of objects as the API server has it: listed page by page, then watched, and listed anew where that is needed.

What is seen is handed on in small slices, with a pause after each in which others get their turn. A watch that is cut goes
on from the last version it saw; only if the server no longer has that version is everything listed again.
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
from linkwise.kube.watch.event_reader import Name, Reading, Stats
from linkwise.kube.watch.kinds import PODS
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.kubernetes.watch_stream import Lines, change_of, head_of, page_of, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.event_reader import Told
    from linkwise.kube.watch.kinds import WatchedKind
    from linkwise.net.http_connection import Exchange
    from linkwise.wire.kubernetes.watch_stream import RawPage, Status

__all__ = ["Reflector"]

log = logging.getLogger(__name__)

_STEADY: Final = 1.0  # s
"""a watch that lasted so long was a good one, though nothing happened"""
_LATE: Final = 30.0  # s
"""after a watch should have ended, until it is taken for dead"""
_LIST: Final = "(the list as a whole)"
_DIGITS: Final = 20
"""of a version; the server's numbers have 64 bits"""
_SEEN: Final = ("ADDED", "MODIFIED", "DELETED")


@dataclass(slots=True, kw_only=True)
class Reflector:
    """Lists and watches one source until it is not served, or not allowed."""

    connection: Connection
    source: WatchedKind
    sink: Callable[[list[WatchEvent]], None]
    settings: WatchSettings = field(default_factory=WatchSettings)
    timing: Timing = field(default_factory=Timing)
    known: Callable[[], Collection[str]] | None = None
    """UIDs of all pods that whoever is behind the sink knows of"""
    path: str = ""
    """of the list; discovery tells it"""
    stats: Stats = field(default_factory=Stats)
    _reading: Reading = field(init=False)
    _backoff: Backoff = field(init=False)
    _version: str = ""
    _newest: int = 0
    """the largest version that was seen, as a number"""
    _listed: float = 0.0

    def __post_init__(self) -> None:
        self._reading = Reading(self.source, self.stats)
        self._backoff = Backoff(self.timing)

    async def run(self) -> None:
        """List and watch; ends only with Absent-, Forbidden- or RestoredError. What the sink can't take in is left out."""
        while True:
            try:
                if not self._version or self._is_stale():
                    await self._list()
                elif self.source.required:
                    await self._look()
                await self._watch()
            except (AbsentError, ForbiddenError, RestoredError):
                self._version = ""
                raise
            except ExpiredError as error:
                if self.timing.clock() - self._listed >= _LATE:
                    self._backoff.reset()  # whoever says so is there again, however long it was not
                self._version = ""
                await self._again("expired", error)
            except ClusterError as error:
                await self._again("failed", error)

    def lose_all(self) -> None:
        """The kind is not served any more: nothing of it is there."""
        self._hand_on(self._reading.missing(frozenset()))

    def _is_stale(self) -> bool:
        resync = self.settings.resync
        return resync > 0 and self.timing.clock() - self._listed >= resync

    async def _again(self, kind: str, error: ClusterError) -> None:
        self.stats.errors[kind] += 1
        if str(error) != self.stats.trouble:
            log.warning("resource=%s %s: %s", self.source.name, kind, error)
        self.stats.trouble = str(error)
        await self._backoff.wait()

    def _well(self) -> None:
        if self.stats.trouble:
            log.info("resource=%s works again", self.source.name)
        self.stats.trouble = ""

    async def _list(self) -> None:
        """All objects, page by page; whoever was there before and is not among them is gone."""
        # One that fails only to look again whether nothing was lost must not keep the watch from going on.
        self._listed = self.timing.clock()
        # A list as of now, by the quorum: no version is asked for.
        before = frozenset(self.known()) if self.known else frozenset()
        found, rest, nameless = set[Name](), "", self._reading.nameless
        self._reading.begin_list()
        while True:
            page = await self._page(rest, self.settings.page)
            self._check_time(page.version)
            for start in range(0, len(page.items), self.settings.slice):
                told = []
                for document in page.items[start : start + self.settings.slice]:
                    name, says = self._reading.listed(document)
                    found.add(name)
                    if says is not None:
                        told.append(says)
                self._hand_on(told)
                await asyncio.sleep(0)
            rest = page.rest
            if not rest:
                break
        if self._reading.nameless == nameless:
            self._reading.end_list()
            self._tell_missing(found, before)
        self._version, self._listed = page.version, self.timing.clock()
        self.stats.heard_at = self.timing.clock()
        self.stats.lists += 1
        self.stats.synced = True
        self._well()

    async def _page(self, rest: str, limit: int) -> RawPage:
        asked = f"{self.path}?limit={limit}" + (f"&continue={quote(rest, safe='')}" if rest else "")
        answer = await self.connection.call("GET", asked, wait=self.settings.wait)
        if answer.status != 200:
            raise self._refused("list", answer.status, status_of(answer.body))
        try:
            return page_of(answer.body)
        except InputError as error:
            raise ClusterError(f"{self.connection.server} answers GET {asked} with no list: {error}") from error

    async def _look(self) -> None:
        """At the version alone: a watch from one that a restored server has not reached would be silent."""
        try:
            page = await self._page("", 1)
        except ClusterError:
            return  # whoever can't be listed now may still be watched; if not, the watch tells
        self._check_time(page.version)

    def _check_time(self, version: str) -> None:
        """Versions only grow, unless the server's data are those of a backup: pods that were gone may be back."""
        number = _number(version)
        if self.source.required and 0 < number < self._newest:
            raise RestoredError(
                f"{self.connection.server}: the version of {self.source.name} went back from {self._newest} to {number};"
                " were its data restored from a backup? Start the service anew"
            )
        self._newest = max(self._newest, number)

    def _tell_missing(self, found: set[Name], before: frozenset[str]) -> None:
        if self.source is not PODS:
            self._hand_on(self._reading.missing(found))
            return
        # Who became known since the list was asked for may be newer than the list: that tells nothing of them.
        newer = frozenset(self.known()) - before if self.known else frozenset()
        self._hand_on([(_LIST, PodListComplete(frozenset(found) | newer if newer else frozenset(found)))])

    async def _watch(self) -> None:
        settings, begin = self.settings, self.timing.clock()
        seconds = int(settings.shortest + (settings.longest - settings.shortest) * self.timing.chance())
        asked = f"watch=1&allowWatchBookmarks=true&resourceVersion={quote(self._version)}&timeoutSeconds={seconds}"
        heard = self.stats.events
        self.stats.watches += 1
        try:
            async with (
                asyncio.timeout(seconds + _LATE),
                self.connection.stream(f"{self.path}?{asked}", settings.wait) as stream,
            ):
                if stream.status != 200:
                    raise self._refused("watch", stream.status, status_of(await _whole(stream)))
                self._well()
                self.stats.heard_at = self.timing.clock()
                await self._follow(stream)
        except TimeoutError as error:
            raise ClusterError(f"the watch of {self.source.name} did not end when it should have") from error
        finally:
            self._newest = max(self._newest, _number(self._version))
            if self.stats.events > heard or self.timing.clock() - begin >= _STEADY:
                self._backoff.reset()
        if self.stats.events == heard and self.timing.clock() - begin < _STEADY:
            raise ClusterError(f"the watch of {self.source.name} ended as soon as it began")

    async def _follow(self, stream: Exchange) -> None:
        lines, silence, loop = Lines(), self.settings.silence, asyncio.get_running_loop()
        # A server, or what stands before it, can be dead while its connection is not.
        with suppress(TimeoutError):
            async with asyncio.timeout(silence) as limit:
                async for piece in stream.chunks():
                    self.stats.heard_at = self.timing.clock()
                    whole = lines.feed(piece)
                    for start in range(0, len(whole), self.settings.slice):
                        self._take(whole[start : start + self.settings.slice])
                        await asyncio.sleep(0)
                    if (limit.when() or 0.0) < loop.time() + 0.9 * silence:  # setting it costs more than a piece
                        limit.reschedule(loop.time() + silence)

    def _take(self, lines: list[bytes]) -> None:
        """Hand on what these lines say; if one is none, all before it."""
        told: list[Told] = []
        try:
            for line in lines:
                self._take_line(line, told)
        finally:
            self._hand_on(told)

    def _take_line(self, line: bytes, told: list[Told]) -> None:
        try:
            change = change_of(line)
            if change.type in _SEEN:
                version, says = self._reading.changed(change.document, gone=change.type == "DELETED")
                if says is not None:
                    told.append(says)
            elif change.type == "BOOKMARK":
                version = head_of(change.document).resource_version
            else:
                raise self._refused("watch", (said := status_of(change.document)).code, said)
        except InputError as error:
            # Nobody knows whom such a line was about: everything is looked at again.
            self.stats.errors["garbage"] += 1
            raise ExpiredError(f"the watch of {self.source.name} holds a line that is no event: {error}") from error
        self.stats.events += 1
        self._version = version or self._version

    def _hand_on(self, told: list[Told]) -> None:
        self.stats.objects += len(told)
        try:
            if told:
                self.sink([sight for _, sight in told])
        except Exception as error:  # noqa: BLE001 - whatever it is: one object must not end the service
            log.warning("resource=%s %d objects are taken in one by one: %r", self.source.name, len(told), error)
            for name, sight in told:  # who is shown twice as the same changes nothing
                self._hand_on_alone(name, sight)

    def _hand_on_alone(self, name: str, sight: WatchEvent) -> None:
        try:
            self.sink([sight])
        except Exception as error:  # noqa: BLE001 - as above
            self._reading.refused(name, error)

    def _refused(self, verb: str, status: int, said: Status) -> ClusterError:
        if status == 410 or said.reason in {"Expired", "Gone"}:
            return ExpiredError(f"{self.source.name}: the version is gone: {said.message}")
        if status == 404 and not self.source.required:  # whoever says so of pods or nodes is no API server now
            return AbsentError(f"{self.source.name} is not served")
        if status == 403:
            where = f" in namespace {self.source.namespace}" if self.source.namespace else ""
            return ForbiddenError(
                f"may not {verb} {self.source.name}{where}: {said.message}; grant list and watch on it"
                " (`linkwise manifests rbac` prints the role)"
            )
        return ClusterError(f"{self.connection.server} refuses to {verb} {self.source.name}: {status} {said.message}")


def _number(version: str) -> int:
    return int(version) if version.isdecimal() and len(version) <= _DIGITS else 0


async def _whole(stream: Exchange) -> bytes:
    return b"".join([piece async for piece in stream.chunks()])

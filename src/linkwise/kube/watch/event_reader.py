"""Event reader: turns objects of one kind into watch events, tracks which exist, and counts those it can't read."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.errors import InputError
from linkwise.kube.watch.kinds import Decoded
from linkwise.wire.kubernetes.watch_stream import Head, head_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import msgspec

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.watch.kinds import WatchedKind

    NamedEvent = tuple[str, WatchEvent]
    """namespace/name of an object, for messages, and its event"""

__all__ = ["EventReader", "NamedEvent", "ObjectKey", "Stats"]

log = logging.getLogger(__name__)

ObjectKey = str
"""identifies an object of one kind: the UID of a pod, otherwise namespace/name"""


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


def _full_name(head: Head) -> str:
    return f"{head.namespace}/{head.name}" if head.namespace else head.name


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

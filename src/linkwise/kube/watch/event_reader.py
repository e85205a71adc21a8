"""Objects of one source turned into what they mean; who was shown is remembered, and what could not be read is counted."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.errors import InputError
from linkwise.kube.watch.kinds import PODS, Seen
from linkwise.wire.kubernetes.watch_stream import Head, head_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import msgspec

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.watch.kinds import WatchedKind

    Told = tuple[str, WatchEvent]
    """what people call an object, and what it says"""

__all__ = ["Name", "Reading", "Stats", "Told"]

log = logging.getLogger(__name__)

Name = str
"""by which an object of a source is told from all others: the UID of a pod, else its name, with the namespace before it"""


@dataclass(slots=True)
class Stats:
    """What happened with one source so far."""

    synced: bool = False
    """whether it was listed to its end once"""
    lists: int = 0
    watches: int = 0
    events: int = 0
    """lines of watches, bookmarks included"""
    objects: int = 0
    """what was handed on"""
    heard_at: float = 0.0
    """when the server last sent a whole list or anything on a watch, by the clock that is never set"""
    errors: Counter[str] = field(default_factory=Counter)
    """by kind: expired, failed, garbage, unreadable, poison"""
    trouble: str = ""
    """why it is not followed now; empty if it is"""
    unreadable: dict[str, str] = field(default_factory=dict)
    """objects that could not be read, or not be taken in, as they are now, and why"""


class Reading:
    """What objects mean."""

    def __init__(self, source: WatchedKind, stats: Stats) -> None:
        self.nameless = 0
        """objects that nobody can tell the name of"""
        self._source = source
        self._stats = stats
        self._unseen: set[str] = set()
        """objects that could not be read before, and are not among those listed so far"""
        self._shown: dict[Name, Head] = {}
        """of all but pods, which the broker knows by UID"""

    def begin_list(self) -> None:
        """All objects are about to be listed."""
        self._unseen = set(self._stats.unreadable)

    def end_list(self) -> None:
        """They were: what could not be read and is not among them is gone."""
        for name in self._unseen:
            self._stats.unreadable.pop(name, None)

    def listed(self, document: msgspec.Raw) -> tuple[Name, Told | None]:
        """An object of a list: which one it is, and what it says if that counts."""
        head = self._head(document)
        if head is None:
            return "", None
        return head.uid if self._source is PODS else _shown(head), self._there(document, head)

    def changed(self, document: msgspec.Raw, *, gone: bool) -> tuple[str, Told | None]:
        """An object of a watch: its version, and what the change means if that counts."""
        head = self._head(document)
        if head is None:
            return "", None
        if not gone:
            return head.resource_version, self._there(document, head)
        self._stats.unreadable.pop(_shown(head), None)
        shown = self._shown.pop(_shown(head), None)
        counts = self._source is PODS or shown is not None
        return head.resource_version, (_shown(head), self._source.gone(head)) if counts else None

    def missing(self, names: Collection[Name]) -> list[Told]:
        """What it means that of all that was shown only these are there."""
        lost = [name for name in self._shown if name not in names]
        return [(name, self._source.gone(self._shown.pop(name))) for name in lost]

    def refused(self, name: str, error: Exception) -> None:
        """What an object says could not be taken in, which is a fault of ours: the rest goes on without it."""
        self._stats.errors["poison"] += 1
        wrong = f"it can't be taken in, which is a fault of Linkwise: {_fault(error)}"
        if self._stats.unreadable.get(name) != wrong:
            log.error("resource=%s name=%s %s", self._source.name, name, wrong, exc_info=error)
        self._stats.unreadable[name] = wrong

    def _there(self, document: msgspec.Raw, head: Head) -> Told | None:
        if not self._source.counts(head):
            return None
        seen, name = self._seen(document, head), _shown(head)
        self._unseen.discard(name)
        if seen.wrong:
            self._stats.errors["unreadable"] += 1
            if self._stats.unreadable.get(name) != seen.wrong:
                log.error("resource=%s name=%s can't be read: %s", self._source.name, name, seen.wrong)
            self._stats.unreadable[name] = seen.wrong
        elif self._stats.unreadable:
            self._stats.unreadable.pop(name, None)
        if self._source is not PODS and seen.sight is not None:
            self._shown[name] = head
        return (name, seen.sight) if seen.sight is not None else None

    def _seen(self, document: msgspec.Raw, head: Head) -> Seen:
        try:
            return self._source.there(document, head)
        except Exception as error:  # one object that nobody thought of must not stop all others
            log.exception("resource=%s name=%s", self._source.name, _shown(head))
            return Seen(None, _fault(error))

    def _head(self, document: msgspec.Raw) -> Head | None:
        try:
            head = head_of(document)
        except InputError as error:
            wrong = str(error)
        else:
            if head.name:
                return head
            wrong = "it has no name"
        self.nameless += 1
        self._stats.errors["unreadable"] += 1
        log.error("resource=%s an object can't be told by name: %s", self._source.name, wrong)
        return None


def _shown(head: Head) -> str:
    return f"{head.namespace}/{head.name}" if head.namespace else head.name


def _fault(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

"""Objects of one source turned into what they mean; who was shown is remembered, and what could not be read is counted."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.errors import InputError
from linkwise.kube.sources import PODS
from linkwise.wire.watching import Head, head_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import msgspec

    from linkwise.broker.sights import Sight
    from linkwise.kube.sources import Source

__all__ = ["Name", "Reading", "Stats"]

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
    """when the server last sent a whole list or anything on a watch, in seconds since the epoch"""
    errors: Counter[str] = field(default_factory=Counter)
    """by kind: expired, failed, garbage, unreadable"""
    trouble: str = ""
    """why it is not followed now; empty if it is"""
    unreadable: dict[str, str] = field(default_factory=dict)
    """objects that could not be read as they are now, and why"""


class Reading:
    """What objects mean."""

    def __init__(self, source: Source, stats: Stats) -> None:
        self.nameless = 0
        """objects that nobody can tell the name of"""
        self._source = source
        self._stats = stats
        self._shown: dict[Name, Head] = {}
        """of all but pods, which the broker knows by UID"""

    def listed(self, document: msgspec.Raw) -> tuple[Name, Sight | None]:
        """An object of a list: which one it is, and what it says if that counts."""
        head = self._head(document)
        if head is None:
            return "", None
        return head.uid if self._source is PODS else _shown(head), self._there(document, head)

    def changed(self, document: msgspec.Raw, *, gone: bool) -> tuple[str, Sight | None]:
        """An object of a watch: its version, and what the change means if that counts."""
        head = self._head(document)
        if head is None:
            return "", None
        if not gone:
            return head.resource_version, self._there(document, head)
        self._stats.unreadable.pop(_shown(head), None)
        shown = self._shown.pop(_shown(head), None)
        counts = self._source is PODS or shown is not None
        return head.resource_version, self._source.gone(head) if counts else None

    def missing(self, names: Collection[Name]) -> list[Sight]:
        """What it means that of all that was shown only these are there."""
        lost = [name for name in self._shown if name not in names]
        for name in lost:
            self._stats.unreadable.pop(name, None)
        return [self._source.gone(self._shown.pop(name)) for name in lost]

    def _there(self, document: msgspec.Raw, head: Head) -> Sight | None:
        if not self._source.counts(head):
            return None
        seen = self._source.there(document, head)
        name = _shown(head)
        if seen.wrong:
            self._stats.errors["unreadable"] += 1
            if self._stats.unreadable.get(name) != seen.wrong:
                log.error("resource=%s name=%s can't be read: %s", self._source.name, name, seen.wrong)
            self._stats.unreadable[name] = seen.wrong
        elif self._stats.unreadable:
            self._stats.unreadable.pop(name, None)
        if self._source is not PODS and seen.sight is not None:
            self._shown[name] = head
        return seen.sight

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

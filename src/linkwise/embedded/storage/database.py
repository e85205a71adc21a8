"""Where everything is kept: one shelf a kind, one version for all of them, and who belongs to whom."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import not_found
from linkwise.embedded.kinds.registry import Kinds
from linkwise.embedded.storage.collection import KEPT, Collection, stored_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Key, Raw, Stored

__all__ = ["Database", "Place", "timestamp"]

FIRST: Final = 1000
"""the version of a server that has nothing yet"""

Place = tuple[str, str, str]
"""kind, namespace and name"""


def timestamp(seconds: float) -> str:
    """As Kubernetes writes times."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Database:
    """All objects; each write makes one version, one encoding and one change that all watches share."""

    def __init__(self, clock: Callable[[], float] = time.time, kept: int = KEPT) -> None:
        self.kinds = Kinds()
        self.version = FIRST
        self.clock = clock
        self.places: dict[str, Place] = {}
        """where an object is, by UID"""
        self.dependents: dict[str, set[Place]] = {}
        """whom an object owns, by its UID"""
        self.counts: dict[str, int] = {}
        """how much is in a namespace"""
        self.gone: list[Callable[[Resource, Stored], None]] = []
        """told of every object that was taken away"""
        self._kept = kept
        self._shelves: dict[str, Collection] = {}

    @property
    def now(self) -> str:
        """The time, as objects hold it."""
        return timestamp(self.clock())

    def shelf(self, resource: Resource) -> Collection:
        """The objects of a kind, whatever version of it is asked for."""
        found = self._shelves.get(resource.full)
        if found is None:
            found = self._shelves[resource.full] = Collection(self.version, self._kept)
        return found

    def find(self, resource: Resource, key: Key) -> Stored | None:
        """An object, if it is there."""
        return self.shelf(resource).objects.get(key)

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """An object; RefusedError if it is not there."""
        found = self.find(resource, (namespace, name))
        if found is None:
            raise not_found(resource, name)
        return found

    def write(self, resource: Resource, document: Raw) -> Stored:
        """Keep an object that was checked, at a new version."""
        shelf = self.shelf(resource)
        stored = self.preview(resource, document, self.version + 1)
        self.version += 1
        before = shelf.objects.get(stored.key)
        self._follow(resource, document, stored, before)
        shelf.put(stored)
        return stored

    def preview(self, resource: Resource, document: Raw, version: int) -> Stored:
        """An object as it would be kept."""
        kept = self.kinds.kept_as(resource)
        # Version and kind come first in the bytes, so that another version of the kind is shown by a new beginning.
        rest = {key: value for key, value in document.items() if key not in {"apiVersion", "kind", "metadata"}}
        head = {"apiVersion": kept.api_version, "kind": kept.kind, "metadata": document["metadata"]}
        return stored_of(kept, head | rest, version)

    def remove(self, resource: Resource, document: Raw) -> Stored:
        """Take an object away; `document` is what watches are told that it was."""
        last = self.preview(resource, document, self.version + 1)
        self.version += 1
        before = self.shelf(resource).objects[last.key]
        self.places.pop(before.uid, None)
        self._disown(before)
        if last.namespace:
            self.counts[last.namespace] -= 1
            if not self.counts[last.namespace]:
                del self.counts[last.namespace]
        self.shelf(resource).remove(last)
        for tell in self.gone:
            tell(resource, last)
        return last

    def forget_history(self) -> None:
        """Answer every watch that goes on from before now as too old."""
        for shelf in self._shelves.values():
            shelf.forget(self.version)

    def clear(self, resource: Resource) -> None:
        """Take the empty shelf of a kind away that is not served any more."""
        self._shelves.pop(resource.full, None)

    def _follow(self, resource: Resource, document: Raw, stored: Stored, before: Stored | None) -> None:
        place = (resource.full, *stored.key)
        if before is None:
            self.places[stored.uid] = place
            if stored.namespace:
                self.counts[stored.namespace] = self.counts.get(stored.namespace, 0) + 1
        owners = document["metadata"].get("ownerReferences")
        if before is not None and (owners or b'"ownerReferences"' in before.data):
            self._disown(before)
        for owner in owners or ():
            self.dependents.setdefault(owner["uid"], set()).add(place)

    def _disown(self, stored: Stored) -> None:
        if b'"ownerReferences"' not in stored.data:
            return
        document = stored.read()
        kind = self.kinds.of(document["apiVersion"], document["kind"])
        place = (kind.full if kind else "", *stored.key)
        for owner in document["metadata"].get("ownerReferences") or ():
            held = self.dependents.get(owner["uid"])
            if held is not None:
                held.discard(place)
                if not held:
                    del self.dependents[owner["uid"]]

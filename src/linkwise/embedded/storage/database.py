"""Object database: one collection per resource, one resourceVersion for all, and the owner reference index."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import not_found
from linkwise.embedded.kinds.registry import Kinds
from linkwise.embedded.storage.collection import HISTORY_LENGTH, Collection, stored_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Key, Raw, Stored

__all__ = ["Database", "ObjectKey", "timestamp"]

FIRST_VERSION: Final = 1000
"""the resourceVersion of an empty server"""

ObjectKey = tuple[str, str, str]
"""resource, namespace and name"""


def timestamp(seconds: float) -> str:
    """A time in the format of Kubernetes' metav1.Time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Database:
    """All objects; each write creates one resourceVersion, one encoding and one change that all watches share."""

    def __init__(self, clock: Callable[[], float] = time.time, history: int = HISTORY_LENGTH) -> None:
        self.kinds = Kinds()
        self.version = FIRST_VERSION
        self.clock = clock
        self.keys_by_uid: dict[str, ObjectKey] = {}
        """the key of each object, by UID"""
        self.dependents: dict[str, set[ObjectKey]] = {}
        """keys of the objects that name a UID as their owner"""
        self.namespace_counts: dict[str, int] = {}
        """number of objects per namespace"""
        self.removal_listeners: list[Callable[[Resource, Stored], None]] = []
        """called for each removed object"""
        self._history = history
        self._collections: dict[str, Collection] = {}

    @property
    def now(self) -> str:
        """The current time as a Kubernetes timestamp."""
        return timestamp(self.clock())

    def collection(self, resource: Resource) -> Collection:
        """The objects of a resource; all served versions share one collection."""
        collection = self._collections.get(resource.group_resource)
        if collection is None:
            collection = self._collections[resource.group_resource] = Collection(self.version, self._history)
        return collection

    def find(self, resource: Resource, key: Key) -> Stored | None:
        """An object, or None."""
        return self.collection(resource).objects.get(key)

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """An object; ApiError 404 if it does not exist."""
        stored = self.find(resource, (namespace, name))
        if stored is None:
            raise not_found(resource, name)
        return stored

    def write(self, resource: Resource, document: Raw) -> Stored:
        """Store a validated object at a new resourceVersion."""
        collection = self.collection(resource)
        stored = self.preview(resource, document, self.version + 1)
        self.version += 1
        before = collection.objects.get(stored.key)
        self._index(resource, document, stored, before)
        collection.put(stored)
        return stored

    def preview(self, resource: Resource, document: Raw, version: int) -> Stored:
        """Encode an object as it would be stored."""
        storage = self.kinds.storage_version(resource)
        # apiVersion and kind come first in the bytes, so that conversion to another version only replaces the prefix.
        body = {key: value for key, value in document.items() if key not in {"apiVersion", "kind", "metadata"}}
        head = {"apiVersion": storage.api_version, "kind": storage.kind, "metadata": document["metadata"]}
        return stored_of(storage, head | body, version)

    def remove(self, resource: Resource, document: Raw) -> Stored:
        """Remove an object; `document` is the final state that watches report."""
        last = self.preview(resource, document, self.version + 1)
        self.version += 1
        before = self.collection(resource).objects[last.key]
        self.keys_by_uid.pop(before.uid, None)
        self._disown(before)
        if last.namespace:
            self.namespace_counts[last.namespace] -= 1
            if not self.namespace_counts[last.namespace]:
                del self.namespace_counts[last.namespace]
        self.collection(resource).remove(last)
        for notify in self.removal_listeners:
            notify(resource, last)
        return last

    def forget_history(self) -> None:
        """Drop the history of all resources: watches that resume from an earlier version get 410 Expired."""
        for collection in self._collections.values():
            collection.forget(self.version)

    def clear(self, resource: Resource) -> None:
        """Drop the empty collection of a resource that is no longer served."""
        self._collections.pop(resource.group_resource, None)

    def _index(self, resource: Resource, document: Raw, stored: Stored, before: Stored | None) -> None:
        key = (resource.group_resource, *stored.key)
        if before is None:
            self.keys_by_uid[stored.uid] = key
            if stored.namespace:
                self.namespace_counts[stored.namespace] = self.namespace_counts.get(stored.namespace, 0) + 1
        owners = document["metadata"].get("ownerReferences")
        if before is not None and (owners or b'"ownerReferences"' in before.data):
            self._disown(before)
        for owner in owners or ():
            self.dependents.setdefault(owner["uid"], set()).add(key)

    def _disown(self, stored: Stored) -> None:
        if b'"ownerReferences"' not in stored.data:
            return
        document = stored.read()
        kind = self.kinds.for_object(document["apiVersion"], document["kind"])
        key = (kind.group_resource if kind else "", *stored.key)
        for owner in document["metadata"].get("ownerReferences") or ():
            dependents = self.dependents.get(owner["uid"])
            if dependents is not None:
                dependents.discard(key)
                if not dependents:
                    del self.dependents[owner["uid"]]

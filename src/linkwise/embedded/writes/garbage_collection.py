"""Garbage collector: deletes dependents, the contents of terminating namespaces and the instances of deleted CRDs.

It works through a queue in small batches, so that requests are served in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.kinds.crds import CRD_RESOURCE
from linkwise.embedded.writes.admission import without_admission
from linkwise.embedded.writes.delete import FOREGROUND, ORPHAN, DeleteOptions, delete, remove_finalizer

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Change, Stored
    from linkwise.embedded.storage.database import Database, ObjectKey

__all__ = ["GarbageCollector"]

_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_BATCH_SIZE: Final = 100


class GarbageCollector:
    """Processes what follows a delete; `run` it next to the server, or call `finish`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: deque[ObjectKey] = deque()
        """keys of the objects to look at"""
        self._wakeup = asyncio.Event()
        self._waiting: set[str] = set()
        """UIDs of owners in foreground deletion, which wait for their dependents"""
        database.removal_listeners.append(self._on_removed)
        for name in ("namespaces", CRD_RESOURCE):
            resource = database.kinds.by_name(name)
            database.collection(resource).listeners.add(partial(self._on_change, name))

    async def run(self) -> None:
        """Process the queue until cancelled."""
        while True:
            await self._wakeup.wait()
            for _ in range(_BATCH_SIZE):
                if not self.step():
                    break
            await asyncio.sleep(0)

    def finish(self) -> None:
        """Process the queue until it is empty."""
        while self.step():
            pass

    def enqueue(self, resource: Resource, stored: Stored) -> None:
        """Check whether this object must be deleted, or its deletion can proceed."""
        self._queue.append((resource.group_resource, *stored.key))
        self._wakeup.set()

    def step(self) -> bool:
        """Process one object; False if the queue was empty."""
        if not self._queue:
            self._wakeup.clear()
            return False
        resource_name, namespace, name = self._queue.popleft()
        try:
            resource = self._database.kinds.by_name(resource_name)
        except ApiError:
            return True
        stored = self._database.find(resource, (namespace, name))
        if stored is not None:
            self._attempt_to_delete(resource, stored)
        return True

    def _attempt_to_delete(self, resource: Resource, stored: Stored) -> None:
        document = stored.read()
        meta = document["metadata"]
        if "deletionTimestamp" in meta:
            self._process_deleting(resource, stored, meta.get("finalizers") or [])
        owners = [owner["uid"] for owner in meta.get("ownerReferences") or ()]
        orphaned = bool(owners) and not any(uid in self._database.keys_by_uid for uid in owners)
        owner_waits = "deletionTimestamp" not in meta and any(uid in self._waiting for uid in owners)
        if orphaned or owner_waits:
            without_admission(delete(self._database, resource, stored, DeleteOptions()))

    def _process_deleting(self, resource: Resource, stored: Stored, finalizers: list[str]) -> None:
        """Advance the deletion of an object: orphan or delete its dependents, then remove its finalizer."""
        if ORPHAN in finalizers:
            for key in tuple(self._database.dependents.get(stored.uid, ())):
                self._orphan(key, stored.uid)
            remove_finalizer(self._database, resource, stored, ORPHAN)
        elif FOREGROUND in finalizers:
            self._waiting.add(stored.uid)
            keys = self._database.dependents.get(stored.uid, ())
            self._enqueue(*keys)
            if not keys:
                remove_finalizer(self._database, resource, stored, FOREGROUND)
        elif resource.group_resource == "namespaces":
            self._empty_namespace(resource, stored)
        elif _CLEANUP in finalizers:
            self._empty_custom_resource(resource, stored)

    def _empty_namespace(self, resource: Resource, stored: Stored) -> None:
        if not self._database.namespace_counts.get(stored.name):
            remove_finalizer(self._database, resource, stored, "kubernetes")
            return
        for kind in tuple(self._database.kinds):
            if kind.namespaced:
                for dependent in list(self._database.collection(kind).page(stored.name)):
                    self._delete(kind, dependent)
        if not self._database.namespace_counts.get(stored.name):
            self.enqueue(resource, stored)

    def _empty_custom_resource(self, resource: Resource, stored: Stored) -> None:
        kind = self._database.kinds.by_name(stored.name)
        for instance in list(self._database.collection(kind).page()):
            self._delete(kind, instance)
        if not self._database.collection(kind).objects:
            remove_finalizer(self._database, resource, stored, _CLEANUP)
            self._database.kinds.unregister(stored.name)
            self._database.clear(kind)

    def _delete(self, kind: Resource, stored: Stored) -> None:
        if b'"deletionTimestamp"' not in stored.data:
            without_admission(delete(self._database, kind, stored, DeleteOptions()))

    def _orphan(self, key: ObjectKey, uid: str) -> None:
        resource = self._database.kinds.by_name(key[0])
        stored = self._database.find(resource, key[1:])
        if stored is not None:
            document = stored.read()
            meta = document["metadata"]
            remaining = [owner for owner in meta.pop("ownerReferences") if owner["uid"] != uid]
            meta |= {"ownerReferences": remaining} if remaining else {}
            self._database.write(resource, document)

    def _on_removed(self, resource: Resource, last: Stored) -> None:
        """Enqueue the dependents of a removed object, and whatever waited for its removal."""
        self._waiting.discard(last.uid)
        self._enqueue(*self._database.dependents.get(last.uid, ()))
        if last.namespace and last.namespace not in self._database.namespace_counts:
            self._enqueue(("namespaces", "", last.namespace))
        if resource.custom and not self._database.collection(resource).objects:
            self._enqueue((CRD_RESOURCE, "", resource.group_resource))
        if b'"ownerReferences"' in last.data and self._waiting:
            owners = last.read()["metadata"].get("ownerReferences") or ()
            self._enqueue(
                *(self._database.keys_by_uid[owner["uid"]] for owner in owners if owner["uid"] in self._waiting)
            )

    def _on_change(self, group_resource: str, change: Change) -> None:
        if change.type != "DELETED" and b'"deletionTimestamp"' in change.stored.data:
            self._enqueue((group_resource, *change.stored.key))

    def _enqueue(self, *keys: ObjectKey) -> None:
        if keys:
            self._queue.extend(keys)
            self._wakeup.set()

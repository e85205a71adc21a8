"""What follows deletes, done in small steps beside everything else: dependents, namespaces and kinds that go."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.kinds.crds import DEFINITIONS
from linkwise.embedded.writes.delete import FOREGROUND, ORPHAN, DeleteOptions, delete, release

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Change, Stored
    from linkwise.embedded.storage.database import Database, Place

__all__ = ["Collector"]

_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_AT_ONCE: Final = 100


class Collector:
    """Cleans up behind deletes; `run` it beside the server, or call `finish`."""

    def __init__(self, shelves: Database) -> None:
        self._shelves = shelves
        self._chores: deque[Place] = deque()
        """objects to look at"""
        self._news = asyncio.Event()
        self._waiting: set[str] = set()
        """UIDs of those who wait for their dependents"""
        shelves.gone.append(self._lost)
        for full in ("namespaces", DEFINITIONS):
            resource = shelves.kinds.named(full)
            shelves.shelf(resource).listeners.add(partial(self._changed, full))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._news.wait()
            for _ in range(_AT_ONCE):
                if not self.step():
                    break
            await asyncio.sleep(0)

    def finish(self) -> None:
        """Do all there is to do now."""
        while self.step():
            pass

    def look_at(self, resource: Resource, stored: Stored) -> None:
        """Somebody has to look whether this object has to go, or to go on."""
        self._chores.append((resource.full, *stored.key))
        self._news.set()

    def step(self) -> bool:
        """One object; whether there was one."""
        if not self._chores:
            self._news.clear()
            return False
        full, namespace, name = self._chores.popleft()
        try:
            resource = self._shelves.kinds.named(full)
        except ApiError:
            return True
        stored = self._shelves.find(resource, (namespace, name))
        if stored is not None:
            self._tend(resource, stored)
        return True

    def _tend(self, resource: Resource, stored: Stored) -> None:
        document = stored.read()
        meta = document["metadata"]
        if "deletionTimestamp" in meta:
            self._follow(resource, stored, meta.get("finalizers") or [])
        owners = [owner["uid"] for owner in meta.get("ownerReferences") or ()]
        lost = bool(owners) and not any(uid in self._shelves.places for uid in owners)
        led = "deletionTimestamp" not in meta and any(uid in self._waiting for uid in owners)
        if lost or led:
            delete(self._shelves, resource, stored, DeleteOptions())

    def _follow(self, resource: Resource, stored: Stored, finalizers: list[str]) -> None:
        """An object is being deleted: see to it that what it waits for happens."""
        if ORPHAN in finalizers:
            for place in tuple(self._shelves.dependents.get(stored.uid, ())):
                self._orphan(place, stored.uid)
            release(self._shelves, resource, stored, ORPHAN)
        elif FOREGROUND in finalizers:
            self._waiting.add(stored.uid)
            places = self._shelves.dependents.get(stored.uid, ())
            self._put(*places)
            if not places:
                release(self._shelves, resource, stored, FOREGROUND)
        elif resource.full == "namespaces":
            self._empty_space(resource, stored)
        elif _CLEANUP in finalizers:
            self._empty_kind(resource, stored)

    def _empty_space(self, resource: Resource, stored: Stored) -> None:
        if not self._shelves.counts.get(stored.name):
            release(self._shelves, resource, stored, "kubernetes")
            return
        for kind in tuple(self._shelves.kinds):
            if kind.namespaced:
                for found in list(self._shelves.shelf(kind).page(stored.name)):
                    self._delete(kind, found)
        if not self._shelves.counts.get(stored.name):
            self.look_at(resource, stored)

    def _empty_kind(self, resource: Resource, stored: Stored) -> None:
        kind = self._shelves.kinds.named(stored.name)
        for found in list(self._shelves.shelf(kind).page()):
            self._delete(kind, found)
        if not self._shelves.shelf(kind).objects:
            release(self._shelves, resource, stored, _CLEANUP)
            self._shelves.kinds.drop(stored.name)
            self._shelves.clear(kind)

    def _delete(self, kind: Resource, found: Stored) -> None:
        if b'"deletionTimestamp"' not in found.data:
            delete(self._shelves, kind, found, DeleteOptions())

    def _orphan(self, place: Place, uid: str) -> None:
        resource = self._shelves.kinds.named(place[0])
        stored = self._shelves.find(resource, place[1:])
        if stored is not None:
            document = stored.read()
            meta = document["metadata"]
            kept = [owner for owner in meta.pop("ownerReferences") if owner["uid"] != uid]
            meta |= {"ownerReferences": kept} if kept else {}
            self._shelves.write(resource, document)

    def _lost(self, resource: Resource, last: Stored) -> None:
        """An object is gone: whom it owned may have to follow, and who waited for it may go on."""
        self._waiting.discard(last.uid)
        self._put(*self._shelves.dependents.get(last.uid, ()))
        if last.namespace and last.namespace not in self._shelves.counts:
            self._put(("namespaces", "", last.namespace))
        if resource.custom and not self._shelves.shelf(resource).objects:
            self._put((DEFINITIONS, "", resource.full))
        if b'"ownerReferences"' in last.data and self._waiting:
            owners = last.read()["metadata"].get("ownerReferences") or ()
            self._put(*(self._shelves.places[owner["uid"]] for owner in owners if owner["uid"] in self._waiting))

    def _changed(self, full: str, change: Change) -> None:
        if change.type != "DELETED" and b'"deletionTimestamp"' in change.stored.data:
            self._put((full, *change.stored.key))

    def _put(self, *places: Place) -> None:
        if places:
            self._chores.extend(places)
            self._news.set()

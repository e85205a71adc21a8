"""Deletes: grace periods, finalizers, preconditions and propagation, and the garbage collector.

The garbage collector deletes dependents, the contents of terminating namespaces and the instances of deleted CRDs. It works
through a queue in small batches, so that requests are served in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.api_errors import ApiError, bad_request, conflict, forbidden
from linkwise.embedded.kinds.crds import CRD_RESOURCE
from linkwise.embedded.storage.database import timestamp
from linkwise.embedded.writes.admission import AdmissionRequest, without_admission
from linkwise.embedded.writes.update import can_remove, check_unchanged

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Change, Raw, Stored
    from linkwise.embedded.storage.database import Database, ObjectKey
    from linkwise.embedded.writes.admission import Write

__all__ = ["DeleteOptions", "GarbageCollector", "delete", "remove_finalizer"]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_FINISHED: Final = ("Succeeded", "Failed")
_PERMANENT_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_BATCH_SIZE: Final = 100


class Preconditions(msgspec.Struct, rename="camel"):
    """The UID and resourceVersion that a delete requires."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """DeleteOptions of a request."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions = msgspec.field(default_factory=Preconditions)
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] = []


def delete(database: Database, resource: Resource, old: Stored, options: DeleteOptions) -> Write[tuple[Stored, bool]]:
    """Delete an object; returns its state afterwards and whether it is removed."""
    _check_preconditions(resource, old, options)
    for mutating in (True, False):  # there is no object to change, but mutating webhooks are asked too
        yield AdmissionRequest(
            mutating=mutating,
            operation="DELETE",
            resource=resource,
            namespace=old.namespace,
            name=old.name,
            object=None,
            old=old,
            dry_run=bool(options.dry_run),
            options=options,
        )
    check_unchanged(database, resource, old)
    document = old.read()
    meta = document["metadata"]
    grace_period = _grace_period(resource, document, options)
    starts = "deletionTimestamp" not in meta
    _add_finalizer(database, old, document, _policy(options))
    if resource.group_resource == "namespaces":
        document.setdefault("status", {})["phase"] = "Terminating"
    if resource.group_resource == CRD_RESOURCE and starts:
        meta["finalizers"] = [*meta.get("finalizers", ()), "customresourcecleanup.apiextensions.k8s.io"]
    if starts or grace_period < (meta.get("deletionGracePeriodSeconds") or 0):
        meta |= {
            "deletionTimestamp": timestamp(database.clock() + grace_period),
            "deletionGracePeriodSeconds": grace_period,
        }
        if starts and "generation" in meta:
            meta["generation"] += 1
    dry_run = bool(options.dry_run)
    if can_remove(document):
        if starts:  # the DELETED event of an immediate delete carries no deletion timestamp
            del meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]
        return (old if dry_run else database.remove(resource, document)), True
    preview = database.preview(resource, document, old.version)
    if dry_run or preview.data == old.data:
        return preview, False
    return database.write(resource, document), False


def remove_finalizer(database: Database, resource: Resource, old: Stored, finalizer: str) -> None:
    """Remove a finalizer; the object is removed if it was the last one."""
    document = old.read()
    meta = document["metadata"]
    namespace_spec = document.get("spec") if resource.group_resource == "namespaces" else None
    before = meta.get("finalizers") or [], (namespace_spec or {}).get("finalizers") or []
    remaining, remaining_in_spec = ([entry for entry in entries if entry != finalizer] for entries in before)
    if (remaining, remaining_in_spec) == before:
        return  # not present; another finalizer blocks the removal
    meta.pop("finalizers", None)
    if remaining:
        meta["finalizers"] = remaining
    if resource.group_resource == "namespaces":
        document["spec"] = {"finalizers": remaining_in_spec}
    if can_remove(document):
        database.remove(resource, document)
    else:
        database.write(resource, document)


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


def _check_preconditions(resource: Resource, old: Stored, options: DeleteOptions) -> None:
    preconditions = options.preconditions
    if preconditions.uid is not None and preconditions.uid != old.uid:
        message = f"Precondition failed: UID in precondition: {preconditions.uid}, UID in object meta: {old.uid}"
        raise conflict(resource, old.name, message)
    if preconditions.resource_version is not None and preconditions.resource_version != str(old.version):
        message = (
            f"Precondition failed: ResourceVersion in precondition: {preconditions.resource_version},"
            f" ResourceVersion in object meta: {old.version}"
        )
        raise conflict(resource, old.name, message)
    if options.propagation_policy not in {None, "Orphan", "Background", "Foreground"}:
        raise bad_request(
            f'DeletionPropagation: Unsupported value: "{options.propagation_policy}":'
            ' supported values: "Orphan", "Background", "Foreground"'
        )
    if resource.group_resource == "namespaces" and old.name in _PERMANENT_NAMESPACES:
        raise forbidden(resource, old.name, "this namespace may not be deleted")


def _grace_period(resource: Resource, document: Raw, options: DeleteOptions) -> int:
    """The grace period: only pods that run on a node need time to stop."""
    if resource.group_resource != "pods":
        return 0
    spec, status = document["spec"], document.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _FINISHED:
        return 0
    requested = options.grace_period_seconds
    seconds = requested if requested is not None else int(spec.get("terminationGracePeriodSeconds") or 0)
    return max(seconds, 0)


def _add_finalizer(database: Database, old: Stored, document: Raw, policy: str) -> None:
    """Block the removal until the garbage collector has deleted or orphaned the dependents."""
    finalizer = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
    finalizers = document["metadata"].get("finalizers", [])
    if finalizer and old.uid in database.dependents and finalizer not in finalizers:
        document["metadata"]["finalizers"] = [*finalizers, finalizer]


def _policy(options: DeleteOptions) -> str:
    if options.propagation_policy:
        return options.propagation_policy
    return "Orphan" if options.orphan_dependents else "Background"

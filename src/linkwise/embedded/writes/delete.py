"""Deletes: grace periods, finalizers, preconditions and propagation policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.api_errors import bad_request, conflict, forbidden
from linkwise.embedded.kinds.crds import CRD_RESOURCE
from linkwise.embedded.storage.database import timestamp
from linkwise.embedded.writes.admission import AdmissionRequest
from linkwise.embedded.writes.update import can_remove, check_unchanged

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.writes.admission import Write

__all__ = ["DeleteOptions", "delete", "remove_finalizer"]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_FINISHED: Final = ("Succeeded", "Failed")
_PERMANENT_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


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


def _policy(options: DeleteOptions) -> str:
    if options.propagation_policy:
        return options.propagation_policy
    return "Orphan" if options.orphan_dependents else "Background"


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

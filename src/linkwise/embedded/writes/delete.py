"""Deletes: with grace where something runs, held up by finalizers, and followed by whom the object owned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.api_errors import bad_request, conflict, forbidden
from linkwise.embedded.kinds.crds import DEFINITIONS
from linkwise.embedded.storage.database import timestamp
from linkwise.embedded.writes.update import unguarded

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.database import Database

__all__ = ["DeleteOptions", "delete", "release"]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_OVER: Final = ("Succeeded", "Failed")
_KEPT_SPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


class Preconditions(msgspec.Struct, rename="camel"):
    """What must hold of the object that is meant."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """How an object is deleted."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions = msgspec.field(default_factory=Preconditions)
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] = []


def delete(shelves: Database, resource: Resource, old: Stored, options: DeleteOptions) -> tuple[Stored, bool]:
    """Delete an object: as it is afterwards, and whether it is gone."""
    _check(resource, old, options)
    document = old.read()
    meta = document["metadata"]
    grace = _grace(resource, document, options)
    first = "deletionTimestamp" not in meta
    _hold(shelves, old, document, _policy(options))
    if resource.full == "namespaces":
        document.setdefault("status", {})["phase"] = "Terminating"
    if resource.full == DEFINITIONS and first:
        meta["finalizers"] = [*meta.get("finalizers", ()), "customresourcecleanup.apiextensions.k8s.io"]
    if first or grace < (meta.get("deletionGracePeriodSeconds") or 0):
        meta |= {"deletionTimestamp": timestamp(shelves.clock() + grace), "deletionGracePeriodSeconds": grace}
        if first and "generation" in meta:
            meta["generation"] += 1
    dry = bool(options.dry_run)
    if unguarded(document):
        if first:  # what goes at once is told as it was
            del meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]
        return (old if dry else shelves.remove(resource, document)), True
    same = shelves.preview(resource, document, old.version)
    if dry or same.data == old.data:
        return same, False
    return shelves.write(resource, document), False


def release(shelves: Database, resource: Resource, old: Stored, finalizer: str) -> None:
    """Take away one reason to keep an object; it goes if that was the last."""
    document = old.read()
    meta = document["metadata"]
    spaces = document.get("spec") if resource.full == "namespaces" else None
    before = meta.get("finalizers") or [], (spaces or {}).get("finalizers") or []
    kept, kept_inside = ([found for found in some if found != finalizer] for some in before)
    if (kept, kept_inside) == before:
        return  # it waits for others, and nothing that is done here changes that
    meta.pop("finalizers", None)
    if kept:
        meta["finalizers"] = kept
    if resource.full == "namespaces":
        document["spec"] = {"finalizers": kept_inside}
    if unguarded(document):
        shelves.remove(resource, document)
    else:
        shelves.write(resource, document)


def _check(resource: Resource, old: Stored, options: DeleteOptions) -> None:
    wanted = options.preconditions
    if wanted.uid is not None and wanted.uid != old.uid:
        why = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {old.uid}"
        raise conflict(resource, old.name, why)
    if wanted.resource_version is not None and wanted.resource_version != str(old.version):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {wanted.resource_version},"
            f" ResourceVersion in object meta: {old.version}"
        )
        raise conflict(resource, old.name, why)
    if options.propagation_policy not in {None, "Orphan", "Background", "Foreground"}:
        raise bad_request(
            f"propagationPolicy: {options.propagation_policy!r} is not one of Orphan, Background, Foreground"
        )
    if resource.full == "namespaces" and old.name in _KEPT_SPACES:
        raise forbidden(resource, old.name, "this namespace may not be deleted")


def _policy(options: DeleteOptions) -> str:
    if options.propagation_policy:
        return options.propagation_policy
    return "Orphan" if options.orphan_dependents else "Background"


def _grace(resource: Resource, document: Raw, options: DeleteOptions) -> int:
    """How long something may run on: only what was started on a node needs time to stop."""
    if resource.full != "pods":
        return 0
    spec, status = document["spec"], document.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _OVER:
        return 0
    asked = options.grace_period_seconds
    grace = asked if asked is not None else int(spec.get("terminationGracePeriodSeconds") or 0)
    return max(grace, 0)


def _hold(shelves: Database, old: Stored, document: Raw, policy: str) -> None:
    """Keep an object until those whom it owns are gone, or have been told that it is not theirs any more."""
    word = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
    finalizers = document["metadata"].get("finalizers", [])
    if word and old.uid in shelves.dependents and word not in finalizers:
        document["metadata"]["finalizers"] = [*finalizers, word]

"""Changes of objects: what is asked for, without what may not change or is not theirs to write, kept if it differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import Cause, bad_request, conflict, invalid
from linkwise.embedded.kinds.crds import DEFINITIONS, established
from linkwise.embedded.kinds.fields import known_fields
from linkwise.embedded.kinds.object_types import meta_of, without_nulls
from linkwise.embedded.writes.defaults import give_defaults
from linkwise.embedded.writes.validation import check_change, check_kind, check_object

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.object_types import Meta
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.database import Database

__all__ = ["change", "keep", "unguarded"]

_KEPT: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
    "resourceVersion",
)
"""of the metadata: what is never written by a change"""
_BESIDE_STATUS: Final = ("labels", "annotations")
_TO_NAME: Final = "must be specified for an update"


def change(  # noqa: PLR0913 - a request has these parts
    shelves: Database,
    resource: Resource,
    old: Stored,
    given: Raw,
    part: str = "",
    *,
    patching: bool = False,
    dry: bool = False,
) -> Stored:
    """Put an object in the place of what it was; RefusedError if that makes no sense or it was changed meanwhile."""
    document: Raw = without_nulls(given)
    check_kind(resource, document)
    document = known_fields(shelves.kinds.told(resource), document)
    meta = meta_of(document)
    _check_same(resource, old, meta, patching=patching)
    before = old.read()
    _expect_version(resource, old, meta)
    document = _parted(resource, before, document, part)
    about, was = document.setdefault("metadata", {}), before["metadata"]
    for word in _KEPT:
        about.pop(word, None)
    about.pop("managedFields", None)
    document["metadata"] = {word: was[word] for word in _KEPT if word in was} | about
    document = _mended(shelves, resource, document)
    check_object(shelves, resource, document)
    check_change(resource, before, document)
    return keep(shelves, resource, old, before, document, dry=dry)


def keep(  # noqa: PLR0913 - a request has these parts
    shelves: Database, resource: Resource, old: Stored, before: Raw, document: Raw, *, dry: bool = False
) -> Stored:
    """Write an object that was checked, if it is not as it was; one that is being deleted may go with that."""
    document["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
    if resource.counted and _wishes(document) != _wishes(before):
        document["metadata"]["generation"] = document["metadata"].get("generation", 0) + 1
    if unguarded(document):
        return shelves.preview(resource, document, old.version) if dry else shelves.remove(resource, document)
    head = {"apiVersion": before["apiVersion"], "kind": before["kind"]}
    if document | head == before:
        return old
    return shelves.preview(resource, document, old.version) if dry else shelves.write(resource, document)


def unguarded(document: Raw) -> bool:
    """Whether an object is being deleted, and nobody wants it kept any more."""
    meta = document["metadata"]
    space = document["kind"] == "Namespace" and (document.get("spec") or {}).get("finalizers")
    waits = meta.get("deletionGracePeriodSeconds") or meta.get("finalizers") or space
    return "deletionTimestamp" in meta and not waits


def _check_same(resource: Resource, old: Stored, meta: Meta, *, patching: bool) -> None:
    if not patching and not meta.name:
        raise bad_request("name must be provided")
    if meta.name and meta.name != old.name:
        raise bad_request(f"the name of the object ({meta.name}) does not match the name on the URL ({old.name})")
    if meta.namespace and meta.namespace != old.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if meta.uid and meta.uid != old.uid:
        if patching:
            raise invalid(
                resource, old.name, [Cause("metadata.uid", f'Invalid value: "{meta.uid}": field is immutable')]
            )
        why = f"Precondition failed: UID in precondition: {meta.uid}, UID in object meta: {old.uid}"
        raise conflict(resource, old.name, why)


def _expect_version(resource: Resource, old: Stored, meta: Meta) -> None:
    if not meta.resource_version or meta.resource_version == "0":
        if resource.strict:
            raise invalid(resource, old.name, [Cause("metadata.resourceVersion", f"Invalid value: 0: {_TO_NAME}")])
    elif meta.resource_version != str(old.version):
        raise conflict(resource, old.name)


def _parted(resource: Resource, before: Raw, document: Raw, part: str) -> Raw:
    """What of a change counts: the status has a path of its own, where it has one."""
    if part == "status":
        found = {**before, "metadata": dict(before["metadata"])}
        found.pop("status", None)
        if "status" in document:
            found["status"] = document["status"]
        if not resource.custom:
            given = document.get("metadata") or {}
            for word in _BESIDE_STATUS:
                found["metadata"].pop(word, None)
                if word in given:
                    found["metadata"][word] = given[word]
        return found
    if "status" in resource.parts:
        document.pop("status", None)
        if "status" in before:
            document["status"] = before["status"]
    return document


def _mended(shelves: Database, resource: Resource, document: Raw) -> Raw:
    give_defaults(resource.full, document)
    if resource.full == DEFINITIONS and "spec" in document:
        check_object(shelves, resource, document)
        status = document.get("status")
        established(document, shelves.now)
        document["status"] = status or document["status"]
    return document


def _wishes(document: Raw) -> Raw:
    return {key: value for key, value in document.items() if key not in {"metadata", "status", "apiVersion", "kind"}}

"""Updates: merge a request into the stored object, admit, validate, and write it if it differs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import Cause, bad_request, conflict, invalid
from linkwise.embedded.kinds.crds import CRD_RESOURCE, mark_established
from linkwise.embedded.kinds.fields import drop_unknown_fields
from linkwise.embedded.kinds.object_types import meta_of, without_nulls
from linkwise.embedded.writes.admission import AdmissionRequest, ChangedMeanwhileError
from linkwise.embedded.writes.defaults import set_defaults
from linkwise.embedded.writes.validation import check_kind, check_object, check_update

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.object_types import ObjectMeta
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.writes.admission import Write

__all__ = ["can_remove", "check_unchanged", "update", "write_if_changed"]

_IMMUTABLE_METADATA: Final = (
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
"""metadata that updates never change"""
_STATUS_METADATA: Final = ("labels", "annotations")
_REQUIRED_MESSAGE: Final = "must be specified for an update"


def update(  # noqa: PLR0913 - a request has these parts
    database: Database,
    resource: Resource,
    old: Stored,
    body: Raw,
    subresource: str = "",
    *,
    patching: bool = False,
    dry_run: bool = False,
) -> Write[Stored]:
    """Replace an object; ApiError if the update is invalid or conflicts with another write."""
    document: Raw = without_nulls(body)
    check_kind(resource, document)
    document = drop_unknown_fields(database.kinds.served(resource), document)
    meta = meta_of(document)
    _check_identity(resource, old, meta, patching=patching)
    before = old.read()
    _check_version(resource, old, meta)
    document = _merge(database, resource, before, document, subresource)
    request = AdmissionRequest(
        mutating=True,
        operation="UPDATE",
        resource=resource,
        namespace=old.namespace,
        name=old.name,
        object=document,
        old=old,
        subresource=subresource,
        dry_run=dry_run,
    )
    admitted = yield request
    if admitted is not None and admitted is not document:
        document = drop_unknown_fields(database.kinds.served(resource), without_nulls(admitted))
        meta_of(document)  # ApiError if it is malformed now
        document = _merge(database, resource, before, document, subresource)
    check_object(database, resource, document)
    check_update(resource, before, document)
    yield replace(request, mutating=False, object=document)
    check_unchanged(database, resource, old)
    return write_if_changed(database, resource, old, before, document, dry_run=dry_run)


def check_unchanged(database: Database, resource: Resource, old: Stored) -> None:
    """ChangedMeanwhileError if the object was written or removed since the write began."""
    if database.find(resource, old.key) is not old:
        raise ChangedMeanwhileError(resource, old.name)


def write_if_changed(  # noqa: PLR0913 - a request has these parts
    database: Database, resource: Resource, old: Stored, before: Raw, document: Raw, *, dry_run: bool = False
) -> Stored:
    """Write a validated object if it differs; removes it if its last finalizer is gone."""
    document["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
    if resource.has_generation and _generation_fields(document) != _generation_fields(before):
        document["metadata"]["generation"] = document["metadata"].get("generation", 0) + 1
    if can_remove(document):
        return database.preview(resource, document, old.version) if dry_run else database.remove(resource, document)
    head = {"apiVersion": before["apiVersion"], "kind": before["kind"]}
    if document | head == before:
        return old
    return database.preview(resource, document, old.version) if dry_run else database.write(resource, document)


def can_remove(document: Raw) -> bool:
    """Whether an object is being deleted and neither a grace period nor a finalizer blocks its removal."""
    meta = document["metadata"]
    namespace_finalizers = document["kind"] == "Namespace" and (document.get("spec") or {}).get("finalizers")
    blocked = meta.get("deletionGracePeriodSeconds") or meta.get("finalizers") or namespace_finalizers
    return "deletionTimestamp" in meta and not blocked


def _check_identity(resource: Resource, old: Stored, meta: ObjectMeta, *, patching: bool) -> None:
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
        message = f"Precondition failed: UID in precondition: {meta.uid}, UID in object meta: {old.uid}"
        raise conflict(resource, old.name, message)


def _check_version(resource: Resource, old: Stored, meta: ObjectMeta) -> None:
    if not meta.resource_version or meta.resource_version == "0":
        if resource.requires_resource_version:
            raise invalid(
                resource, old.name, [Cause("metadata.resourceVersion", f"Invalid value: 0: {_REQUIRED_MESSAGE}")]
            )
    elif meta.resource_version != str(old.version):
        raise conflict(resource, old.name)


def _merge(database: Database, resource: Resource, before: Raw, document: Raw, subresource: str) -> Raw:
    """The object as it would be written: fields that the request can't write as they were, and defaults."""
    document = _merge_subresource(resource, before, document, subresource)
    new_meta, old_meta = document.setdefault("metadata", {}), before["metadata"]
    for key in _IMMUTABLE_METADATA:
        new_meta.pop(key, None)
    new_meta.pop("managedFields", None)
    document["metadata"] = {key: old_meta[key] for key in _IMMUTABLE_METADATA if key in old_meta} | new_meta
    return _prepare(database, resource, document)


def _merge_subresource(resource: Resource, before: Raw, document: Raw, subresource: str) -> Raw:
    """Ignore the fields that the addressed path can't write: status has its own subresource."""
    if subresource == "status":
        result = {**before, "metadata": dict(before["metadata"])}
        result.pop("status", None)
        if "status" in document:
            result["status"] = document["status"]
        if not resource.custom:
            meta = document.get("metadata") or {}
            for key in _STATUS_METADATA:
                result["metadata"].pop(key, None)
                if key in meta:
                    result["metadata"][key] = meta[key]
        return result
    if "status" in resource.subresources:
        document.pop("status", None)
        if "status" in before:
            document["status"] = before["status"]
    return document


def _prepare(database: Database, resource: Resource, document: Raw) -> Raw:
    set_defaults(resource.group_resource, document, database.now)
    if resource.group_resource == CRD_RESOURCE and "spec" in document:
        check_object(database, resource, document)
        status = document.get("status")
        mark_established(document, database.now)
        document["status"] = status or document["status"]
    return document


def _generation_fields(document: Raw) -> Raw:
    return {key: value for key, value in document.items() if key not in {"metadata", "status", "apiVersion", "kind"}}

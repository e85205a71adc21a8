"""Creates: set defaults, admit, generate name and UID, validate, write."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import bad_request, exists, forbidden, not_found
from linkwise.embedded.kinds.crds import CRD_RESOURCE, mark_established
from linkwise.embedded.kinds.fields import drop_unknown_fields
from linkwise.embedded.kinds.object_types import meta_of, without_nulls
from linkwise.embedded.writes.admission import AdmissionRequest
from linkwise.embedded.writes.defaults import qos_class, set_defaults
from linkwise.embedded.writes.field_rules import gated_condition
from linkwise.embedded.writes.validation import check_kind, check_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.object_types import ObjectMeta
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.writes.admission import Write

__all__ = ["create"]

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""of generated names: no vowels, as in Kubernetes, so that they spell no words"""
_PREFIX_LENGTH: Final = 58
_SERVER_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_WITH_STATUS: Final = frozenset({"nodes", "namespaces", "services"})
"""resources whose status can be set on create"""
_NAMED_DEFAULTS: Final = frozenset({"namespaces", "jobs.batch"})
"""resources with defaults that depend on the name or the UID"""
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def create(  # noqa: PLR0913 - a request has these parts
    database: Database,
    resource: Resource,
    namespace: str,
    body: Raw,
    choose: Callable[[str], str],
    *,
    dry_run: bool = False,
) -> Write[Stored]:
    """Create an object; ApiError if it is invalid or already exists."""
    document, meta = _decode(database, resource, body)
    _check_namespace(database, resource, namespace, meta)
    _set_server_metadata(resource, namespace, document)
    _set_defaults(database, resource, document)
    version = database.version
    request = AdmissionRequest(
        mutating=True,
        operation="CREATE",
        resource=resource,
        namespace=namespace,
        name=meta.name,
        object=document,
        dry_run=dry_run,
    )
    admitted = yield request
    if admitted is not None and admitted is not document:
        document, meta = _decode(database, resource, admitted)
        _set_server_metadata(resource, namespace, document)
        _set_defaults(database, resource, document)
    new_meta = document["metadata"]
    if not new_meta.get("name") and new_meta.get("generateName"):
        new_meta["name"] = _generate_name(database, resource, namespace, meta.generate_name, choose)
    new_meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": database.now}
    if resource.has_generation:
        new_meta["generation"] = 1
    _complete(database, resource, document)
    yield replace(request, mutating=False, name=new_meta["name"], object=document)
    if database.version != version:  # admission was waiting
        _check_namespace(database, resource, namespace, meta)
    if database.find(resource, (namespace, new_meta["name"])) is not None:
        raise exists(resource, new_meta["name"])
    return database.preview(resource, document, 0) if dry_run else database.write(resource, document)


def _decode(database: Database, resource: Resource, body: Raw) -> tuple[Raw, ObjectMeta]:
    document: Raw = without_nulls(body)
    check_kind(resource, document)
    document = drop_unknown_fields(database.kinds.served(resource), document)
    return document, meta_of(document)


def _set_server_metadata(resource: Resource, namespace: str, document: Raw) -> None:
    """Remove the metadata that only the server sets."""
    meta = document.setdefault("metadata", {})
    for key in _SERVER_METADATA:
        meta.pop(key, None)
    if resource.namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)


def _check_namespace(database: Database, resource: Resource, namespace: str, meta: ObjectMeta) -> None:
    if meta.resource_version:
        raise bad_request("resourceVersion should not be set on objects to be created")
    if not resource.namespaced:
        return
    if meta.namespace and meta.namespace != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    namespaces = database.kinds.by_name("namespaces")
    stored = database.find(namespaces, ("", namespace))
    if stored is None:
        raise not_found(namespaces, namespace)
    if stored.fields.get("status.phase") == "Terminating":
        reason = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource, meta.name or meta.generate_name, reason)


def _generate_name(
    database: Database, resource: Resource, namespace: str, prefix: str, choose: Callable[[str], str]
) -> str:
    for _ in range(8):
        name = prefix[:_PREFIX_LENGTH] + "".join(choose(_SUFFIX_ALPHABET) for _ in range(5))
        if database.find(resource, (namespace, name)) is None:
            return name
    raise exists(resource, name)


def _set_defaults(database: Database, resource: Resource, document: Raw) -> None:
    """Set what does not depend on the name and the UID."""
    if "status" in resource.subresources and resource.group_resource not in _WITH_STATUS:
        document.pop("status", None)
    set_defaults(resource.group_resource, document, database.now)
    if resource.group_resource == "pods":
        _set_priority(database, resource, document)


def _complete(database: Database, resource: Resource, document: Raw) -> None:
    """Set what depends on the name and the UID, validate, and set the first status."""
    if resource.group_resource in _NAMED_DEFAULTS:
        set_defaults(resource.group_resource, document, database.now)
    check_object(database, resource, document)
    if resource.group_resource == "pods":
        _init_pod_status(database, document)
    elif resource.group_resource == CRD_RESOURCE:
        mark_established(document, database.now)


def _init_pod_status(database: Database, document: Raw) -> None:
    spec = document["spec"]
    status: Raw = {"phase": "Pending", "qosClass": qos_class(spec)}
    if (condition := gated_condition(spec, database.now)) is not None:
        status["conditions"] = [condition]
    document["status"] = status


def _set_priority(database: Database, resource: Resource, document: Raw) -> None:
    spec = document["spec"]
    if not isinstance(spec, dict):
        return
    name, value, policy = spec.get("priorityClassName"), 0, "PreemptLowerPriority"
    classes = database.kinds.by_name("priorityclasses.scheduling.k8s.io")
    if name in _SYSTEM_PRIORITIES:
        value = _SYSTEM_PRIORITIES[name]
    elif isinstance(name, str) and name:
        stored = database.find(classes, ("", name))
        if stored is None:
            reason = f"no PriorityClass with name {name} was found"
            raise forbidden(resource, document["metadata"].get("name", ""), reason)
        priority_class = stored.read()
        value, policy = priority_class.get("value", 0), priority_class.get("preemptionPolicy", policy)
    else:
        for stored in database.collection(classes).objects.values():
            if b'"globalDefault":true' in stored.data:
                priority_class = stored.read()
                value, spec["priorityClassName"] = priority_class.get("value", 0), stored.name
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)

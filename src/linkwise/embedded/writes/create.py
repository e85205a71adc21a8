"""New objects: named, given a UID and what they do not say themselves, checked, and kept."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import bad_request, exists, forbidden, not_found
from linkwise.embedded.kinds.crds import DEFINITIONS, established
from linkwise.embedded.kinds.fields import known_fields
from linkwise.embedded.kinds.object_types import meta_of, without_nulls
from linkwise.embedded.writes.defaults import give_defaults, quality
from linkwise.embedded.writes.pod_rules import gated_condition
from linkwise.embedded.writes.validation import check_kind, check_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.object_types import Meta
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.database import Database

__all__ = ["create"]

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""that make no words"""
_LONGEST: Final = 58
_SAID_BY_OTHERS: Final = ("selfLink", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds")
_WITH_STATUS: Final = frozenset({"nodes", "namespaces", "services"})
"""kinds that may be made with a status"""
_CRITICAL: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def create(  # noqa: PLR0913 - a request has these parts
    shelves: Database,
    resource: Resource,
    namespace: str,
    given: Raw,
    chance: Callable[[str], str],
    *,
    dry: bool = False,
) -> Stored:
    """Keep a new object; RefusedError if it makes no sense or is there already."""
    document: Raw = without_nulls(given)
    check_kind(resource, document)
    document = known_fields(shelves.kinds.told(resource), document)
    meta = meta_of(document)
    _check_place(shelves, resource, namespace, meta)
    about = document.setdefault("metadata", {})
    if not meta.name and meta.generate_name:
        about["name"] = _free_name(shelves, resource, namespace, meta.generate_name, chance)
    for word in _SAID_BY_OTHERS:
        about.pop(word, None)
    if resource.namespaced:
        about["namespace"] = namespace
    else:
        about.pop("namespace", None)
    about |= {"uid": str(uuid.uuid4()), "creationTimestamp": shelves.now}
    about.pop("generation", None)
    if resource.counted:
        about["generation"] = 1
    document = _prepared(shelves, resource, document)
    if shelves.find(resource, (namespace, about["name"])) is not None:
        raise exists(resource, about["name"])
    return shelves.preview(resource, document, 0) if dry else shelves.write(resource, document)


def _check_place(shelves: Database, resource: Resource, namespace: str, meta: Meta) -> None:
    if meta.resource_version:
        raise bad_request("resourceVersion should not be set on objects to be created")
    if not resource.namespaced:
        return
    if meta.namespace and meta.namespace != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    spaces = shelves.kinds.named("namespaces")
    found = shelves.find(spaces, ("", namespace))
    if found is None:
        raise not_found(spaces, namespace)
    if found.fields.get("status.phase") == "Terminating":
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource, meta.name or meta.generate_name, why)


def _free_name(shelves: Database, resource: Resource, namespace: str, begin: str, chance: Callable[[str], str]) -> str:
    for _ in range(8):
        name = begin[:_LONGEST] + "".join(chance(_LETTERS) for _ in range(5))
        if shelves.find(resource, (namespace, name)) is None:
            return name
    raise exists(resource, name)


def _prepared(shelves: Database, resource: Resource, document: Raw) -> Raw:
    """The object with all that a new one is given, checked."""
    if "status" in resource.parts and resource.full not in _WITH_STATUS:
        document.pop("status", None)
    give_defaults(resource.full, document)
    if resource.full == "pods":
        _give_priority(shelves, resource, document)
    check_object(shelves, resource, document)
    if resource.full == "pods":
        _begin_pod(shelves, document)
    elif resource.full == DEFINITIONS:
        established(document, shelves.now)
    return document


def _begin_pod(shelves: Database, document: Raw) -> None:
    spec = document["spec"]
    status: Raw = {"phase": "Pending", "qosClass": quality(spec)}
    if (condition := gated_condition(spec, shelves.now)) is not None:
        status["conditions"] = [condition]
    document["status"] = status


def _give_priority(shelves: Database, resource: Resource, document: Raw) -> None:
    spec = document["spec"]
    if not isinstance(spec, dict):
        return
    name, value, policy = spec.get("priorityClassName"), 0, "PreemptLowerPriority"
    classes = shelves.kinds.named("priorityclasses.scheduling.k8s.io")
    if name in _CRITICAL:
        value = _CRITICAL[name]
    elif isinstance(name, str) and name:
        found = shelves.find(classes, ("", name))
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(resource, document["metadata"].get("name", ""), why)
        known = found.read()
        value, policy = known.get("value", 0), known.get("preemptionPolicy", policy)
    else:
        for found in shelves.shelf(classes).objects.values():
            if b'"globalDefault":true' in found.data:
                known = found.read()
                value, spec["priorityClassName"] = known.get("value", 0), found.name
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)

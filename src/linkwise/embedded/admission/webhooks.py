"""Admission webhooks as their configurations define them, and the writes that each applies to.

Source: Kubernetes, "Dynamic Admission Control", matching requests. There is no CEL interpreter: matchConditions are not
evaluated and count as met, so a webhook sees requests that it would not see on a real cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from linkwise.embedded.kinds.object_types import ApiType
from linkwise.embedded.kinds.webhook_configurations import WebhookFields
from linkwise.embedded.storage.selectors import labels_match

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.webhook_configurations import Rule
    from linkwise.embedded.storage.collection import Change, Raw
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.writes.admission import AdmissionRequest

__all__ = ["Webhook", "Webhooks"]


class Webhook(WebhookFields, frozen=True):
    """One webhook, with the requests that it applies to."""

    def matched_version(self, database: Database, request: AdmissionRequest) -> Resource | None:
        """The version of the resource in which the webhook wants the request; None if it does not apply."""
        version = self._version(database, request)
        if version is None or not self._namespace_matches(database, request):
            return None
        return version if self._object_matches(request) else None

    def _version(self, database: Database, request: AdmissionRequest) -> Resource | None:
        """The requested version if a rule has it, or else another one, unless only exact matches are wanted."""
        requested = request.resource
        if any(_rule_matches(rule, request, requested) for rule in self.rules):
            return requested
        if self.match_policy != "Equivalent":
            return None
        others = (version for version in database.kinds.versions(requested) if version != requested)
        return next((each for each in others if any(_rule_matches(rule, request, each) for rule in self.rules)), None)

    def _namespace_matches(self, database: Database, request: AdmissionRequest) -> bool:
        """Whether the selector matches the namespace of the object; a Namespace is matched by its own labels."""
        selector = self.namespace_selector
        if not selector:
            return True
        if request.resource.group_resource == "namespaces":
            return labels_match(selector, _labels(request))
        if not request.resource.namespaced:
            return True
        namespace = database.find(database.kinds.by_name("namespaces"), ("", request.namespace))
        return labels_match(selector, namespace.labels if namespace else {})

    def _object_matches(self, request: AdmissionRequest) -> bool:
        """Whether the selector matches the object or, on an update, the stored one."""
        selector = self.object_selector
        if not selector:
            return True
        before = request.old is not None and labels_match(selector, request.old.labels)
        return before or (request.object is not None and labels_match(selector, _labels(request)))


def _rule_matches(rule: Rule, request: AdmissionRequest, resource: Resource) -> bool:
    """Whether a rule applies to a request for this version of the resource."""
    return (
        (resource.group in rule.api_groups or "*" in rule.api_groups)
        and (request.operation in rule.operations or "*" in rule.operations)
        and ("*" in rule.api_versions or resource.version in rule.api_versions)
        and any(_resource_matches(name, resource.plural, request.subresource) for name in rule.resources)
        and rule.scope in {"*", "Namespaced" if resource.namespaced else "Cluster"}
    )


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    """`pods` is the resource alone, `pods/*` with all subresources, `*/*` everything."""
    resource, _, part = pattern.partition("/")
    return resource in {"*", plural} and part in {"*", subresource}


def _labels(request: AdmissionRequest) -> dict[str, str]:
    meta: Raw = (request.object or {}).get("metadata") or {}
    return meta.get("labels") or ({} if request.object or request.old is None else dict(request.old.labels))


class _Configuration(ApiType, frozen=True):
    webhooks: tuple[Webhook, ...] = ()


class Webhooks:
    """All configured webhooks of one type, in the order in which they are called: by configuration, then as listed."""

    def __init__(self, database: Database, group_resource: str) -> None:
        self._collection = database.collection(database.kinds.by_name(group_resource))
        self._collection.listeners.add(self._read)
        self.all: tuple[Webhook, ...] = ()
        self._read()

    def _read(self, _: Change | None = None) -> None:
        self.all = tuple(
            webhook
            for stored in self._collection.page()
            for webhook in msgspec.json.decode(stored.data, type=_Configuration).webhooks
        )

"""Pods given to a node, and pods sent away: one write each, refused where another one was faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from linkwise.embedded.api_errors import Cause, bad_request, conflict, invalid, too_many
from linkwise.embedded.kinds.object_types import Meta
from linkwise.embedded.storage.selectors import labels_match
from linkwise.embedded.writes.delete import DeleteOptions, delete
from linkwise.embedded.writes.pod_rules import with_condition

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.database import Database

__all__ = ["bind", "evict"]


class _Target(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct):
    target: _Target
    metadata: Meta = msgspec.field(default_factory=Meta)


class _Eviction(msgspec.Struct, rename="camel"):
    metadata: Meta = msgspec.field(default_factory=Meta)
    delete_options: DeleteOptions = msgspec.field(default_factory=DeleteOptions)


def bind(shelves: Database, pods: Resource, old: Stored, given: Raw, *, dry: bool = False) -> Stored:
    """Write a pod's node, and the labels and annotations of the binding with it."""
    try:
        binding = msgspec.convert(given, _Binding)
    except msgspec.ValidationError as error:
        raise bad_request(f'Binding in version "v1" cannot be handled as a Binding: {error}') from error
    _check_binding(pods, old, binding)
    document = old.read()
    meta, spec, status = document["metadata"], document["spec"], document.setdefault("status", {})
    if "deletionTimestamp" in meta:
        raise conflict(pods, old.name, f"pod {old.name} is being deleted, cannot be assigned to a host", part="binding")
    if spec.get("nodeName"):
        why = f'pod {old.name} is already assigned to node "{spec["nodeName"]}"'
        raise conflict(pods, old.name, why, part="binding")
    if spec.get("schedulingGates"):
        why = f"pod {old.name} has non-empty .spec.schedulingGates"
        raise conflict(pods, old.name, why, part="binding")
    spec["nodeName"] = binding.target.name
    for word, told in (("annotations", binding.metadata.annotations), ("labels", binding.metadata.labels)):
        if told:
            meta[word] = {**(meta.get(word) or {}), **told}
    meta["generation"] = meta.get("generation", 0) + 1
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": shelves.now}
    status["conditions"] = with_condition(status.get("conditions"), scheduled)
    return shelves.preview(pods, document, old.version) if dry else shelves.write(pods, document)


def _check_binding(pods: Resource, old: Stored, binding: _Binding) -> None:
    causes = []
    if binding.target.kind not in {"", "Node"}:
        causes.append(
            Cause("target.kind", f'Unsupported value: "{binding.target.kind}": supported values: "Node", "<empty>"')
        )
    if not binding.target.name:
        causes.append(Cause("target.name", "Required value"))
    if causes:
        error = invalid(pods, old.name, causes)
        error.message = error.message.replace("Pod ", "Binding ", 1)
        raise error
    meta = binding.metadata
    if meta.name and meta.name != old.name:
        raise bad_request(f"the name of the object ({meta.name}) does not match the name on the URL ({old.name})")
    if meta.uid and meta.uid != old.uid:
        why = f"Precondition failed: UID in precondition: {meta.uid}, UID in object meta: {old.uid}"
        raise conflict(pods, old.name, why, part="binding")
    if meta.resource_version and meta.resource_version != str(old.version):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {meta.resource_version},"
            f" ResourceVersion in object meta: {old.version}"
        )
        raise conflict(pods, old.name, why, part="binding")


def evict(shelves: Database, pods: Resource, old: Stored, given: Raw) -> None:
    """Delete a pod as its options say, unless a disruption budget forbids it for now."""
    try:
        eviction = msgspec.convert(given, _Eviction)
    except msgspec.ValidationError as error:
        raise bad_request(f'Eviction in version "v1" cannot be handled as a Eviction: {error}') from error
    status = old.fields.get("status.phase")
    if status not in {"Pending", "Succeeded", "Failed"} and b'"deletionTimestamp"' not in old.data:
        _check_budgets(shelves, old)
    delete(shelves, pods, old, eviction.delete_options)


def _check_budgets(shelves: Database, old: Stored) -> None:
    budgets = shelves.kinds.named("poddisruptionbudgets.policy")
    for found in shelves.shelf(budgets).page(old.namespace):
        budget = found.read()
        spec, status = budget.get("spec") or {}, budget.get("status") or {}
        if labels_match(spec.get("selector"), old.labels) and status.get("disruptionsAllowed", 0) <= 0:
            told = f"The disruption budget {found.name} does not allow evicting pods currently"
            cause = {"reason": "DisruptionBudget", "message": told}
            raise too_many("Cannot evict pod as it would violate the pod's disruption budget.", [cause])

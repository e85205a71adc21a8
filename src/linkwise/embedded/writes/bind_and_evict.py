"""The binding and eviction subresources of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.api_errors import Cause, bad_request, conflict, invalid, too_many
from linkwise.embedded.kinds.object_types import ObjectMeta
from linkwise.embedded.storage.list_watch import labels_match
from linkwise.embedded.writes.admission import AdmissionRequest, without_admission
from linkwise.embedded.writes.delete import DeleteOptions, delete
from linkwise.embedded.writes.field_rules import with_condition
from linkwise.embedded.writes.update import check_unchanged

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.writes.admission import Write

__all__ = ["bind", "evict"]


_BINDING: Final = ("", "v1", "Binding")
_EVICTION: Final = ("policy", "v1", "Eviction")


class _Target(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct):
    target: _Target
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class _Eviction(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    delete_options: DeleteOptions = msgspec.field(default_factory=DeleteOptions)


def bind(database: Database, pods: Resource, old: Stored, body: Raw, *, dry_run: bool = False) -> Write[Stored]:
    """Set a pod's node, and merge the labels and annotations of the Binding."""
    body = yield from _admit(database, pods, old, body, _BINDING, dry_run=dry_run)
    try:
        binding = msgspec.convert(body, _Binding)
    except msgspec.ValidationError as error:
        raise bad_request(f'Binding in version "v1" cannot be handled as a Binding: {error}') from error
    _check_binding(pods, old, binding)
    document = old.read()
    meta, spec, status = document["metadata"], document["spec"], document.setdefault("status", {})
    if "deletionTimestamp" in meta:
        raise conflict(
            pods, old.name, f"pod {old.name} is being deleted, cannot be assigned to a host", subresource="binding"
        )
    if spec.get("nodeName"):
        message = f'pod {old.name} is already assigned to node "{spec["nodeName"]}"'
        raise conflict(pods, old.name, message, subresource="binding")
    if spec.get("schedulingGates"):
        message = f"pod {old.name} has non-empty .spec.schedulingGates"
        raise conflict(pods, old.name, message, subresource="binding")
    spec["nodeName"] = binding.target.name
    for key, entries in (("annotations", binding.metadata.annotations), ("labels", binding.metadata.labels)):
        if entries:
            meta[key] = {**(meta.get(key) or {}), **entries}
    meta["generation"] = meta.get("generation", 0) + 1
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": database.now}
    status["conditions"] = with_condition(status.get("conditions"), scheduled)
    return database.preview(pods, document, old.version) if dry_run else database.write(pods, document)


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
        raise conflict(pods, old.name, why, subresource="binding")
    if meta.resource_version and meta.resource_version != str(old.version):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {meta.resource_version},"
            f" ResourceVersion in object meta: {old.version}"
        )
        raise conflict(pods, old.name, why, subresource="binding")


def evict(database: Database, pods: Resource, old: Stored, body: Raw) -> Write[None]:
    """Delete a pod with the eviction's delete options; ApiError 429 if a disruption budget forbids it."""
    body = yield from _admit(database, pods, old, body, _EVICTION)
    try:
        eviction = msgspec.convert(body, _Eviction)
    except msgspec.ValidationError as error:
        raise bad_request(f'Eviction in version "v1" cannot be handled as a Eviction: {error}') from error
    phase = old.fields.get("status.phase")
    if phase not in {"Pending", "Succeeded", "Failed"} and b'"deletionTimestamp"' not in old.data:
        _check_budgets(database, old)
    without_admission(delete(database, pods, old, eviction.delete_options))  # the eviction itself was admitted


def _admit(  # noqa: PLR0913 - a request has these parts
    database: Database, pods: Resource, old: Stored, body: Raw, kind: tuple[str, str, str], *, dry_run: bool = False
) -> Write[Raw]:
    """The Binding or Eviction as admitted."""
    group, version, name = kind
    head = {"apiVersion": f"{group}/{version}" if group else version, "kind": name}
    for mutating in (True, False):
        admitted = yield AdmissionRequest(
            mutating=mutating,
            operation="CREATE",
            resource=pods,
            namespace=old.namespace,
            name=old.name,
            object=head | body,
            subresource=name.lower(),
            dry_run=dry_run,
            kind=kind,
        )
        body = admitted or body
    check_unchanged(database, pods, old)
    return body


def _check_budgets(database: Database, old: Stored) -> None:
    budgets = database.kinds.by_name("poddisruptionbudgets.policy")
    for stored in database.collection(budgets).page(old.namespace):
        budget = stored.read()
        spec, status = budget.get("spec") or {}, budget.get("status") or {}
        if labels_match(spec.get("selector"), old.labels) and status.get("disruptionsAllowed", 0) <= 0:
            message = f"The disruption budget {stored.name} does not allow evicting pods currently"
            cause = {"reason": "DisruptionBudget", "message": message}
            raise too_many("Cannot evict pod as it would violate the pod's disruption budget.", [cause])

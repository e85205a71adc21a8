"""Request bodies for the API server: bindings, patches, evictions, events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from linkwise.model.views import SCHEDULABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.model.views import PodCondition

__all__ = [
    "COMPONENT",
    "About",
    "Content",
    "annotations_patch",
    "binding",
    "condition_patch",
    "count_patch",
    "encode",
    "event",
    "eviction",
    "gates_patch",
    "nomination_patch",
    "pinned_terms",
    "pod_condition",
    "status_patch",
    "taints_patch",
]

COMPONENT: Final = "linkwise"
_MAX_MESSAGE: Final = 1024
"""characters of an event's message, by the API's validation"""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

_encode = msgspec.json.Encoder().encode


def encode(document: Mapping[str, object]) -> bytes:
    """An object or a merge patch as JSON."""
    return _encode(document)


class Content(NamedTuple):
    """What an event says, and who says it."""

    type: str
    """Normal or Warning"""
    reason: str
    message: str
    component: str = COMPONENT


class About(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that an event is about."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


def binding(name: str, uid: str, node: str, annotations: Mapping[str, str]) -> bytes:
    """A Binding with node and annotations; the UID is a precondition."""
    meta: dict[str, object] = {"name": name, "uid": uid}
    if annotations:
        meta["annotations"] = dict(annotations)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return _encode({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})


def annotations_patch(uid: str, annotations: Mapping[str, str | None]) -> bytes:
    """A merge patch of annotations, None removes one; refused if the pod has another UID."""
    return _encode({"metadata": {"uid": uid, "annotations": dict(annotations)}})


def pod_condition(condition: PodCondition, time: str | None) -> dict[str, str]:
    """The condition as a JSON object, with the time of its last transition."""
    document = {
        "type": SCHEDULABLE,
        "status": str(condition.status),
        "reason": condition.reason,
        "message": condition.message,
    }
    return {**document, "lastTransitionTime": time} if time else document


def condition_patch(uid: str, condition: PodCondition) -> bytes:
    """A strategic merge patch of a pod's status: other conditions stay as they are; refused if the pod has another UID."""
    time = datetime.fromtimestamp(condition.since, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return _encode({"metadata": {"uid": uid}, "status": {"conditions": [pod_condition(condition, time)]}})


def status_patch(status: Mapping[str, object]) -> bytes:
    """A merge patch of an object's status; its lists are replaced as a whole."""
    return _encode({"status": status})


def nomination_patch(uid: str, node: str) -> bytes:
    """A merge patch of a pod's status with the nominated node, none if it is empty; refused if the pod has another UID."""
    return _encode({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}})


def gates_patch(
    uid: str,
    version: int,
    annotations: Mapping[str, str],
    gates: Sequence[str] | None,
    terms: Sequence[Mapping[str, object]] = (),
) -> bytes:
    """A merge patch of annotations and of the scheduling gates that are left, None for no change; refused if the pod has changed.

    An empty annotation is removed. Gates are a list, and replaced as a whole, as are the terms of the required node affinity;
    without terms it stays as it is.
    """
    meta: dict[str, object] = {"uid": uid, "resourceVersion": str(version)}
    if annotations:
        meta["annotations"] = {key: text or None for key, text in annotations.items()}
    spec: dict[str, object] = {}
    if gates is not None:
        spec["schedulingGates"] = [{"name": gate} for gate in gates] or None
    if terms:
        spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": list(terms)}}}
    return _encode({"metadata": meta, **({"spec": spec} if spec else {})})


def pinned_terms(pod: bytes, node: str) -> list[dict[str, object]]:
    """The terms of a pod's required node affinity, each restricted to one node: any of them may match.

    The API server lets requirements be added to terms of a gated pod, and nothing else. A term without any matches no node,
    and stays so.
    """
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    value: object = msgspec.json.decode(pod)
    for key in ("spec", "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"):
        value = value.get(key) if isinstance(value, dict) else None
    terms = [term for term in value if isinstance(term, dict)] if isinstance(value, list) else []
    return [_with_field(term, name) for term in terms] if terms else [{"matchFields": [name]}]


def _with_field(term: dict[str, object], requirement: Mapping[str, object]) -> dict[str, object]:
    fields = term.get("matchFields") or []
    if not isinstance(fields, list) or not (fields or term.get("matchExpressions")) or requirement in fields:
        return term
    return {**term, "matchFields": [*fields, dict(requirement)]}


def taints_patch(version: str, taints: Sequence[object]) -> bytes:
    """A merge patch of a node's taints, which are a list and replaced as a whole; refused if the node has changed."""
    return _encode({"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}})


def eviction(namespace: str, name: str, uid: str, version: int) -> bytes:
    """An Eviction with the UID and the resourceVersion as preconditions; 0 leaves out the latter."""
    unchanged = {"resourceVersion": str(version)} if version else {}
    meta, options = {"namespace": namespace, "name": name}, {"preconditions": {"uid": uid, **unchanged}}
    return _encode({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options})


def event(name: str, about: About, content: Content, count: int, time: str) -> bytes:
    """A core/v1 Event."""
    kind, reason, message, component = content
    text = message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 3]}..."
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about.namespace or "default"},
        "involvedObject": about,
        "type": kind,
        "reason": reason,
        "message": text,
        "count": count,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
    }
    return _encode(document)


def count_patch(count: int, time: str) -> bytes:
    """A merge patch for an event that occurred again."""
    return _encode({"count": count, "lastTimestamp": time})

"""Request bodies for the API server: bindings, patches, evictions, events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "COMPONENT",
    "About",
    "Content",
    "annotations_patch",
    "binding",
    "count_patch",
    "encode",
    "event",
    "eviction",
    "taints_patch",
]

COMPONENT: Final = "linkwise"
_MAX_MESSAGE: Final = 1024
"""characters of an event's message, by the API's validation"""

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

"""What is written to the API server, as JSON: bindings, patches of annotations, evictions, events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["About", "annotations_patch", "binding", "count_patch", "event", "eviction"]

COMPONENT: Final = "linkwise"
_LONGEST: Final = 1024
"""of an event's text, in characters"""

_encode = msgspec.json.Encoder().encode


class About(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that an event is about."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


def binding(name: str, uid: str, node: str, annotations: Mapping[str, str]) -> bytes:
    """Node and annotations of a pod, written together; the UID guards against a pod of the same name."""
    meta: dict[str, object] = {"name": name, "uid": uid}
    if annotations:
        meta["annotations"] = dict(annotations)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return _encode({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})


def annotations_patch(uid: str, annotations: Mapping[str, str | None]) -> bytes:
    """A merge patch that writes annotations, or takes those away that are None; a pod with another UID refuses it."""
    return _encode({"metadata": {"uid": uid, "annotations": dict(annotations)}})


def eviction(namespace: str, name: str, uid: str, version: int) -> bytes:
    """Sends a pod away, unless it is another one by now, or has changed since that version; 0 is any."""
    seen = {"resourceVersion": str(version)} if version else {}
    meta, options = {"namespace": namespace, "name": name}, {"preconditions": {"uid": uid, **seen}}
    return _encode({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options})


def event(name: str, about: About, words: tuple[str, str, str], count: int, time: str) -> bytes:
    """An event of the core; `words` are its type, its reason and its text."""
    kind, reason, sentence = words
    text = sentence if len(sentence) <= _LONGEST else f"{sentence[: _LONGEST - 3]}..."
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
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }
    return _encode(document)


def count_patch(count: int, time: str) -> bytes:
    """A merge patch for an event that happened again."""
    return _encode({"count": count, "lastTimestamp": time})

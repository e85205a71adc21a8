"""Salvages the node and devices of a bound pod whose object is invalid.

Ignoring such a pod would make its devices look free, and they would be allocated twice. Fields that only matter for
scheduling are dropped, because the pod is bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.errors import InputError
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.objects import pod_view

if TYPE_CHECKING:
    import msgspec

    from linkwise.model.views import PodView

__all__ = ["salvaged_pod"]

Document = dict[str, Any]

_NAMES: Final = ("name", "namespace", "uid", "resourceVersion")
_CREATED: Final = "creationTimestamp"
_CONTAINERS: Final = ("initContainers", "containers")


def salvaged_pod(data: bytes | msgspec.Raw) -> PodView | None:
    """The view of a bound pod from its valid fields; None if it is not bound or has no valid UID.

    It never counts as being deleted, and always as started, since its container statuses may be what is invalid.
    """
    try:
        document = decode_as(data, Document)
    except InputError:
        return None
    meta, spec, status = _part(document, "metadata"), _part(document, "spec"), _part(document, "status")
    if not isinstance(meta.get("uid"), str) or not isinstance(spec.get("nodeName"), str) or not spec["nodeName"]:
        return None
    metadata: Document = {key: meta[key] for key in (*_NAMES, _CREATED) if isinstance(meta.get(key), str)}
    for field in ("annotations", "labels"):
        metadata[field] = {key: value for key, value in _part(meta, field).items() if isinstance(value, str)}
    bound: Document = {"nodeName": spec["nodeName"]} | {name: _containers(spec.get(name)) for name in _CONTAINERS}
    running: Document = {"phase": status["phase"]} if isinstance(status.get("phase"), str) else {}
    running["containerStatuses"] = [{"state": {"running": {}}}]
    try:
        return pod_view({"metadata": metadata, "spec": bound, "status": running})
    except InputError:
        del metadata[_CREATED]  # the only field left that can be invalid; the pod counts as old
        return pod_view({"metadata": metadata, "spec": bound, "status": running})


def _part(document: Document, name: str) -> Document:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _containers(value: object) -> list[Document]:
    """Names and amounts of containers; invalid amounts are kept as text, so that the dialects report them."""
    entries = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
    return [_container(entry) for entry in entries]


def _container(entry: Document) -> Document:
    resources = _part(entry, "resources")
    amounts = {kind: {name: _text(value) for name, value in _part(resources, kind).items()} for kind in resources}
    container: Document = {"resources": {kind: amounts[kind] for kind in ("requests", "limits") if kind in amounts}}
    return container | {key: entry[key] for key in ("name", "restartPolicy") if isinstance(entry.get(key), str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)[:40]

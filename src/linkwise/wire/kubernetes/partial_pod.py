"""What can still be read of a pod that can't be read as a whole: where it runs, and which devices it has.

A bound pod that is left out would leave its devices free in our eyes, so that they would be given twice. What only
decides where a pod may go is left out instead: that is over for a pod that is bound.
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
    """The view of a bound pod by as much as can be read; None if it is not bound, or has no UID that can be read.

    It never counts as being deleted, and always as begun: what its containers do may be what can't be read.
    """
    try:
        document = decode_as(data, Document)
    except InputError:
        return None
    meta, spec, status = _part(document, "metadata"), _part(document, "spec"), _part(document, "status")
    if not isinstance(meta.get("uid"), str) or not isinstance(spec.get("nodeName"), str) or not spec["nodeName"]:
        return None
    kept: Document = {key: meta[key] for key in (*_NAMES, _CREATED) if isinstance(meta.get(key), str)}
    for words in ("annotations", "labels"):
        kept[words] = {key: value for key, value in _part(meta, words).items() if isinstance(value, str)}
    held: Document = {"nodeName": spec["nodeName"]} | {name: _containers(spec.get(name)) for name in _CONTAINERS}
    told: Document = {"phase": status["phase"]} if isinstance(status.get("phase"), str) else {}
    told["containerStatuses"] = [{"state": {"running": {}}}]
    try:
        return pod_view({"metadata": kept, "spec": held, "status": told})
    except InputError:
        del kept[_CREATED]  # all that is left to be wrong; the pod counts as old
        return pod_view({"metadata": kept, "spec": held, "status": told})


def _part(document: Document, name: str) -> Document:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _containers(found: object) -> list[Document]:
    """Names and amounts of containers; an amount that is none is left for the dialect to report, as a text."""
    listed = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return [_container(entry) for entry in listed]


def _container(found: Document) -> Document:
    resources = _part(found, "resources")
    amounts = {kind: {name: _text(value) for name, value in _part(resources, kind).items()} for kind in resources}
    kept: Document = {"resources": {kind: amounts[kind] for kind in ("requests", "limits") if kind in amounts}}
    return kept | {key: found[key] for key in ("name", "restartPolicy") if isinstance(found.get(key), str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)[:40]

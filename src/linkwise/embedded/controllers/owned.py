"""What all controllers do: find what an object owns, make pods from its template, and tell how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["condition", "is_active", "is_ready", "make_pod", "owned", "owner_of", "remove_pod", "write_status"]

_OVER: Final = ("Succeeded", "Failed")


def owned(store: Store, owner: Stored, kind: str) -> list[Stored]:
    """The objects of a kind that it owns, by name."""
    places = store.database.dependents.get(owner.uid, ())
    found = (
        store.find(kind, name, namespace)
        for group_resource, namespace, name in sorted(places)
        if group_resource == kind
    )
    return [stored for stored in found if stored is not None]


def is_active(pod: Stored) -> bool:
    """Whether a pod runs, or will."""
    return pod.fields.get("status.phase") not in _OVER and b'"deletionTimestamp"' not in pod.data


def is_ready(pod: Stored) -> bool:
    """Whether a pod serves."""
    conditions = pod.read()["status"].get("conditions") or ()
    return any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)


def owner_of(owner: Raw) -> Raw:
    """How what it makes names it."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def make_pod(store: Store, owner: Raw, prefix: str, *, labels: Raw | None = None, notes: Raw | None = None) -> Stored:
    """A pod from the template."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    document = {
        "metadata": {
            "generateName": f"{prefix}-",
            "labels": {**(meta.get("labels") or {}), **(labels or {})},
            "annotations": {**(meta.get("annotations") or {}), **(notes or {})},
            "ownerReferences": [owner_of(owner)],
        },
        "spec": template["spec"],
    }
    return store.create("pods", document, owner["metadata"]["namespace"])


def remove_pod(store: Store, pod: Stored) -> None:
    """A pod that is not wanted any more."""
    try:
        store.delete("pods", pod.name, pod.namespace)
    except ApiError:
        return


def write_status(store: Store, kind: str, document: Raw, status: Raw) -> None:
    """How it stands, if that is not there already."""
    meta = document["metadata"]
    now = {**(document.get("status") or {}), **status}
    if now != document.get("status"):
        store.patch(kind, meta["name"], {"status": status}, meta["namespace"], "status")


def condition(document: Raw, kind: str, status: str, reason: str, now: str) -> Raw:
    """A condition, with the time at which it became so."""
    known = (document.get("status") or {}).get("conditions") or ()
    same = next((found for found in known if found["type"] == kind and found["status"] == status), None)
    since = same["lastTransitionTime"] if same else now
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}

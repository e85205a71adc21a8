"""Helpers shared by the controllers: dependents, pods from a template, status and conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = [
    "condition",
    "controller_reference",
    "create_pod",
    "delete_pod",
    "dependents_of",
    "is_active",
    "is_ready",
    "write_status",
]

_FINISHED: Final = ("Succeeded", "Failed")


def dependents_of(store: Store, owner: Stored, kind: str) -> list[Stored]:
    """The objects of a kind that `owner` owns, sorted by name."""
    keys = store.database.dependents.get(owner.uid, ())
    objects = (store.find(kind, name, namespace) for resource, namespace, name in sorted(keys) if resource == kind)
    return [stored for stored in objects if stored is not None]


def is_active(pod: Stored) -> bool:
    """Whether a pod is neither finished nor being deleted."""
    return pod.fields.get("status.phase") not in _FINISHED and b'"deletionTimestamp"' not in pod.data


def is_ready(pod: Stored) -> bool:
    """Whether a pod's Ready condition is true."""
    conditions = pod.read()["status"].get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def controller_reference(owner: Raw) -> Raw:
    """The controller owner reference to an object."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def create_pod(
    store: Store, owner: Raw, prefix: str, *, labels: Raw | None = None, annotations: Raw | None = None
) -> Stored:
    """Create a pod from the owner's template."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    document = {
        "metadata": {
            "generateName": f"{prefix}-",
            "labels": {**(meta.get("labels") or {}), **(labels or {})},
            "annotations": {**(meta.get("annotations") or {}), **(annotations or {})},
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": template["spec"],
    }
    return store.create("pods", document, owner["metadata"]["namespace"])


def delete_pod(store: Store, pod: Stored) -> None:
    """Delete a pod, if it still exists."""
    try:
        store.delete("pods", pod.name, pod.namespace)
    except ApiError:
        return


def write_status(store: Store, kind: str, document: Raw, status: Raw) -> None:
    """Patch the status if it differs."""
    meta = document["metadata"]
    now = {**(document.get("status") or {}), **status}
    if now != document.get("status"):
        store.patch(kind, meta["name"], {"status": status}, meta["namespace"], "status")


def condition(document: Raw, kind: str, status: str, reason: str, now: str) -> Raw:
    """A condition; lastTransitionTime changes only with the status."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    unchanged = next((entry for entry in conditions if entry["type"] == kind and entry["status"] == status), None)
    since = unchanged["lastTransitionTime"] if unchanged else now
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}

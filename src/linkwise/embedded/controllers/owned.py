"""Client of a controller, and the helpers that controllers share: dependents, pods from a template, status, conditions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.runtime import EventRecorder

if TYPE_CHECKING:
    from linkwise.embedded.admission import Admission
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store
    from linkwise.model.access_policy import Requester

__all__ = [
    "Client",
    "condition",
    "controller_reference",
    "create_owned_pod",
    "create_pod",
    "delete_pod",
    "dependents_of",
    "is_active",
    "is_ready",
    "write_status",
]

_FINISHED: Final = ("Succeeded", "Failed")


class Client:
    """Reads and writes of one controller; its writes pass admission as those of its service account."""

    def __init__(self, store: Store, admission: Admission, name: str, requester: Requester) -> None:
        """`name` is that of its events' component, `requester` its user."""
        self.store: Final = store
        self.recorder: Final = EventRecorder(store, name)
        self._admission, self._requester = admission, requester

    async def create(self, kind: str, document: Raw, namespace: str) -> Stored:
        """Create an object."""
        begin = partial(self.store.begin_create, kind, document, namespace)
        return await self._admission.complete(begin, self._requester)

    async def patch(self, kind: str, name: str, patch: Raw, namespace: str, subresource: str = "") -> Stored:
        """Patch an object."""
        begin = partial(self.store.begin_patch, kind, name, patch, namespace, subresource)
        return await self._admission.complete(begin, self._requester)

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        """Delete an object."""
        await self._admission.complete(partial(self.store.begin_delete, kind, name, namespace), self._requester)


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


async def create_pod(
    client: Client, owner: Raw, prefix: str, *, labels: Raw | None = None, annotations: Raw | None = None
) -> Stored:
    """Create a pod with a generated name from the owner's template."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    document = {
        "metadata": {
            "generateName": f"{prefix}-",
            "labels": {**(meta.get("labels") or {}), **(labels or {})},
            "annotations": {**(meta.get("annotations") or {}), **(annotations or {})},
        },
        "spec": template["spec"],
    }
    return await create_owned_pod(client, owner, document)


async def create_owned_pod(client: Client, owner: Raw, pod: Raw) -> Stored:
    """Create a pod of an owner; a failure is recorded as an event of the owner."""
    document = {**pod, "metadata": {**pod["metadata"], "ownerReferences": [controller_reference(owner)]}}
    try:
        return await client.create("pods", document, owner["metadata"]["namespace"])
    except ApiError as error:
        client.recorder.record(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
        raise


async def delete_pod(client: Client, pod: Stored) -> None:
    """Delete a pod, if it still exists."""
    try:
        await client.delete("pods", pod.name, pod.namespace)
    except ApiError:
        return


async def write_status(client: Client, kind: str, document: Raw, status: Raw) -> None:
    """Patch the status if it differs."""
    meta = document["metadata"]
    now = {**(document.get("status") or {}), **status}
    if now != document.get("status"):
        await client.patch(kind, meta["name"], {"status": status}, meta["namespace"], "status")


def condition(document: Raw, kind: str, status: str, reason: str, now: str) -> Raw:
    """A condition; lastTransitionTime changes only with the status."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    unchanged = next((entry for entry in conditions if entry["type"] == kind and entry["status"] == status), None)
    since = unchanged["lastTransitionTime"] if unchanged else now
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}

"""Deployments and ReplicaSets: as many pods as are wished for, of the template as it is now.

A changed template replaces all pods at once: devices are few, so that old and new pods would only wait for each other.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.controllers.owned import (
    condition,
    is_active,
    is_ready,
    make_pod,
    owned,
    owner_of,
    remove_pod,
    write_status,
)

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["sync_deployment", "sync_replicas"]

_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def sync_deployment(store: Store, stored: Stored) -> None:
    """One ReplicaSet has all the pods; those of older templates have none."""
    document = stored.read()
    word, wanted = _hash(document["spec"]["template"]), int(document["spec"].get("replicas", 1))
    sets = owned(store, stored, "replicasets.apps")
    current = next((found for found in sets if found.labels.get(_HASH) == word), None)
    for found in sets:
        if found is not current:
            _scale(store, found, 0)
    if current is None:
        current = _create_set(store, document, word, len(sets) + 1)
    _scale(store, current, wanted)
    _tell_deployment(store, document, current, sets)


def sync_replicas(store: Store, stored: Stored) -> None:
    """Make pods that are missing, and delete those that are too many: first those that do not run, then the youngest."""
    document = stored.read()
    wanted = int(document["spec"].get("replicas", 1))
    pods = [pod for pod in owned(store, stored, "pods") if is_active(pod)]
    for _ in range(wanted - len(pods)):
        make_pod(store, document, stored.name)
    surplus = sorted(pods, key=_worth)[: max(0, len(pods) - wanted)]
    for pod in surplus:
        remove_pod(store, pod)
    left = [pod for pod in owned(store, stored, "pods") if is_active(pod)]
    ready = sum(is_ready(pod) for pod in left)
    told = {"replicas": len(left), "fullyLabeledReplicas": len(left), "readyReplicas": ready}
    told |= {"availableReplicas": ready, "observedGeneration": document["metadata"]["generation"]}
    write_status(store, "replicasets.apps", document, told)


def _worth(pod: Stored) -> tuple[bool, bool, int]:
    return bool(pod.fields.get("spec.nodeName")), is_ready(pod), -pod.version


def _create_set(store: Store, document: Raw, word: str, revision: int) -> Stored:
    meta, spec = document["metadata"], document["spec"]
    template, selector = msgspec.json.decode(msgspec.json.encode((spec["template"], spec["selector"])))
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), _HASH: word}
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: word}
    made = {
        "metadata": {
            "name": f"{meta['name']}-{word}",
            "labels": template["metadata"]["labels"],
            "annotations": {_REVISION: str(revision)},
            "ownerReferences": [owner_of(document)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }
    return store.create("replicasets.apps", made, meta["namespace"])


def _scale(store: Store, found: Stored, wanted: int) -> None:
    if found.read()["spec"].get("replicas") != wanted:
        store.patch("replicasets.apps", found.name, {"spec": {"replicas": wanted}}, found.namespace)


def _tell_deployment(store: Store, document: Raw, current: Stored, others: list[Stored]) -> None:
    current = store.get("replicasets.apps", current.name, current.namespace)
    wanted, now = int(document["spec"].get("replicas", 1)), store.database.now
    status = current.read().get("status") or {}
    rest = sum((one.read().get("status") or {}).get("replicas", 0) for one in others if one.name != current.name)
    ready = status.get("readyReplicas", 0)
    available = condition(document, "Available", "True" if ready >= wanted else "False", "MinimumReplicas", now)
    progress = condition(document, "Progressing", "True", "NewReplicaSetAvailable", now)
    told = {
        "observedGeneration": document["metadata"]["generation"],
        "replicas": status.get("replicas", 0) + rest,
        "updatedReplicas": status.get("replicas", 0),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, wanted - ready),
        "conditions": [available, progress],
    }
    write_status(store, "deployments.apps", document, told)


def _hash(template: Raw) -> str:
    data = msgspec.json.encode(template, order="sorted")
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in hashlib.sha256(data).digest()[:10])

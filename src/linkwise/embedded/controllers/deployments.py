"""Controllers of Deployments, ReplicaSets and ReplicationControllers.

A changed template replaces all pods at once: devices are scarce, and in a rolling update new pods would wait for the
devices of old ones.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.controllers.owned import (
    condition,
    controller_reference,
    create_pod,
    delete_pod,
    dependents_of,
    is_active,
    is_ready,
    write_status,
)

if TYPE_CHECKING:
    from linkwise.embedded.controllers.owned import Client
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = ["sync_deployment", "sync_replica_set"]

_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"
_HASH_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


async def sync_deployment(client: Client, stored: Stored) -> None:
    """Scale the ReplicaSet of the current template to the desired replicas, and all others to zero."""
    document = stored.read()
    template_hash, replicas = _template_hash(document["spec"]["template"]), int(document["spec"].get("replicas", 1))
    replica_sets = dependents_of(client.store, stored, "replicasets.apps")
    current = next(
        (replica_set for replica_set in replica_sets if replica_set.labels.get(_HASH) == template_hash), None
    )
    for replica_set in replica_sets:
        if replica_set is not current:
            await _scale(client, replica_set, 0)
    if current is None:
        current = await _create_replica_set(client, document, template_hash, len(replica_sets) + 1)
    await _scale(client, current, replicas)
    await _update_status(client, document, current, replica_sets)


async def sync_replica_set(client: Client, stored: Stored) -> None:
    """Create missing pods and delete surplus ones: first unassigned, then not ready, then the newest."""
    document = stored.read()
    replicas = int(document["spec"].get("replicas", 1))
    pods = [pod for pod in dependents_of(client.store, stored, "pods") if is_active(pod)]
    for _ in range(replicas - len(pods)):
        await create_pod(client, document, stored.name)
    surplus = sorted(pods, key=_deletion_order)[: max(0, len(pods) - replicas)]
    for pod in surplus:
        await delete_pod(client, pod)
    remaining = [pod for pod in dependents_of(client.store, stored, "pods") if is_active(pod)]
    ready = sum(is_ready(pod) for pod in remaining)
    status = {"replicas": len(remaining), "fullyLabeledReplicas": len(remaining), "readyReplicas": ready}
    status |= {"availableReplicas": ready, "observedGeneration": document["metadata"].get("generation", 0)}
    kind = "replicasets.apps" if document["kind"] == "ReplicaSet" else "replicationcontrollers"
    await write_status(client, kind, document, status)


def _deletion_order(pod: Stored) -> tuple[bool, bool, int]:
    return bool(pod.fields.get("spec.nodeName")), is_ready(pod), -pod.version


async def _create_replica_set(client: Client, document: Raw, template_hash: str, revision: int) -> Stored:
    meta, spec = document["metadata"], document["spec"]
    template, selector = msgspec.json.decode(msgspec.json.encode((spec["template"], spec["selector"])))
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), _HASH: template_hash}
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: template_hash}
    replica_set = {
        "metadata": {
            "name": f"{meta['name']}-{template_hash}",
            "labels": template["metadata"]["labels"],
            "annotations": {_REVISION: str(revision)},
            "ownerReferences": [controller_reference(document)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }
    return await client.create("replicasets.apps", replica_set, meta["namespace"])


async def _scale(client: Client, replica_set: Stored, replicas: int) -> None:
    if replica_set.read()["spec"].get("replicas") != replicas:
        await client.patch(
            "replicasets.apps", replica_set.name, {"spec": {"replicas": replicas}}, replica_set.namespace
        )


async def _update_status(client: Client, document: Raw, current: Stored, others: list[Stored]) -> None:
    current = client.store.get("replicasets.apps", current.name, current.namespace)
    replicas, now = int(document["spec"].get("replicas", 1)), client.store.database.now
    status = current.read().get("status") or {}
    old_replicas = sum(
        (replica_set.read().get("status") or {}).get("replicas", 0)
        for replica_set in others
        if replica_set.name != current.name
    )
    ready = status.get("readyReplicas", 0)
    available = condition(document, "Available", "True" if ready >= replicas else "False", "MinimumReplicas", now)
    progress = condition(document, "Progressing", "True", "NewReplicaSetAvailable", now)
    new_status = {
        "observedGeneration": document["metadata"]["generation"],
        "replicas": status.get("replicas", 0) + old_replicas,
        "updatedReplicas": status.get("replicas", 0),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, replicas - ready),
        "conditions": [available, progress],
    }
    await write_status(client, "deployments.apps", document, new_status)


def _template_hash(template: Raw) -> str:
    data = msgspec.json.encode(template, order="sorted")
    return "".join(_HASH_ALPHABET[byte % len(_HASH_ALPHABET)] for byte in hashlib.sha256(data).digest()[:10])

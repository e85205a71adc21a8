"""Controllers of workloads: Deployments, ReplicaSets, Jobs, and those whose pods have fixed names.

StatefulSets, DaemonSets and the jobs of operators list the pods that they should have; missing ones are created and others
deleted. The jobs of operators, such as JobSet and PyTorchJob, get the pods, labels and indexes that their operators would
create, in one step and without the Jobs and StatefulSets in between.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.dialects.kubernetes.pod_templates import WorkloadObject, pod_templates, stamped
from linkwise.embedded.controllers.owned import (
    condition,
    controller_reference,
    create_owned_pod,
    create_pod,
    delete_pod,
    dependents_of,
    is_active,
    is_ready,
    write_status,
)
from linkwise.engine.feasibility import all_unfit
from linkwise.errors import InputError
from linkwise.model.ask import Load
from linkwise.wire.kubernetes.objects import decode_node, pod_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from linkwise.embedded.controllers.owned import Client
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = [
    "sync_daemon_set",
    "sync_deployment",
    "sync_job",
    "sync_operator_job",
    "sync_replica_set",
    "sync_stateful_set",
]

_HASH: Final = "pod-template-hash"
_REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"
_HASH_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_INDEX_VARIABLE: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}},
}
_CLAIMS: Final = "persistentvolumeclaims"
_RAY_CLUSTERS: Final = "rayclusters.ray.io"
_RAY_CLUSTER_SPECS: Final = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
"""where kinds that create a RayCluster have its spec"""
_REVISION_LABEL: Final = "controller-revision-hash"
_DAEMON_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        *(("not-ready", "NoExecute"), ("unreachable", "NoExecute"), ("disk-pressure", "NoSchedule")),
        *(("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule")),
    )
]
_DECIDED_BY_NODE: Final = frozenset({"selector", "affinity", "taint"})
"""reasons for which a DaemonSet has no pod on a node"""


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


async def sync_job(client: Client, stored: Stored) -> None:
    """Create the missing pods, or finish the Job."""
    document = stored.read()
    status = document.get("status") or {}
    if any(entry["type"] in {"Complete", "Failed"} for entry in status.get("conditions") or ()):
        return
    pods = dependents_of(client.store, stored, "pods")
    active = [pod for pod in pods if is_active(pod)]
    failed = max(sum(pod.fields.get("status.phase") == "Failed" for pod in pods), status.get("failed", 0))
    completed, succeeded = _completed(document, pods)
    spec = document["spec"]
    completions = spec.get("completions")
    if failed > spec.get("backoffLimit", 6):
        await _finish(client, document, active, succeeded, failed, ("Failed", "BackoffLimitExceeded"))
    elif completions is not None and succeeded >= completions:
        await _finish(client, document, active, succeeded, failed, ("Complete", "CompletionsReached"))
    else:
        active = await _scale_pods(client, document, active, completed, succeeded)
        await _update_job_status(client, document, active, completed, succeeded, failed)


async def sync_stateful_set(client: Client, stored: Stored) -> None:
    """Create the pods of a StatefulSet, one after the other is ready unless `podManagementPolicy` is Parallel."""
    document = stored.read()
    spec = document["spec"]
    revision = _revision(document)
    first = (spec.get("ordinals") or {}).get("start", 0)
    wanted = [_ordinal_pod(document, ordinal, revision) for ordinal in range(first, first + spec["replicas"])]
    for pod in wanted:
        await _create_claims(client, document, pod["metadata"]["name"])
    pods = await _sync_pods(client, stored, document, wanted, ordered=spec.get("podManagementPolicy") != "Parallel")
    ready, name = sum(map(is_ready, pods)), f"{stored.name}-{revision}"
    counts = dict.fromkeys(("replicas", "currentReplicas", "updatedReplicas"), len(pods))
    status = {**counts, "readyReplicas": ready, "availableReplicas": ready, "currentRevision": name}
    status |= {"updateRevision": name, "observedGeneration": document["metadata"]["generation"]}
    await write_status(client, "statefulsets.apps", document, status)


async def sync_daemon_set(client: Client, stored: Stored) -> None:
    """Create a pod for each node that the pods of a DaemonSet select and tolerate."""
    document = stored.read()
    template, revision = document["spec"]["template"], _revision(document)
    pod_spec = {**template["spec"], "tolerations": [*template["spec"].get("tolerations", ()), *_DAEMON_TOLERATIONS]}
    demand, _ = demand_of(pod_view({"metadata": {"name": stored.name}, "spec": pod_spec}))
    views = [decode_node(node.data) for node in client.store.list("nodes").items]
    nodes = [
        view.name
        for view in views
        if not any(entry.kind in _DECIDED_BY_NODE for entry in all_unfit(demand, view, capacity_of(view), Load()))
    ]
    wanted = [
        _named(template, f"{stored.name}-{node}", _pinned(pod_spec, node), {_REVISION_LABEL: revision})
        for node in nodes
    ]
    pods = await _sync_pods(client, stored, document, wanted)
    ready = sum(map(is_ready, pods))
    counts = {"desiredNumberScheduled": len(nodes), "currentNumberScheduled": len(pods), "numberMisscheduled": 0}
    counts |= {"numberReady": ready, "numberAvailable": ready, "updatedNumberScheduled": len(pods)}
    generation = {"observedGeneration": document["metadata"]["generation"]}
    await write_status(client, "daemonsets.apps", document, counts | generation)


async def sync_operator_job(client: Client, stored: Stored) -> None:
    """Create the pods that the operator of a kind would create, or the RayCluster of a RayJob or RayService."""
    document = stored.read()
    if document["kind"] in _RAY_CLUSTER_SPECS:
        await _create_ray_cluster(client, document)
    else:
        try:
            wanted = [] if _suspended(document) else list(_operator_pods(document))
        except InputError as error:
            client.recorder.record(document, "Warning", "InvalidTemplate", f"The pods can't be created: {error}")
            return
        await _sync_pods(client, stored, document, wanted)


def _template_hash(template: Raw) -> str:
    data = msgspec.json.encode(template, order="sorted")
    return "".join(_HASH_ALPHABET[byte % len(_HASH_ALPHABET)] for byte in hashlib.sha256(data).digest()[:10])


async def _scale(client: Client, replica_set: Stored, replicas: int) -> None:
    if replica_set.read()["spec"].get("replicas") != replicas:
        await client.patch(
            "replicasets.apps", replica_set.name, {"spec": {"replicas": replicas}}, replica_set.namespace
        )


async def _create_replica_set(client: Client, document: Raw, template_hash: str, revision: int) -> Stored:
    meta, spec = document["metadata"], document["spec"]
    template, selector = msgspec.json.decode(msgspec.json.encode((spec["template"], spec["selector"])))
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), _HASH: template_hash}
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: template_hash}
    replica_set = {
        "metadata": {
            "name": f"{meta['name']}-{template_hash}",
            "labels": template["metadata"]["labels"],
            "annotations": {_REVISION_ANNOTATION: str(revision)},
            "ownerReferences": [controller_reference(document)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }
    return await client.create("replicasets.apps", replica_set, meta["namespace"])


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


def _deletion_order(pod: Stored) -> tuple[bool, bool, int]:
    return bool(pod.fields.get("spec.nodeName")), is_ready(pod), -pod.version


def _completed(document: Raw, pods: Sequence[Stored]) -> tuple[set[int], int]:
    """Completed indexes and the number of succeeded pods; completions count even after the pod is deleted."""
    status = document.get("status") or {}
    succeeded_pods = [pod for pod in pods if pod.fields.get("status.phase") == "Succeeded"]
    if document["spec"].get("completionMode") != "Indexed":
        return set(), max(len(succeeded_pods), status.get("succeeded", 0))
    counted = {int(index) for index in status.get("completedIndexes", "").split(",") if index}
    indexes = counted | {int(pod.labels.get(_INDEX, "0")) for pod in succeeded_pods}
    return indexes, len(indexes)


async def _finish(  # noqa: PLR0913, PLR0917 - a status has these parts
    client: Client, document: Raw, active: Sequence[Stored], succeeded: int, failed: int, outcome: tuple[str, str]
) -> None:
    for pod in active:
        await delete_pod(client, pod)
    kind, reason = outcome
    now, interim = client.store.database.now, "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    new_status: Raw = {"active": 0, "ready": 0, "succeeded": succeeded, "failed": failed}
    new_status["startTime"] = (document.get("status") or {}).get("startTime", now)
    new_status["conditions"] = [
        condition(document, condition_type, "True", reason, now) for condition_type in (interim, kind)
    ]
    if kind == "Complete":
        new_status["completionTime"] = now
    if document["spec"].get("completionMode") == "Indexed" and kind == "Complete":
        new_status["completedIndexes"] = ",".join(map(str, range(succeeded)))
    await write_status(client, "jobs.batch", document, new_status)


async def _scale_pods(
    client: Client, document: Raw, active: list[Stored], completed: set[int], succeeded: int
) -> list[Stored]:
    """Create or delete pods to match the parallelism."""
    spec = document["spec"]
    remaining = spec["completions"] - succeeded if spec.get("completions") is not None else spec["parallelism"]
    target = 0 if spec.get("suspend") else min(spec.get("parallelism", 1), max(0, remaining))
    for pod in active[target:]:
        await delete_pod(client, pod)
    active, name = active[:target], document["metadata"]["name"]
    if spec.get("completionMode") != "Indexed":
        return active + [await create_pod(client, document, name) for _ in range(target - len(active))]
    used = completed | {int(pod.labels.get(_INDEX, "0")) for pod in active}
    missing = [index for index in range(spec["completions"]) if index not in used]
    return active + [await _create_indexed_pod(client, document, index) for index in missing[: target - len(active)]]


async def _create_indexed_pod(client: Client, document: Raw, index: int) -> Stored:
    template = document["spec"]["template"]
    containers = [
        {**container, "env": [*container.get("env", ()), _INDEX_VARIABLE]}
        for container in template["spec"]["containers"]
    ]
    name, index_labels = f"{document['metadata']['name']}-{index}", {_INDEX: str(index)}
    spec = {**template["spec"], "containers": containers, "hostname": name}
    indexed = {**document, "spec": {**document["spec"], "template": {**template, "spec": spec}}}
    return await create_pod(client, indexed, name, labels=index_labels, annotations=index_labels)


async def _update_job_status(  # noqa: PLR0913, PLR0917 - a status has these parts
    client: Client, document: Raw, active: Sequence[Stored], completed: set[int], succeeded: int, failed: int
) -> None:
    new_status: Raw = {"active": len(active), "ready": sum(is_ready(pod) for pod in active)}
    new_status |= {"succeeded": succeeded, "failed": failed}
    new_status["startTime"] = (document.get("status") or {}).get("startTime", client.store.database.now)
    if completed:
        new_status["completedIndexes"] = ",".join(map(str, sorted(completed)))
    await write_status(client, "jobs.batch", document, new_status)


def _revision(document: Raw) -> str:
    data = msgspec.json.encode(document["spec"]["template"], order="sorted")
    return hashlib.sha256(data).hexdigest()[:10]


def _ordinal_pod(document: Raw, ordinal: int, revision: str) -> Raw:
    name, spec = f"{document['metadata']['name']}-{ordinal}", document["spec"]
    labels = {"apps.kubernetes.io/pod-index": str(ordinal), "statefulset.kubernetes.io/pod-name": name}
    volumes = [
        {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in _claim_names(document)
    ]
    pod_spec = {**spec["template"]["spec"], "hostname": name, "subdomain": spec.get("serviceName", "")}
    pod_spec["volumes"] = [*pod_spec.get("volumes", ()), *volumes]
    return _named(spec["template"], name, pod_spec, {**labels, _REVISION_LABEL: revision})


def _claim_names(document: Raw) -> list[str]:
    return [claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates") or ()]


def _named(template: Raw, name: str, spec: Raw, labels: Raw) -> Raw:
    """A pod of a template with its own name, spec and labels."""
    meta = template.get("metadata") or {}
    merged = {**(meta.get("labels") or {}), **labels}
    return {"metadata": {"name": name, "labels": merged, "annotations": meta.get("annotations") or {}}, "spec": spec}


async def _create_claims(client: Client, document: Raw, pod: str) -> None:
    """Create the claims of a pod. No volumes are simulated, so they count as bound; they outlive the StatefulSet."""
    namespace = document["metadata"]["namespace"]
    for template in document["spec"].get("volumeClaimTemplates") or ():
        name = f"{template['metadata']['name']}-{pod}"
        if client.store.find(_CLAIMS, name, namespace) is None:
            claim = {"metadata": {**template["metadata"], "name": name}, "spec": template.get("spec") or {}}
            await client.create(_CLAIMS, claim, namespace)
            await client.patch(_CLAIMS, name, {"status": {"phase": "Bound"}}, namespace, "status")


async def _sync_pods(
    client: Client, owner: Stored, document: Raw, wanted: Iterable[Raw], *, ordered: bool = False
) -> list[Stored]:
    """Create missing pods and delete others; returns the active ones. Finished pods stay unless they should run for ever."""
    existing = {pod.name: pod for pod in dependents_of(client.store, owner, "pods")}
    names: set[str] = set()
    waiting = False
    for pod in wanted:
        name = pod["metadata"]["name"]
        names.add(name)
        known = existing.get(name)
        if known is None:
            if not waiting:
                await create_owned_pod(client, document, pod)
        elif _outdated(known, pod) or (not _is_kept(known, pod) and b'"deletionTimestamp"' not in known.data):
            await delete_pod(client, known)
        waiting = waiting or (ordered and (known is None or not is_ready(known)))
    for name in sorted(set(existing) - names, reverse=True):
        await delete_pod(client, existing[name])
    return [pod for pod in dependents_of(client.store, owner, "pods") if is_active(pod)]


def _outdated(pod: Stored, wanted: Raw) -> bool:
    revision = wanted["metadata"]["labels"].get(_REVISION_LABEL)
    return revision != pod.labels.get(_REVISION_LABEL) and b'"deletionTimestamp"' not in pod.data


def _is_kept(pod: Stored, wanted: Raw) -> bool:
    return is_active(pod) or wanted["spec"].get("restartPolicy", "Always") != "Always"


def _pinned(spec: Raw, node: str) -> Raw:
    """A pod spec that is restricted to one node, in each term of its node affinity."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    every: list[Raw] = required.get("nodeSelectorTerms") or [{}]
    terms = [{**term, "matchFields": [*(term.get("matchFields") or ()), field]} for term in every]
    pinned = {**node_affinity, "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": pinned}}


async def _create_ray_cluster(client: Client, document: Raw) -> None:
    meta, kind = document["metadata"], document["kind"]
    name, spec = f"{meta['name']}-raycluster", document["spec"][_RAY_CLUSTER_SPECS[kind]]
    known = client.store.find(_RAY_CLUSTERS, name, meta["namespace"])
    if known is None:
        cluster = {"metadata": {"name": name, "ownerReferences": [controller_reference(document)]}, "spec": spec}
        await client.create(_RAY_CLUSTERS, cluster, meta["namespace"])
    elif known.read().get("spec") != spec:
        await client.patch(_RAY_CLUSTERS, name, {"spec": spec}, meta["namespace"])


def _suspended(document: Raw) -> bool:
    spec = document["spec"]
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))


def _operator_pods(document: Raw) -> Iterator[Raw]:
    for template in pod_templates(WorkloadObject(document)):
        for number in range(template.count):
            pod: dict[str, Any] = template.document
            if template.stamp is not None:
                pod = stamped(pod, template.stamp(number))
            yield _named(pod, pod["metadata"]["name"], pod["spec"], {})

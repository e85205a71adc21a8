"""Controllers of workloads whose pods have fixed names: StatefulSets, DaemonSets, and the jobs of operators.

Each lists the pods that its workload should have; missing ones are created and others deleted. The jobs of operators, such as
JobSet and PyTorchJob, get the pods, labels and indexes that their operators would create, in one step and without the Jobs
and StatefulSets in between.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.dialects.pod_templates.kinds import pod_templates
from linkwise.dialects.pod_templates.template import WorkloadObject, stamped
from linkwise.embedded.controllers.owned import (
    controller_reference,
    create_owned_pod,
    delete_pod,
    dependents_of,
    is_active,
    is_ready,
    write_status,
)
from linkwise.engine.feasibility import all_unfit
from linkwise.errors import InputError
from linkwise.model.demand import Load
from linkwise.wire.kubernetes.objects import decode_node, pod_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.embedded.controllers.owned import Client
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = ["sync_daemon_set", "sync_operator_job", "sync_stateful_set"]

_CLAIMS: Final = "persistentvolumeclaims"
_RAY_CLUSTERS: Final = "rayclusters.ray.io"
_RAY_CLUSTER_SPECS: Final = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
"""where kinds that create a RayCluster have its spec"""
_REVISION: Final = "controller-revision-hash"
_DAEMON_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        *(("not-ready", "NoExecute"), ("unreachable", "NoExecute"), ("disk-pressure", "NoSchedule")),
        *(("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule")),
    )
]
_DECIDED_BY_NODE: Final = frozenset({"selector", "affinity", "taint"})
"""reasons for which a DaemonSet has no pod on a node"""


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
        _named(template, f"{stored.name}-{node}", _pinned(pod_spec, node), {_REVISION: revision}) for node in nodes
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
    revision = wanted["metadata"]["labels"].get(_REVISION)
    return revision != pod.labels.get(_REVISION) and b'"deletionTimestamp"' not in pod.data


def _is_kept(pod: Stored, wanted: Raw) -> bool:
    return is_active(pod) or wanted["spec"].get("restartPolicy", "Always") != "Always"


def _named(template: Raw, name: str, spec: Raw, labels: Raw) -> Raw:
    """A pod of a template with its own name, spec and labels."""
    meta = template.get("metadata") or {}
    merged = {**(meta.get("labels") or {}), **labels}
    return {"metadata": {"name": name, "labels": merged, "annotations": meta.get("annotations") or {}}, "spec": spec}


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
    return _named(spec["template"], name, pod_spec, {**labels, _REVISION: revision})


def _claim_names(document: Raw) -> list[str]:
    return [claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates") or ()]


async def _create_claims(client: Client, document: Raw, pod: str) -> None:
    """Create the claims of a pod. No volumes are simulated, so they count as bound; they outlive the StatefulSet."""
    namespace = document["metadata"]["namespace"]
    for template in document["spec"].get("volumeClaimTemplates") or ():
        name = f"{template['metadata']['name']}-{pod}"
        if client.store.find(_CLAIMS, name, namespace) is None:
            claim = {"metadata": {**template["metadata"], "name": name}, "spec": template.get("spec") or {}}
            await client.create(_CLAIMS, claim, namespace)
            await client.patch(_CLAIMS, name, {"status": {"phase": "Bound"}}, namespace, "status")


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


def _operator_pods(document: Raw) -> Iterator[Raw]:
    for template in pod_templates(WorkloadObject(document)):
        for number in range(template.count):
            pod: dict[str, Any] = template.document
            if template.stamp is not None:
                pod = stamped(pod, template.stamp(number))
            yield _named(pod, pod["metadata"]["name"], pod["spec"], {})


def _suspended(document: Raw) -> bool:
    spec = document["spec"]
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))


async def _create_ray_cluster(client: Client, document: Raw) -> None:
    meta, kind = document["metadata"], document["kind"]
    name, spec = f"{meta['name']}-raycluster", document["spec"][_RAY_CLUSTER_SPECS[kind]]
    known = client.store.find(_RAY_CLUSTERS, name, meta["namespace"])
    if known is None:
        cluster = {"metadata": {"name": name, "ownerReferences": [controller_reference(document)]}, "spec": spec}
        await client.create(_RAY_CLUSTERS, cluster, meta["namespace"])
    elif known.read().get("spec") != spec:
        await client.patch(_RAY_CLUSTERS, name, {"spec": spec}, meta["namespace"])

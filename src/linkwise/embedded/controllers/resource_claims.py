"""Controller of ResourceClaims: creates those of templates, and deallocates those that no pod uses any more.

A claim keeps its devices while a pod is in `reservedFor` that exists and has not finished. Then it is deallocated, and the
finalizer is removed that has kept it until now. Generated claims of pods that will never run are deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.controllers.owned import controller_reference, dependents_of, is_active
from linkwise.embedded.writes.claim_rules import CLAIMS, TEMPLATES
from linkwise.embedded.writes.pod_claims import FINALIZER, claim_names, consumer_of

if TYPE_CHECKING:
    from linkwise.embedded.controllers.owned import Client
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["sync_claim", "sync_claims_of_pod"]

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""annotation of a generated claim: the name that the pod has for it"""


async def sync_claims_of_pod(client: Client, stored: Stored) -> None:
    """Create the missing claims of a pod from their templates."""
    if not is_active(stored):
        return
    pod = stored.read()
    statuses = {each["name"]: each for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        template, known = claim.get("resourceClaimTemplateName"), statuses.get(claim["name"], {})
        name = known.get("resourceClaimName")
        if template and not (name and _owns(client.store, stored, name)):
            generated = _generated_for(client.store, stored, claim["name"])
            generated = generated or await _create(client, pod, claim["name"], template)
            statuses[claim["name"]] = {"name": claim["name"], "resourceClaimName": generated}
    listed = list(statuses.values())
    if listed != ((pod.get("status") or {}).get("resourceClaimStatuses") or []):
        client.store.patch(
            "pods", stored.name, {"status": {"resourceClaimStatuses": listed}}, stored.namespace, "status"
        )
    if stored.fields.get("spec.nodeName"):
        for name in filter(None, claim_names(pod)):
            _reserve(client.store, stored, name)


async def sync_claim(client: Client, stored: Stored) -> None:
    """Remove the pods that do not use a claim any more; deallocate it after the last one."""
    store, claim = client.store, stored.read()
    status = claim.get("status") or {}
    consumers = status.get("reservedFor") or []
    current = [each for each in consumers if _uses(store, stored.namespace, each)]
    if len(current) < len(consumers):
        change: Raw = {"reservedFor": current or None} | ({} if current else {"allocation": None})
        store.patch(CLAIMS, stored.name, {"status": change}, stored.namespace, "status")
    elif not current and "deletionTimestamp" in claim["metadata"] and "allocation" in status:
        store.patch(CLAIMS, stored.name, {"status": {"allocation": None}}, stored.namespace, "status")
    if not current and FINALIZER in (claim["metadata"].get("finalizers") or ()):
        written = store.find(CLAIMS, stored.name, stored.namespace)
        if written is not None and "allocation" not in (written.read().get("status") or {}):
            _remove_finalizer(store, written)
    if not current and "deletionTimestamp" not in claim["metadata"] and _is_left_over(store, claim):
        await client.delete(CLAIMS, stored.name, stored.namespace)


def _owns(store: Store, pod: Stored, name: str) -> bool:
    claim = store.find(CLAIMS, name, pod.namespace)
    return claim is not None and pod.uid.encode() in claim.data


def _generated_for(store: Store, pod: Stored, name: str) -> str:
    """The claim of the pod with this annotation, which may have replaced the one that was created."""
    for claim in dependents_of(store, pod, CLAIMS):
        meta = claim.read()["metadata"]
        if (meta.get("annotations") or {}).get(POD_CLAIM) == name and "deletionTimestamp" not in meta:
            return claim.name
    return ""


async def _create(client: Client, pod: Raw, name: str, template_name: str) -> str:
    about = pod["metadata"]
    stored = client.store.find(TEMPLATES, template_name, about["namespace"])
    if stored is None:
        message = f'PodResourceClaim {name}: resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
        client.recorder.record(pod, "Warning", "FailedResourceClaimCreation", message)
        raise ApiError(404, "NotFound", message)
    spec = stored.read()["spec"]
    meta = spec.get("metadata") or {}
    document = {
        "metadata": {
            "generateName": f"{about['name']}-{name}-",
            "labels": meta.get("labels") or {},
            "annotations": {**(meta.get("annotations") or {}), POD_CLAIM: name},
            "ownerReferences": [controller_reference(pod)],
        },
        "spec": spec["spec"],
    }
    try:
        return (await client.create(CLAIMS, document, about["namespace"])).name
    except ApiError as error:
        message = f"PodResourceClaim {name}: {error.message}"
        client.recorder.record(pod, "Warning", "FailedResourceClaimCreation", message)
        raise


def _reserve(store: Store, pod: Stored, name: str) -> None:
    """Reserve an allocated claim for a pod that was assigned to its node by hand."""
    claim = store.find(CLAIMS, name, pod.namespace)
    status = (claim.read().get("status") or {}) if claim is not None else {}
    consumers = status.get("reservedFor") or []
    if "allocation" in status and all(each["uid"] != pod.uid for each in consumers):
        change = {"status": {"reservedFor": [*consumers, consumer_of(pod)]}}
        store.patch(CLAIMS, name, change, pod.namespace, "status")


def _uses(store: Store, namespace: str, consumer: Raw) -> bool:
    """Whether an entry of reservedFor is a pod that runs or will run; other consumers are unknown and stay."""
    if consumer.get("apiGroup") or consumer["resource"] != "pods":
        return True
    pod = store.find("pods", consumer["name"], namespace)
    if pod is None or pod.uid != consumer["uid"] or pod.fields.get("status.phase") in {"Succeeded", "Failed"}:
        return False
    return bool(pod.fields.get("spec.nodeName")) or b'"deletionTimestamp"' not in pod.data


def _is_left_over(store: Store, claim: Raw) -> bool:
    """Whether a claim was generated for a pod that has finished."""
    meta = claim["metadata"]
    owners = [each for each in meta.get("ownerReferences") or () if each.get("controller") and each["kind"] == "Pod"]
    pods = [store.find("pods", each["name"], meta["namespace"]) for each in owners]
    return POD_CLAIM in (meta.get("annotations") or {}) and any(
        pod is not None and pod.uid == owner["uid"] and not is_active(pod)
        for pod, owner in zip(pods, owners, strict=True)
    )


def _remove_finalizer(store: Store, claim: Stored) -> None:
    finalizers = [each for each in claim.read()["metadata"].get("finalizers") or () if each != FINALIZER]
    store.patch(CLAIMS, claim.name, {"metadata": {"finalizers": finalizers or None}}, claim.namespace)

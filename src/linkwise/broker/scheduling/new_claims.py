"""Claims of new pods: whether the devices of a pod are requested by a claim of ours instead of the extended resource.

They are if a DeviceClass serves the resource and no schedulable node has it from a device plugin. In a cluster of both kinds of
nodes, an annotation of the pod or a label of the namespace decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.kubernetes.claims.requests import (
    CLAIM_REQUEST,
    SWITCH,
    ClaimRequest,
    claim_name,
    claim_request,
    requests_by_container,
    switched,
)
from linkwise.dialects.registry import counts_whole_devices
from linkwise.errors import InputError

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["claim_of_new", "foreign_claim"]

KUEUE_MANAGED: Final = "kueue.x-k8s.io/managed"
"""label of pods that Kueue admits one by one or as a group of pods, and not as a Job"""


def claim_of_new(state: State, pod: PodView, review: str) -> tuple[ClaimRequest | None, str]:
    """Return the claim that a new pod gets; None if it keeps its resource, with a warning if no claim can serve it."""
    settings, ask = state.settings, state.request(pod).ask
    if not (settings.claims.plan and settings.group.gates) or ask is None or pod.node:
        return None, ""
    if not counts_whole_devices(ask.resource) or pod.labels.get(KUEUE_MANAGED) == "true":
        return None, ""  # Kueue counts what its pods request, and no named claims
    wanted = switched(pod.annotations)
    if wanted is None:
        wanted = state.cluster.shared.claiming.get(pod.namespace)
    device_class = state.cluster.claims.class_of(ask.resource)
    if wanted is False or (wanted is None and (not device_class or _has_plugin(state, ask.resource))):
        return None, ""
    if not device_class:
        return None, f"{SWITCH}: ignored, because no DeviceClass has the extendedResourceName {ask.resource}"
    try:
        containers = requests_by_container(pod, ask.resource)
    except InputError as error:
        return None, f"{ask.resource}: placed by count: {error}"
    return ClaimRequest(claim_name(review), device_class, ask.resource, containers), ""


def foreign_claim(state: State, pod: PodView) -> str:
    """Return why a pod that names a claim of ours can't be created; empty if the claim is for it."""
    request, problems = claim_request(pod)
    if request is None:
        return problems[0].text if problems else ""
    others = (claim_request(each)[0] for each in state.cluster.pods.values() if CLAIM_REQUEST in each.annotations)
    named = any(other and other.claim == request.claim for other in others)
    if not named and f"{pod.namespace}/{request.claim}" not in state.cluster.claims:
        return ""
    return f"ResourceClaim {request.claim} belongs to another pod; create the pod from its original manifest"


def _has_plugin(state: State, resource: str) -> bool:
    """Return whether a schedulable node has the resource from a device plugin."""
    return any(
        view.allocatable.get(resource, "0") != "0" and not view.unschedulable for view in state.cluster.nodes.values()
    )

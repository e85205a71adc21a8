"""What keeps the claim of a pending pod from being allocated, for which kube-scheduler has no words.

It reports nothing about a claim that does not exist, and "cannot allocate all claims" for a device that is taken, tainted or
gone, without naming the device or who has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.state import pod_name
from linkwise.dialects.kubernetes.claims.planned import planned_devices
from linkwise.dialects.kubernetes.claims.requests import claim_request
from linkwise.dialects.linkwise.group_plan import is_gated
from linkwise.engine.reasons.phrases import OTHER_NAMESPACE, is_or_are

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.state import State
    from linkwise.dialects.kubernetes.claims.requests import ClaimRequest
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.views import PodView

__all__ = ["claim_obstacles", "incomplete_pools"]


def claim_obstacles(state: State, pod: PodView) -> tuple[str, ...]:
    """Why the devices of a pending pod can't be allocated by its claim, as far as the claim or its class is the reason."""
    request = claim_request(pod)[0]
    if request is None or pod.node:
        return ()
    if not state.cluster.claims.class_of(request.resource):
        lacking = f"no DeviceClass has the extendedResourceName {request.resource}"
        return (f"{lacking}, so its ResourceClaim can't be served; create DeviceClass {request.device_class} again",)
    if is_gated(pod):
        return ()
    claim, record = state.cluster.claims.planned_for(pod.uid), state.groups.get(state.groups.key_of(pod.uid))
    if record is not None and pod.uid in record.claims:
        return ()  # it is being written
    if claim is None:
        return (
            f"ResourceClaim {request.claim} does not exist: kube-scheduler does not try the pod until it does, and reports nothing",
        )
    return () if claim.devices else tuple(_obstacles(state, request, claim.plan))


def incomplete_pools(state: State, most: int = 3) -> tuple[str, ...]:
    """Problems of nodes whose slices can't be used as they are: their devices are not counted."""
    problems = [
        str(problem)
        for name in sorted(state.cluster.inventories)
        for problem in state.cluster.inventories[name].problems
        if problem.sentence.endswith("its devices are not counted")
    ]
    return tuple(problems[:most])


def _obstacles(state: State, request: ClaimRequest, plan: str) -> list[str]:
    node, parts = planned_devices(plan)
    inventory = state.cluster.inventories.get(node)
    if inventory is None:
        return []  # an event of its own says that the node is gone
    reasons: dict[str, list[str]] = {}
    for device in (device for part in parts for device in part.devices):
        if reason := _reason(state, inventory, device):
            reasons.setdefault(reason, []).append(device)
    return [
        f"device{'s' if len(devices) > 1 else ''} {', '.join(devices)} of node {node}, which ResourceClaim {request.claim} names, "
        f"{is_or_are(len(devices))} {reason}"
        for reason, devices in reasons.items()
    ]


def _reason(state: State, inventory: NodeInventory, device: str) -> str:
    if holder := (inventory.claims or {}).get(device, ""):
        return f"allocated to {_holder(state, holder)}"
    if device in inventory.faults:
        fault = inventory.faults[device]
        return f"unhealthy{f': {fault}' if fault else ''}"
    known: Sequence[str] = [each.id for each in inventory.devices]
    return "" if device in known else "not published any more"


def _holder(state: State, name: str) -> str:
    """A claim with the pods that it is reserved for, else the pod that owns it."""
    claim, namespace = state.cluster.claims.allocated(name), name.partition("/")[0]
    if state.hides(namespace):
        return f"a ResourceClaim of {OTHER_NAMESPACE}"
    owner = state.pod(claim.pod) if claim and claim.pod else None
    names = [f"{namespace}/{user}" for user in claim.users] if claim else []
    names = names or ([pod_name(owner)] if owner else [])
    return f"ResourceClaim {name} of pod {', '.join(names)}" if names else f"ResourceClaim {name}, which no pod uses"

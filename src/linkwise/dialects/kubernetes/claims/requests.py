"""What a pod asked for before the webhook moved its extended resource to a ResourceClaim of its own.

The webhook removes the resource, lets the containers use a named claim that does not exist yet, and keeps what was asked in
an annotation. To everything that places pods the pod requests the resource as before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.json_fields import json_value
from linkwise.dialects.pod_resources import amount, by_container
from linkwise.errors import InputError
from linkwise.model.ask import Group
from linkwise.model.verdict import Problem
from linkwise.speed.caches import cached_by_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.views import ContainerView, PodView

    _Containers = tuple[ContainerView, ...]

__all__ = [
    "CLAIM",
    "CLAIM_PREFIX",
    "CLAIM_REQUEST",
    "MOST_DEVICES",
    "POD_CLAIM",
    "SWITCH",
    "ClaimRequest",
    "claim_name",
    "claim_request",
    "group_of_one",
    "has_claim_request",
    "request_text",
    "requests_by_container",
    "switched",
    "used_requests",
    "with_claim_request",
]

CLAIM_REQUEST: Final = "linkwise.dev/claim-request"
"""annotation of a pod: the claim, and the resource and devices that its containers asked for"""
CLAIM: Final = "claim"
"""source of the groups of single pods with a claim: each is planned as a gang of one"""
SWITCH: Final = "linkwise.dev/dra"
"""annotation of a pod, label or annotation of a namespace: whether devices are requested by a claim"""
POD_CLAIM: Final = "linkwise-gpu"
"""the name that containers use for the claim"""
CLAIM_PREFIX: Final = "lw-"
"""begins the names of claims that Linkwise creates"""
MOST_DEVICES: Final = 32
"""of one claim, by the API's validation"""
_DIGITS: Final = 16
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The request of a pod that a claim of ours serves."""

    claim: str
    """its name, in the pod's namespace"""
    device_class: str
    resource: str
    containers: Mapping[str, int]
    """devices by container; each is a request of the claim"""


def claim_name(review: str) -> str:
    """The name of the claim of a pod that is created: its own name may not be known yet, but that of the review is unique."""
    digits = review.replace("-", "").lower()
    if len(digits) < _DIGITS or not _HEX.issuperset(digits):
        digits = review.encode().hex().rjust(_DIGITS, "0")[-_DIGITS:]
    return CLAIM_PREFIX + digits[:_DIGITS]


def switched(labels: Mapping[str, str]) -> bool | None:
    """What labels or annotations say about claims; None if they say nothing that is valid."""
    return {"true": True, "false": False}.get(labels.get(SWITCH, ""))


def requests_by_container(pod: PodView, resource: str) -> dict[str, int]:
    """Devices by container for which a claim has a request; InputError if a claim can't serve them.

    A claim has its devices as long as the pod exists, so an init container uses the request of a container of that number.
    """
    devices = by_container(pod, resource)
    running = {
        each.name: devices[each.name] for each in pod.containers if each.name in devices and not _passes_on(each)
    }
    for each in pod.containers:
        count = amount(each, resource) if _passes_on(each) else 0
        if count and count not in running.values():
            raise InputError(
                f"init container {each.name} requests {count} {resource}, and no other container that number; a claim can't serve it"
            )
    if sum(running.values()) > MOST_DEVICES:
        raise InputError(f"a claim has {MOST_DEVICES} devices at most; {sum(running.values())} are requested")
    return running


def used_requests(pod: PodView, request: ClaimRequest) -> dict[str, str]:
    """The request of the claim that each container with devices uses, init containers included."""
    first: dict[int, str] = {}
    for name, count in request.containers.items():
        first.setdefault(count, name)
    found = {name: name for name in request.containers}
    for each in pod.containers:
        if _passes_on(each) and (count := amount(each, request.resource)):
            found[each.name] = first[count]
    return found


def request_text(request: ClaimRequest) -> str:
    """The value of the annotation."""
    document = {
        "claim": request.claim,
        "class": request.device_class,
        "resource": request.resource,
        "containers": dict(request.containers),
    }
    return json.dumps(document, separators=(",", ":"))


def has_claim_request(pod: PodView) -> bool:
    """Return whether a claim of ours serves the devices of a pod."""
    return CLAIM_REQUEST in pod.annotations and claim_request(pod)[0] is not None


def claim_request(pod: PodView) -> tuple[ClaimRequest | None, tuple[Problem, ...]]:
    """The request in the annotation of a pod; a problem if it can't be read, or if the pod does not use the claim."""
    text = pod.annotations.get(CLAIM_REQUEST)
    if text is None:
        return None, ()
    found = _read(text)
    if isinstance(found, str):
        return None, (Problem(where_pod(pod), CLAIM_REQUEST, found),)
    if POD_CLAIM not in pod.claims:
        sentence = f"the pod has no resource claim {POD_CLAIM}; remove this annotation, which is set by the webhook"
        return None, (Problem(where_pod(pod), CLAIM_REQUEST, sentence),)
    return found, ()


def group_of_one(pod: PodView) -> Group | None:
    """A gang of the pod alone, as which it is planned; None if no claim of ours serves its devices."""
    request = claim_request(pod)[0]
    return Group(f"{pod.namespace}/{request.claim}", CLAIM, 1, 1, waiting_time=0.0) if request else None


def with_claim_request(pod: PodView) -> PodView:
    """The pod with the resource that its claim serves; the pod itself if it has no such claim."""
    if CLAIM_REQUEST not in pod.annotations:
        return pod
    request = claim_request(pod)[0]
    if request is None:
        return pod
    containers = _adding(request.resource, tuple(request.containers.items()))(pod.containers)
    return pod if containers == pod.containers else replace(pod, containers=containers)


@lru_cache(maxsize=256)
def _adding(resource: str, counts: tuple[tuple[str, int], ...]) -> Callable[[_Containers], _Containers]:
    """Return a function that adds the resource; pods of one template get the same object, by which caches find it."""
    amounts = {name: {resource: str(count)} for name, count in counts}

    def added(containers: _Containers) -> _Containers:
        return tuple(_with(each, amounts[each.name]) if each.name in amounts else each for each in containers)

    return cached_by_identity(added, most=64)


def _with(container: ContainerView, wanted: Mapping[str, str]) -> ContainerView:
    if _passes_on(container):
        return container
    return replace(container, limits={**container.limits, **wanted}, requests={**container.requests, **wanted})


def _passes_on(container: ContainerView) -> bool:
    """Return whether a container ends before others start, which then have its devices."""
    return container.init and not container.sidecar


@lru_cache(maxsize=4096)
def _read(text: str) -> ClaimRequest | str:
    try:
        value = json_value(text)
    except InputError as error:
        return f"{error}; remove this annotation, which is set by the webhook"
    if not isinstance(value, dict):
        return "it is not a JSON object; remove this annotation, which is set by the webhook"
    names = [value.get(key) for key in ("claim", "class", "resource")]
    counts = value.get("containers")
    if not all(isinstance(name, str) and name for name in names) or not isinstance(counts, dict) or not counts:
        return "claim, class, resource or containers are missing; remove this annotation, which is set by the webhook"
    if not all(isinstance(count, int) and not isinstance(count, bool) and count > 0 for count in counts.values()):
        return "the number of devices of a container is invalid; remove this annotation, which is set by the webhook"
    claim, device_class, resource = map(str, names)
    return ClaimRequest(claim, device_class, resource, counts)

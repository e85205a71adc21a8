"""The ResourceClaims of a pod: their names, and how a claim names the pods that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = ["FINALIZER", "claim_names", "claims_named_by", "consumer_of"]

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""keeps an allocated claim until it is deallocated"""


def claim_names(pod: Raw) -> list[str | None]:
    """The names of the claims of a pod; None for one that is not generated yet."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    generated = {each["name"]: each.get("resourceClaimName") for each in statuses}
    names: list[str | None] = []
    for claim in pod["spec"].get("resourceClaims") or ():
        if name := claim.get("resourceClaimName"):
            names.append(name)
        elif claim["name"] not in generated:
            names.append(None)
        elif generated[claim["name"]]:  # without a name none is needed
            names.append(generated[claim["name"]])
    return names


def consumer_of(pod: Stored) -> Raw:
    """The entry of a pod in reservedFor."""
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def claims_named_by(pod: Raw) -> list[str]:
    """The claims that a pod uses."""
    extended = ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return [name for name in (*claim_names(pod), extended) if name]

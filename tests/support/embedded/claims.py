"""Pods with planned claims on an embedded cluster whose nodes have a DRA driver: what the webhook makes of them, and what they get."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from linkwise.embedded.store import Store

__all__ = ["CLAIMS", "DRIVER", "GPU", "allocated", "claim_of", "no_device_is_allocated_twice", "swapped"]

GPU: Final = "nvidia.com/gpu"
DRIVER: Final = "gpu.nvidia.com"
CLAIMS: Final = "resourceclaims.resource.k8s.io"


def swapped(number: int, count: int) -> dict[str, Any]:
    """What the webhook adds to a pod, as further words of `pod`; it has no extended resource any more."""
    name = f"lw-{number:016x}"
    asked = {"claim": name, "class": DRIVER, "resource": GPU, "containers": {"main": count}}
    return {
        "annotations": {"linkwise.dev/claim-request": json.dumps(asked)},
        "schedulingGates": [{"name": "linkwise.dev/gang"}],
        "resourceClaims": [{"name": "linkwise-gpu", "resourceClaimName": name}],
    }


def allocated(store: Store) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Node and devices by claim."""
    found = {}
    for claim in store.list(CLAIMS).items:
        allocation = claim.read().get("status", {}).get("allocation", {})
        results = allocation.get("devices", {}).get("results", [])
        if results:
            devices = sorted(int(result["device"].removeprefix("gpu-")) for result in results)
            found[claim.name] = (results[0]["pool"], tuple(devices))
    return found


def claim_of(store: Store, name: str) -> str:
    """The claim that a pod names."""
    (claim,) = store.get("pods", name, "default").read()["spec"]["resourceClaims"]
    return str(claim["resourceClaimName"])


def no_device_is_allocated_twice(store: Store) -> None:
    """Each device is in one claim at most."""
    devices = [(node, device) for node, indices in allocated(store).values() for device in indices]
    assert len(devices) == len(set(devices))

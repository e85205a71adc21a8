"""ResourceClaims that Linkwise writes: one per pod, which names the planned devices.

A claim selects devices by an attribute that tells them apart on their node: a selector sees neither the name of a device nor
its pool. The pod is restricted to the node at the same time, so an address that other nodes have as well is enough.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.json_fields import json_value
from linkwise.dialects.kubernetes.claims.objects import GROUP, PLAN
from linkwise.errors import InputError
from linkwise.model.verdict import Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.dialects.kubernetes.claims.requests import ClaimRequest
    from linkwise.model.inventory import Pin
    from linkwise.model.views import PodView

__all__ = ["GROUP_LABEL", "claim_for", "plan_text", "planned_devices", "selector"]

GROUP_LABEL: Final = "linkwise.dev/group"
_LONGEST_LABEL: Final = 63


@lru_cache(maxsize=8192)
def plan_text(node: str, parts: tuple[Part, ...]) -> str:
    """The annotation of a claim: the planned node, and the devices by container. Equal plans are equal texts."""
    devices = {part.container: sorted(part.devices) for part in parts}
    return json.dumps({"node": node, "devices": devices}, separators=(",", ":"), sort_keys=True)


@lru_cache(maxsize=4096)
def planned_devices(plan: str) -> tuple[str, tuple[Part, ...]]:
    """The node and the devices of such an annotation; none if it can't be read, or if the claim names none."""
    try:
        value = json_value(plan)
    except InputError:
        return "", ()
    node, devices = (value.get("node"), value.get("devices")) if isinstance(value, dict) else (None, None)
    if not isinstance(node, str) or not isinstance(devices, dict):
        return "", ()
    listed = {name: each for name, each in devices.items() if isinstance(each, list)}
    parts = [Part(str(name), tuple(each)) for name, each in listed.items() if all(isinstance(one, str) for one in each)]
    return (node, tuple(parts)) if len(parts) == len(devices) else ("", ())


def claim_for(  # noqa: PLR0913 - all that a claim is made of
    pod: PodView, request: ClaimRequest, plan: str, parts: Sequence[Part], pins: Mapping[str, Pin], *, group: str = ""
) -> str:
    """The claim of a pod as JSON; a request whose devices can't be told apart, or are not planned, names none."""
    devices = {part.container: part.devices for part in parts}
    metadata = {
        "name": request.claim,
        "namespace": pod.namespace,
        "annotations": {PLAN: plan},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}],
    }
    if group and len(group) <= _LONGEST_LABEL:
        metadata["labels"] = {GROUP_LABEL: group}
    requests = [
        {"name": name, "exactly": _exactly(request.device_class, count, selector(devices.get(name, ()), pins))}
        for name, count in request.containers.items()
    ]
    spec = {"devices": {"requests": requests}}
    document = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    return json.dumps(document, separators=(",", ":"))


def selector(devices: Sequence[str], pins: Mapping[str, Pin]) -> str:
    """The expression that selects exactly these devices of a node; empty if they can't be told apart."""
    found = [pins[device] for device in devices if device in pins]
    attributes = {attribute for attribute, _ in found}
    if not devices or len(found) < len(devices) or len(attributes) != 1:
        return ""
    domain, _, name = attributes.pop().rpartition("/")
    values = ",".join(json.dumps(value) for _, value in found)
    return f"device.attributes[{json.dumps(domain)}].{name} in [{values}]"


def _exactly(device_class: str, count: int, expression: str) -> dict[str, object]:
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"deviceClassName": device_class, "count": count, **selectors}

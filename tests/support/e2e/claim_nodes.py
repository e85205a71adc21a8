"""Builders of nodes whose devices a DRA driver publishes: no device plugin, a ResourceSlice with NVIDIA's attributes.

No driver runs: slices are objects, and kube-scheduler allocates claims from them by itself. Links come from a
DeviceInventory, as our agent writes one beside another driver, and are joined by UUID or PCI address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.vendors.machines import profile
from support.builders.dra_objects import DRIVER, GPU, device_class, resource_slice
from support.e2e.node_objects import KINDS, RESOURCE, device_ids, machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.vendors.machines import MachineProfile
    from support.e2e.api_client import Api, Raw

__all__ = [
    "CLAIMS",
    "DRIVER",
    "GPU",
    "allocated",
    "claim_node",
    "device_class",
    "slice_name",
    "slice_path",
    "taint",
    "template",
]

CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
BUS_ID: Final = "resource.kubernetes.io/pciBusID"


def claim_node(  # noqa: PLR0913 - a builder: every field but one has a default
    name: str,
    kind: str = "nvlink",
    *,
    links: bool = True,
    uuids: bool = True,
    taints: Mapping[int, Iterable[Mapping[str, str]]] | None = None,
    labels: Mapping[str, str] | None = None,
) -> list[Raw]:
    """A node of a machine profile, its inventory and its slice.

    Args:
        name: of the node
        kind: of the machine, as for `machine`
        links: without them there is no inventory
        uuids: without them, slices tell devices apart by their PCI address alone
        taints: of devices, by index
        labels: further ones of the node
    """
    found = profile(KINDS.get(kind, kind))
    made, inventory = machine(name, kind, labels=labels)
    for amounts in (made["status"]["capacity"], made["status"]["allocatable"]):
        del amounts[RESOURCE[found.vendor]]
    inventory["spec"]["enforced"] = False
    buses = [str(device["busID"]) for device in inventory["spec"]["devices"]]
    devices = [_device(name, found, index, bus, uuids=uuids) for index, bus in enumerate(buses)]
    for index, wrong in (taints or {}).items():
        devices[index]["taints"] = list(wrong)
    published = resource_slice(name, devices, name=slice_name(name))
    return [made, *([inventory] if links else []), published]


def slice_name(node: str) -> str:
    """The name of the slice of a node."""
    return f"{node}-{DRIVER}"


def slice_path(node: str) -> str:
    """Where the slice of a node is."""
    return f"{SLICES}/{slice_name(node)}"


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    """A taint of a device."""
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def template(namespace: str, name: str, count: int, **exactly: Any) -> Raw:  # noqa: ANN401 - further fields as they are
    """A ResourceClaimTemplate of a user for some GPUs."""
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": count, **exactly}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def allocated(api: Api, namespace: str = "") -> dict[str, list[tuple[str, str]]]:
    """Node and device by the name of each claim that has devices."""
    path = CLAIMS.replace("/resourceclaims", f"/namespaces/{namespace}/resourceclaims") if namespace else CLAIMS
    found: dict[str, list[tuple[str, str]]] = {}
    for claim in api.list(path):
        results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        if results:
            found[claim["metadata"]["name"]] = [(result["pool"], result["device"]) for result in results]
    return found


def _device(node: str, found: MachineProfile, index: int, bus: str, *, uuids: bool) -> Raw:
    """A GPU as NVIDIA's driver 0.5 describes it."""
    attributes: Raw = {
        "type": {"string": "gpu"},
        "productName": {"string": found.model},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "580.105.8"},
        "cudaDriverVersion": {"version": "13.0.0"},
        BUS_ID: {"string": bus},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci{bus[:7]}"},
        "resource.kubernetes.io/numaNode": {"int": index * 2 // found.devices},
    }
    if uuids:
        attributes["uuid"] = {"string": device_ids(node, found)[index]}
    capacity = {"memory": {"value": f"{found.memory}Mi"}}
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": capacity}

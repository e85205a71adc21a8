"""ResourceSlices of simulated nodes: what a vendor's DRA driver publishes where no device plugin runs.

The node's allocatable has no devices then. Its DeviceInventory still tells of links, as the node agent publishes it beside
any driver. NVIDIA's driver is the only one whose class serves the extended resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.nvidia import RESOURCE
from linkwise.embedded.writes.claim_rules import CLASSES, SLICES
from linkwise.errors import InputError

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["DRIVER", "create_class", "device_name", "set_slice_health", "tainted_devices", "with_slice"]

DRIVER: Final = "gpu.nvidia.com"
"""NVIDIA's, and its DeviceClass"""
_API: Final = "resource.k8s.io/v1"
_VENDOR: Final = "nvidia"
_LOST: Final = {"key": f"{DRIVER}/gpu-lost", "effect": "NoSchedule"}
_SELECTOR: Final = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"


def with_slice(objects: list[Raw], vendor: str) -> list[Raw]:
    """The objects of a node of whole devices, as they are if a DRA driver serves the devices."""
    if vendor != _VENDOR:
        raise InputError(f"devices of the vendor {vendor} have no DRA driver here; only {_VENDOR} has one")
    node, inventory = objects
    for amounts in (node["status"]["capacity"], node["status"]["allocatable"]):
        amounts.pop(RESOURCE, None)
    inventory["spec"]["enforced"] = False
    name, devices = node["metadata"]["name"], inventory["spec"]["devices"]
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [_device(each) for each in devices],
    }
    about = {"name": f"{name}-{DRIVER}"}
    return [*objects, {"apiVersion": _API, "kind": "ResourceSlice", "metadata": about, "spec": spec}]


def create_class(store: Store) -> None:
    """Create the driver's DeviceClass, unless it is there."""
    if store.find(CLASSES, DRIVER) is None:
        spec = {"selectors": [{"cel": {"expression": _SELECTOR}}], "extendedResourceName": RESOURCE}
        store.create(CLASSES, {"metadata": {"name": DRIVER}, "spec": spec})


def device_name(index: int) -> str:
    """The name of a device in its slice."""
    return f"gpu-{index}"


def set_slice_health(store: Store, node: str, index: int, *, healthy: bool) -> None:
    """Taint a device in the slices of a node, or remove the taint, as NVIDIA's driver does; in a new generation of the pool."""
    for stored in _slices(store, node):
        spec = stored.read()["spec"]
        for device in spec["devices"]:
            if device["name"] == device_name(index):
                taints = [each for each in device.pop("taints", ()) if each["key"] != _LOST["key"]]
                if taints := [*taints, *(() if healthy else (_LOST,))]:
                    device["taints"] = taints
        pool = {"generation": spec["pool"]["generation"] + 1}
        store.patch(SLICES, stored.name, {"spec": {"devices": spec["devices"], "pool": pool}})


def tainted_devices(store: Store, node: str) -> frozenset[str]:
    """The names of the devices of a node that have failed."""
    devices = (device for stored in _slices(store, node) for device in stored.read()["spec"]["devices"])
    return frozenset(device["name"] for device in devices if device.get("taints"))


def _slices(store: Store, node: str) -> list[Stored]:
    return store.list(SLICES, store.select(SLICES, fields=f"spec.nodeName={node},spec.driver={DRIVER}")).items


def _device(listed: Raw) -> Raw:
    index = listed["index"]
    device: Raw = {
        "name": device_name(index),
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": listed["uuid"]},
            "productName": {"string": listed["model"]},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{0x18 + index:02x}:00.0"},
        },
        "capacity": {"memory": {"value": f"{listed['memory']}Mi"}},
    }
    return device if listed["healthy"] else {**device, "taints": [dict(_LOST)]}

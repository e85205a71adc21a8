"""Builders of ResourceSlices, DeviceClasses, ResourceClaims and DeviceTaintRules as JSON, as their authors write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    Raw = dict[str, Any]

__all__ = ["DRIVER", "GPU", "claim", "device", "device_class", "resource_slice", "taint_rule"]

DRIVER: Final = "gpu.nvidia.com"
GPU: Final = "nvidia.com/gpu"
SELECTOR: Final = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
VERSION: Final = "resource.k8s.io/v1"


def device_class(name: str = DRIVER, resource: str = GPU, *selectors: str, created: str = "") -> Raw:
    """The class by which pods request whole GPUs, or another one."""
    about = {"name": name, **({"creationTimestamp": created} if created else {})}
    expressions = [{"cel": {"expression": text}} for text in selectors or (SELECTOR,)]
    spec = {"selectors": expressions, "extendedResourceName": resource}
    return {"apiVersion": VERSION, "kind": "DeviceClass", "metadata": about, "spec": spec}


def device(name: str, kind: str = "gpu", **fields: Any) -> Raw:  # noqa: ANN401 - further fields as they are
    """A device with some of the attributes that NVIDIA's driver publishes."""
    attributes = {
        "type": {"string": kind},
        "uuid": {"string": f"GPU-{name}"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:1b:00.0"},
    }
    return {"name": name, "attributes": attributes, **fields}


def resource_slice(  # noqa: PLR0913 - a builder: every field but one has a default
    node: str,
    devices: int | Iterable[Mapping[str, Any]] = 8,
    *,
    name: str = "",
    pool: str = "",
    driver: str = DRIVER,
    generation: int = 1,
    total: int = 1,
    **spec: Any,  # noqa: ANN401 - further fields as they are
) -> Raw:
    """A slice of a pool that is named after its node."""
    listed = [device(f"gpu-{index}") for index in range(devices)] if isinstance(devices, int) else list(devices)
    of_pool = {"name": pool or node, "generation": generation, "resourceSliceCount": total}
    fields = {"driver": driver, "nodeName": node, "pool": of_pool, "devices": listed, **spec}
    about = {"name": name or f"{node}-{driver}"}
    return {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": about, "spec": fields}


def claim(  # noqa: PLR0913 - a builder: every field but three has a default
    name: str, node: str, names: Collection[str], *, pod: str = "", namespace: str = "default", admin: bool = False
) -> Raw:
    """An allocated claim; with `pod`, the UID of one, the claim that kube-scheduler makes for its extended resources."""
    about: Raw = {"name": name, "namespace": namespace}
    if pod:
        about["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        about["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True}]
    results = [
        {"request": "r", "driver": DRIVER, "pool": node, "device": each, **({"adminAccess": True} if admin else {})}
        for each in names
    ]
    status = {"allocation": {"devices": {"results": results}}} if names else {}
    wanted = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": max(1, len(names))}
    spec = {"devices": {"requests": [{"name": "r", "exactly": wanted}]}}
    return {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": about, "spec": spec, "status": status}


def taint_rule(name: str, selector: object, taint: Mapping[str, str], *, version: str = "v1beta2") -> Raw:
    """A rule that taints the devices that a selector names."""
    spec = {"taint": dict(taint), **({} if selector is None else {"deviceSelector": selector})}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": spec,
    }

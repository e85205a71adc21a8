"""ResourceSlices, DeviceClasses and ResourceClaims, as the fields that are read of them.

A slice lists devices of a pool. A class with an extended resource name lets pods request such devices like those of a
device plugin. An allocated claim has devices, by driver, pool and name. The API server validates these objects; what is
invalid all the same is ignored, so that fewer devices count and never more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.dialects.pod_resources import quantity
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DEVICE_CLASS",
    "GROUP",
    "KINDS",
    "PLAN",
    "RESOURCE_CLAIM",
    "RESOURCE_SLICE",
    "Attribute",
    "Claim",
    "Consumption",
    "DeviceClass",
    "DeviceName",
    "PoolName",
    "Slice",
    "SliceDevice",
    "by_claim",
    "claim_document",
    "claim_of",
    "class_document",
    "class_of",
    "slice_document",
    "slice_of",
]

GROUP: Final = "resource.k8s.io"
RESOURCE_SLICE: Final = f"ResourceSlice.{GROUP}"
DEVICE_CLASS: Final = f"DeviceClass.{GROUP}"
RESOURCE_CLAIM: Final = f"ResourceClaim.{GROUP}"
KINDS: Final = (RESOURCE_SLICE, DEVICE_CLASS, RESOURCE_CLAIM)

PLAN: Final = "linkwise.dev/plan"
"""annotation of a claim that Linkwise wrote: the planned node, and the devices by container"""
FOR_EXTENDED_RESOURCES: Final = "resource.kubernetes.io/extended-resource-claim"
"""annotation of a claim that kube-scheduler creates for the extended resources of a pod"""
_BLOCKING: Final = ("NoSchedule", "NoExecute")
_TYPES: Final = {"string": str, "bool": bool, "int": int, "version": str}

Attribute = tuple[str, str | int | bool]
"""a qualified name, `gpu.nvidia.com/type`, and a value"""
Consumption = tuple[str, str, str]
"""a counter set, a counter and a quantity"""
PoolName = tuple[str, str]
"""a driver and the name of its pool"""
DeviceName = tuple[str, str, str]
"""a driver, a pool and the name of a device in it"""


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """One device of a slice."""

    name: str
    node: str = ""
    """if the slice leaves it to its devices"""
    attributes: tuple[Attribute, ...] = ()
    consumes: tuple[Consumption, ...] = ()
    """of counters that it shares with other devices of the pool"""
    tainted: bool = False
    """whether a taint keeps claims without tolerations away"""

    def attribute(self, name: str) -> str | int | bool | None:
        """The value of an attribute by its qualified name; None if it is missing."""
        return next((value for key, value in self.attributes if key == name), None)


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice: some devices of a pool, or counters that devices of the pool share."""

    name: str
    driver: str
    pool: str
    generation: int
    total: int
    """the number of slices that this generation of the pool has"""
    node: str = ""
    """the only node that has access; empty for slices that select nodes in another way"""
    devices: tuple[SliceDevice, ...] = ()
    counters: tuple[Consumption, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass by which pods request an extended resource."""

    name: str
    resource: str
    created: str = ""
    """as RFC 3339 text, which sorts by time"""
    selectors: tuple[str, ...] = ()
    """expressions that all must be true for a device"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that is allocated, or that Linkwise wrote."""

    name: str
    """with its namespace"""
    devices: tuple[DeviceName, ...]
    """without those that are only accessed for administration; none while it is not allocated"""
    pod: str = ""
    """UID of the pod whose extended resources it serves; empty for any other claim"""
    plan: str = ""
    """what Linkwise planned when it wrote the claim; empty for any other claim"""
    users: tuple[str, ...] = ()
    """names of the pods that it is reserved for"""
    deleting: bool = False

    @property
    def pools(self) -> tuple[PoolName, ...]:
        """The pools of its devices."""
        return tuple(dict.fromkeys((driver, pool) for driver, pool, _ in self.devices))


def by_claim(resource: str) -> str:
    """How a node provides an extended resource that claims serve, for pods that can run nowhere else."""
    return f"{resource} by claim"


def slice_of(name: str, document: Mapping[str, object]) -> Slice | None:
    """Read a ResourceSlice; None if it can't be assigned to a pool."""
    spec = _object(document, "spec")
    pool = _object(spec, "pool")
    driver, of_pool = _text(spec, "driver"), _text(pool, "name")
    generation, total = _count(pool, "generation"), _count(pool, "resourceSliceCount")
    if not (driver and of_pool) or generation is None or total is None:
        return None
    devices = [_device(driver, device) for device in _objects(spec, "devices")]
    counters = [
        (_text(each, "name"), counter, amount)
        for each in _objects(spec, "sharedCounters")
        for counter, amount in _amounts(each, invalid="0")
    ]
    return Slice(
        name,
        driver,
        of_pool,
        generation,
        total,
        _text(spec, "nodeName"),
        tuple(device for device in devices if device.name),
        tuple(counters),
    )


def class_of(name: str, document: Mapping[str, object]) -> DeviceClass | None:
    """Read a DeviceClass; None if it has no extended resource name."""
    spec = _object(document, "spec")
    resource = _text(spec, "extendedResourceName")
    expressions = [_text(_object(each, "cel"), "expression") for each in _objects(spec, "selectors")]
    created = _text(_object(document, "metadata"), "creationTimestamp")
    return DeviceClass(name, resource, created, tuple(expressions)) if resource else None


def claim_of(name: str, document: Mapping[str, object]) -> Claim | None:
    """Read a ResourceClaim; None while it has no devices, unless Linkwise wrote it."""
    metadata, status = _object(document, "metadata"), _object(document, "status")
    results = _objects(_object(_object(status, "allocation"), "devices"), "results")
    devices = [
        (_text(each, "driver"), _text(each, "pool"), _text(each, "device"))
        for each in results
        if each.get("adminAccess") is not True
    ]
    devices = [device for device in devices if all(device)]
    plan = _text(_object(metadata, "annotations"), PLAN)
    if not devices and not plan:
        return None
    users = [_text(each, "name") for each in _objects(status, "reservedFor") if _text(each, "resource") == "pods"]
    deleting = "deletionTimestamp" in metadata
    return Claim(name, tuple(dict.fromkeys(devices)), _served_pod(document), plan, tuple(users), deleting)


def slice_document(found: Slice) -> dict[str, object]:
    """The fields of a slice that `slice_of` reads."""
    pool = {"name": found.pool, "generation": found.generation, "resourceSliceCount": found.total}
    devices = [_device_document(device) for device in found.devices]
    return _with_spec(
        "ResourceSlice",
        found.name,
        {
            "driver": found.driver,
            "pool": pool,
            "nodeName": found.node,
            "devices": devices,
            "sharedCounters": _counter_sets(found.counters, "name"),
        },
    )


def class_document(found: DeviceClass) -> dict[str, object]:
    """The fields of a class that `class_of` reads."""
    selectors = [{"cel": {"expression": text}} for text in found.selectors]
    spec = {"extendedResourceName": found.resource, "selectors": selectors}
    return _with_spec("DeviceClass", found.name, spec, creationTimestamp=found.created)


def claim_document(found: Claim) -> dict[str, object]:
    """The fields of a claim that `claim_of` reads."""
    namespace, _, name = found.name.rpartition("/")
    results = [{"driver": driver, "pool": pool, "device": device} for driver, pool, device in found.devices]
    about: dict[str, object] = {"namespace": namespace}
    if found.plan:
        about["annotations"] = {PLAN: found.plan}
    elif found.pod:
        about["annotations"] = {FOR_EXTENDED_RESOURCES: "true"}
    if found.pod:
        about["ownerReferences"] = [{"kind": "Pod", "uid": found.pod, "controller": True}]
    if found.deleting:
        about["deletionTimestamp"] = "1970-01-01T00:00:00Z"
    document = _with_spec("ResourceClaim", name, {}, **about)
    status: dict[str, object] = {"allocation": {"devices": {"results": results}}} if results else {}
    if found.users:
        status["reservedFor"] = [{"resource": "pods", "name": user} for user in found.users]
    return {**document, "status": status}


def _device(driver: str, raw: Mapping[str, object]) -> SliceDevice:
    body = _object(raw, "basic") or raw  # v1beta1 has the fields one level deeper
    attributes = _object(body, "attributes")
    return SliceDevice(
        _text(raw, "name"),
        _text(body, "nodeName"),
        tuple(
            (name if "/" in name else f"{driver}/{name}", value)
            for name in attributes
            if (value := _value(_object(attributes, name))) is not None
        ),
        tuple(
            (_text(each, "counterSet"), counter, amount)
            for each in _objects(body, "consumesCounters")
            for counter, amount in _amounts(each, invalid="1e30")
        ),
        any(_text(taint, "effect") in _BLOCKING for taint in _objects(body, "taints")),
    )


def _value(raw: Mapping[str, object]) -> str | int | bool | None:
    for name, kind in _TYPES.items():
        value = raw.get(name)
        if isinstance(value, str | int) and type(value) is kind:
            return value
    return None


def _amounts(raw: Mapping[str, object], *, invalid: str) -> list[tuple[str, str]]:
    """The counters of a set, with a value for invalid amounts: one with which nothing fits."""
    counters = _object(raw, "counters")
    named = {name: _object(counters, name).get("value") for name in counters}
    return [(name, str(value) if _is_quantity(value) else invalid) for name, value in named.items()]


def _is_quantity(value: object) -> bool:
    try:
        return isinstance(value, str | int) and quantity(str(value)) >= 0
    except InputError:
        return False


def _served_pod(document: Mapping[str, object]) -> str:
    """The pod whose extended resources a claim serves: its controlling owner."""
    metadata = _object(document, "metadata")
    annotations = _object(metadata, "annotations")
    if _text(annotations, FOR_EXTENDED_RESOURCES) != "true" and not _text(annotations, PLAN):
        return ""
    owners = [owner for owner in _objects(metadata, "ownerReferences") if owner.get("controller") is True]
    return next((_text(owner, "uid") for owner in owners if _text(owner, "kind") == "Pod"), "")


def _device_document(device: SliceDevice) -> dict[str, object]:
    words = {str: "string", bool: "bool", int: "int"}
    found: dict[str, object] = {
        "name": device.name,
        "attributes": {name: {words[type(value)]: value} for name, value in device.attributes},
        "consumesCounters": _counter_sets(device.consumes, "counterSet"),
    }
    if device.node:
        found["nodeName"] = device.node
    if device.tainted:
        found["taints"] = [{"key": "tainted", "effect": _BLOCKING[0]}]
    return found


def _counter_sets(counters: Iterable[Consumption], key: str) -> list[dict[str, object]]:
    sets: dict[str, dict[str, object]] = {}
    for name, counter, amount in counters:
        sets.setdefault(name, {})[counter] = {"value": amount}
    return [{key: name, "counters": named} for name, named in sets.items()]


def _with_spec(kind: str, name: str, spec: Mapping[str, object], **about: object) -> dict[str, object]:
    metadata = {"name": name, **about}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _object(raw: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}


def _objects(raw: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    value = raw.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _text(raw: Mapping[str, object], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) and value.isprintable() else ""


def _count(raw: Mapping[str, object], name: str) -> int | None:
    value = raw.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None

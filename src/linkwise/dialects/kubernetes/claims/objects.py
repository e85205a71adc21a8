"""ResourceSlices, DeviceClasses, ResourceClaims and DeviceTaintRules, as the fields that are read of them.

A slice lists devices of a pool. A class with an extended resource name lets pods request such devices like those of a
device plugin. An allocated claim has devices, by driver, pool and name. A rule taints devices. The API server validates
these objects; what is invalid all the same is ignored, so that fewer devices count and never more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.dialects.kubernetes.claims.fields import object_at, objects_at, text_at
from linkwise.dialects.kubernetes.claims.taints import Taint, TaintRule
from linkwise.dialects.pod_resources import quantity
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DEVICE_CLASS",
    "DEVICE_TAINT_RULE",
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
    "rule_document",
    "rule_of",
    "slice_document",
    "slice_of",
]

GROUP: Final = "resource.k8s.io"
RESOURCE_SLICE: Final = f"ResourceSlice.{GROUP}"
DEVICE_CLASS: Final = f"DeviceClass.{GROUP}"
RESOURCE_CLAIM: Final = f"ResourceClaim.{GROUP}"
DEVICE_TAINT_RULE: Final = f"DeviceTaintRule.{GROUP}"
KINDS: Final = (RESOURCE_SLICE, DEVICE_CLASS, RESOURCE_CLAIM, DEVICE_TAINT_RULE)

PLAN: Final = "linkwise.dev/plan"
"""annotation of a claim that Linkwise wrote: the planned node, and the devices by container"""
FOR_EXTENDED_RESOURCES: Final = "resource.kubernetes.io/extended-resource-claim"
"""annotation of a claim that kube-scheduler creates for the extended resources of a pod"""
_SELECTORS: Final = frozenset({"driver", "pool", "device"})
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
    taints: tuple[Taint, ...] = ()

    @property
    def tainted(self) -> bool:
        """Whether a taint keeps claims without tolerations away."""
        return any(taint.blocks for taint in self.taints)

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
    spec = object_at(document, "spec")
    pool = object_at(spec, "pool")
    driver, of_pool = text_at(spec, "driver"), text_at(pool, "name")
    generation, total = _count(pool, "generation"), _count(pool, "resourceSliceCount")
    if not (driver and of_pool) or generation is None or total is None:
        return None
    devices = [_device(driver, device) for device in objects_at(spec, "devices")]
    counters = [
        (text_at(each, "name"), counter, amount)
        for each in objects_at(spec, "sharedCounters")
        for counter, amount in _amounts(each, invalid="0")
    ]
    return Slice(
        name,
        driver,
        of_pool,
        generation,
        total,
        text_at(spec, "nodeName"),
        tuple(device for device in devices if device.name),
        tuple(counters),
    )


def class_of(name: str, document: Mapping[str, object]) -> DeviceClass | None:
    """Read a DeviceClass; None if it has no extended resource name."""
    spec = object_at(document, "spec")
    resource = text_at(spec, "extendedResourceName")
    expressions = [text_at(object_at(each, "cel"), "expression") for each in objects_at(spec, "selectors")]
    created = text_at(object_at(document, "metadata"), "creationTimestamp")
    return DeviceClass(name, resource, created, tuple(expressions)) if resource else None


def claim_of(name: str, document: Mapping[str, object]) -> Claim | None:
    """Read a ResourceClaim; None while it has no devices, unless Linkwise wrote it."""
    metadata, status = object_at(document, "metadata"), object_at(document, "status")
    results = objects_at(object_at(object_at(status, "allocation"), "devices"), "results")
    devices = [
        (text_at(each, "driver"), text_at(each, "pool"), text_at(each, "device"))
        for each in results
        if each.get("adminAccess") is not True
    ]
    devices = [device for device in devices if all(device)]
    plan = text_at(object_at(metadata, "annotations"), PLAN)
    if not devices and not plan:
        return None
    users = [text_at(each, "name") for each in objects_at(status, "reservedFor") if text_at(each, "resource") == "pods"]
    deleting = "deletionTimestamp" in metadata
    return Claim(name, tuple(dict.fromkeys(devices)), _served_pod(document), plan, tuple(users), deleting)


def rule_of(name: str, document: Mapping[str, object]) -> TaintRule | None:
    """Read a DeviceTaintRule; None if it selects no devices, as without a selector, or by CEL, as early versions could."""
    spec = object_at(document, "spec")
    selector = spec.get("deviceSelector")
    if not isinstance(selector, Mapping) or not selector.keys() <= _SELECTORS:
        return None
    words = {key: text_at(selector, key) for key in selector}
    return TaintRule(_taint(object_at(spec, "taint"), name), **words) if all(words.values()) else None


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


def rule_document(found: TaintRule) -> dict[str, object]:
    """The fields of a rule that `rule_of` reads."""
    named = {"driver": found.driver, "pool": found.pool, "device": found.device}
    selector = {key: text for key, text in named.items() if text}
    return _with_spec(
        "DeviceTaintRule", found.taint.rule, {"deviceSelector": selector, "taint": _taint_document(found.taint)}
    )


def _device(driver: str, raw: Mapping[str, object]) -> SliceDevice:
    body = object_at(raw, "basic") or raw  # v1beta1 has the fields one level deeper
    attributes = object_at(body, "attributes")
    return SliceDevice(
        text_at(raw, "name"),
        text_at(body, "nodeName"),
        tuple(
            (name if "/" in name else f"{driver}/{name}", value)
            for name in attributes
            if (value := _value(object_at(attributes, name))) is not None
        ),
        tuple(
            (text_at(each, "counterSet"), counter, amount)
            for each in objects_at(body, "consumesCounters")
            for counter, amount in _amounts(each, invalid="1e30")
        ),
        tuple(map(_taint, objects_at(body, "taints"))),
    )


def _taint(raw: Mapping[str, object], rule: str = "") -> Taint:
    return Taint(text_at(raw, "key"), text_at(raw, "value"), text_at(raw, "effect"), text_at(raw, "timeAdded"), rule)


def _value(raw: Mapping[str, object]) -> str | int | bool | None:
    for name, kind in _TYPES.items():
        value = raw.get(name)
        if isinstance(value, str | int) and type(value) is kind:
            return value
    return None


def _amounts(raw: Mapping[str, object], *, invalid: str) -> list[tuple[str, str]]:
    """The counters of a set, with a value for invalid amounts: one with which nothing fits."""
    counters = object_at(raw, "counters")
    named = {name: object_at(counters, name).get("value") for name in counters}
    return [(name, str(value) if _is_quantity(value) else invalid) for name, value in named.items()]


def _is_quantity(value: object) -> bool:
    try:
        return isinstance(value, str | int) and quantity(str(value)) >= 0
    except InputError:
        return False


def _served_pod(document: Mapping[str, object]) -> str:
    """The pod whose extended resources a claim serves: its controlling owner."""
    metadata = object_at(document, "metadata")
    annotations = object_at(metadata, "annotations")
    if text_at(annotations, FOR_EXTENDED_RESOURCES) != "true" and not text_at(annotations, PLAN):
        return ""
    owners = [owner for owner in objects_at(metadata, "ownerReferences") if owner.get("controller") is True]
    return next((text_at(owner, "uid") for owner in owners if text_at(owner, "kind") == "Pod"), "")


def _device_document(device: SliceDevice) -> dict[str, object]:
    words = {str: "string", bool: "bool", int: "int"}
    found: dict[str, object] = {
        "name": device.name,
        "attributes": {name: {words[type(value)]: value} for name, value in device.attributes},
        "consumesCounters": _counter_sets(device.consumes, "counterSet"),
    }
    if device.node:
        found["nodeName"] = device.node
    if device.taints:
        found["taints"] = list(map(_taint_document, device.taints))
    return found


def _taint_document(taint: Taint) -> dict[str, object]:
    named = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.since}
    return {name: text for name, text in named.items() if text}


def _counter_sets(counters: Iterable[Consumption], key: str) -> list[dict[str, object]]:
    sets: dict[str, dict[str, object]] = {}
    for name, counter, amount in counters:
        sets.setdefault(name, {})[counter] = {"value": amount}
    return [{key: name, "counters": named} for name, named in sets.items()]


def _with_spec(kind: str, name: str, spec: Mapping[str, object], **about: object) -> dict[str, object]:
    metadata = {"name": name, **about}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _count(raw: Mapping[str, object], name: str) -> int | None:
    value = raw.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None

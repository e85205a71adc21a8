"""Objects of a DRA driver: the ResourceSlices that it publishes, and what an allocated ResourceClaim has of its devices.

`pools.py` reads slices of any driver to count their devices; here they are written, for the driver of the node agent. The
claim is read as the kubelet's call names it: what is wrong with it is an error, because a container would start without its
devices.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.kubernetes.claims.fields import object_at, objects_at, text_at
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "API_VERSION",
    "DRIVER",
    "MOST_ATTRIBUTES",
    "MOST_COUNTERS",
    "MOST_DEVICES",
    "AllocatedDevice",
    "ClaimAllocation",
    "DeviceTaint",
    "PublishedDevice",
    "allocation_of",
    "counters_part",
    "devices_part",
    "generation_of",
    "pci_address",
    "slice_name",
    "slice_object",
    "slice_part",
    "with_known_times",
]

DRIVER: Final = "gpu.linkwise.dev"
"""name of the node agent's driver, and the domain of the attributes of its devices"""
API_VERSION: Final = "resource.k8s.io/v1"
PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
MOST_DEVICES: Final = 64
"""in one slice, since they consume counters"""
MOST_ATTRIBUTES: Final = 32
"""of a device, with its capacities"""
MOST_COUNTERS: Final = 32
"""in one set of counters"""
_LONGEST_TEXT: Final = 64  # bytes of an attribute
_LONGEST_NAME: Final = 253  # characters of an object
_DIGEST: Final = 10  # characters
_BUS_ID: Final = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
_UNITS: Final = ("Mi", "Gi", "Ti")

Value = str | int | bool
Part = dict[str, object]
"""the content of a slice: `devices` or `sharedCounters`, which no slice has both of"""


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device, which keeps claims without a toleration away."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device of a slice: one accelerator or a set of them."""

    name: str
    """a DNS label"""
    attributes: Mapping[str, Value]
    """without the driver's domain; those without a value are left out"""
    memory: int = 0  # MiB
    """of all its members"""
    consumes: tuple[tuple[str, str], ...] = ()
    """one of each of these counters: the name of its set, and its own"""
    taints: tuple[DeviceTaint, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that a claim has."""

    request: str
    """of the claim; for one of several alternatives `request/alternative`"""
    device: str
    """its name in the pool"""
    shared: bool = False
    """whether it is only accessed for administration, so that others may have it too"""


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """An allocated claim, as a driver needs it."""

    namespace: str
    name: str
    uid: str
    devices: tuple[AllocatedDevice, ...]
    """of this driver and pool"""


def counters_part(sets: Mapping[str, Sequence[str]]) -> Part:
    """The content of a slice with counters of one, by the name of their set."""
    one = {"value": "1"}
    return {"sharedCounters": [{"name": name, "counters": dict.fromkeys(names, one)} for name, names in sets.items()]}


def devices_part(devices: Iterable[PublishedDevice]) -> Part:
    """The content of a slice with devices."""
    return {"devices": [_device(device) for device in devices]}


def slice_name(node: str, number: int) -> str:
    """The name of a slice of a node; that of a node with a very long name is shortened."""
    end = f"-{DRIVER}-{number}"
    if len(node) + len(end) <= _LONGEST_NAME:
        return node + end
    digest = hashlib.sha256(node.encode()).hexdigest()[:_DIGEST]
    return f"{node[: _LONGEST_NAME - len(end) - _DIGEST - 1].rstrip('.-')}-{digest}{end}"


def slice_object(node: str, number: int, part: Mapping[str, object], generation: int, total: int) -> dict[str, object]:
    """A slice of the pool of a node, which has its name."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": total}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": slice_name(node, number)},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **part},
    }


def slice_part(document: Mapping[str, object]) -> Part:
    """The content of a slice as the API server has it, without the times of taints, which it adds."""
    spec = object_at(document, "spec")
    part: Part = {}
    if counters := spec.get("sharedCounters"):
        part["sharedCounters"] = counters
    if devices := objects_at(spec, "devices"):
        part["devices"] = [_without_times(device) for device in devices]
    return part


def generation_of(document: Mapping[str, object]) -> tuple[int, int]:
    """Generation and number of slices of the pool that a slice belongs to; 0 for what can't be read."""
    pool = object_at(object_at(document, "spec"), "pool")
    numbers = [pool.get(name) for name in ("generation", "resourceSliceCount")]
    generation, total = (one if isinstance(one, int) and not isinstance(one, bool) else 0 for one in numbers)
    return generation, total


def with_known_times(part: Mapping[str, object], known: Mapping[str, object]) -> Part:
    """The content with the times of taints that a slice of the API server has already: an update would renew them."""
    times = {
        (str(device.get("name")), _taint_key(taint)): taint["timeAdded"]
        for device in objects_at(object_at(known, "spec"), "devices")
        for taint in objects_at(device, "taints")
        if "timeAdded" in taint
    }
    if not times or "devices" not in part:
        return dict(part)
    return {**part, "devices": [_with_times(device, times) for device in objects_at(part, "devices")]}


def allocation_of(document: Mapping[str, object], uid: str, pool: str) -> ClaimAllocation:
    """Read a claim that the kubelet names by its UID; InputError if it has no devices of the driver in the pool."""
    metadata = object_at(document, "metadata")
    namespace, name = text_at(metadata, "namespace"), text_at(metadata, "name")
    where = f"ResourceClaim {namespace}/{name}"
    if (found := text_at(metadata, "uid")) != uid:
        raise InputError(f"{where} has UID {found or '(none)'}, and the kubelet asks for {uid}: it was created again")
    allocation = object_at(object_at(object_at(document, "status"), "allocation"), "devices")
    if not allocation:
        raise InputError(f"{where} is not allocated")
    for each in objects_at(allocation, "config"):
        if text_at(object_at(each, "opaque"), "driver") == DRIVER:
            raise InputError(f"{where} has parameters for {DRIVER}, which takes none")
    results = [one for one in objects_at(allocation, "results") if text_at(one, "driver") == DRIVER]
    for one in results:
        if text_at(one, "pool") != pool:
            raise InputError(
                f"{where} has device {text_at(one, 'device')!r} of node {text_at(one, 'pool')!r}, not {pool!r}"
            )
    devices = tuple(
        AllocatedDevice(text_at(one, "request"), text_at(one, "device"), one.get("adminAccess") is True)
        for one in results
    )
    if not devices or not all(one.request and one.device for one in devices):
        raise InputError(f"{where} has no devices of {DRIVER}")
    return ClaimAllocation(namespace, name, uid, devices)


def pci_address(bus_id: str) -> str:
    """The bus id as the standard attribute has it, `0000:3b:00.0` for `00000000:3B:00.0`; empty if it is not one."""
    found = _BUS_ID.fullmatch(bus_id)
    return f"{int(found[1], 16):04x}:{found[2].lower()}" if found else ""


def _device(device: PublishedDevice) -> dict[str, Any]:
    attributes = {name: _attribute(value) for name, value in device.attributes.items() if value != ""}
    document: dict[str, Any] = {"name": device.name, "attributes": attributes}
    if device.memory:
        document["capacity"] = {"memory": {"value": _mebibytes(device.memory)}}
    if device.consumes:
        sets: dict[str, dict[str, object]] = {}
        for name, counter in device.consumes:
            sets.setdefault(name, {})[counter] = {"value": "1"}
        document["consumesCounters"] = [{"counterSet": name, "counters": named} for name, named in sets.items()]
    if device.taints:
        document["taints"] = [
            {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
            for taint in device.taints
        ]
    return document


def _attribute(value: Value) -> dict[str, Value]:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"string": value.encode()[:_LONGEST_TEXT].decode(errors="ignore")}


def _mebibytes(amount: int) -> str:
    """The quantity in the form in which the API server returns it."""
    unit = 0
    while unit + 1 < len(_UNITS) and amount % 1024 == 0:
        amount, unit = amount // 1024, unit + 1
    return f"{amount}{_UNITS[unit]}"


def _without_times(device: Mapping[str, object]) -> dict[str, object]:
    taints = [
        {name: one for name, one in taint.items() if name != "timeAdded"} for taint in objects_at(device, "taints")
    ]
    return {**device, "taints": taints} if taints else dict(device)


def _with_times(device: Mapping[str, object], times: Mapping[tuple[str, tuple[str, ...]], object]) -> dict[str, object]:
    taints = [
        {**taint, "timeAdded": times[key]} if (key := (str(device.get("name")), _taint_key(taint))) in times else taint
        for taint in objects_at(device, "taints")
    ]
    return {**device, "taints": taints} if taints else dict(device)


def _taint_key(taint: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(taint.get(name, "")) for name in ("key", "value", "effect"))

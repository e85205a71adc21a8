"""Dynamic Resource Allocation: the devices that count by ResourceSlices, DeviceClasses and ResourceClaims.

A slice lists devices of a pool. A class with an extended resource name lets pods request such devices like those of a
device plugin. An allocated claim has devices, by driver, pool and name. The API server validates these objects; what is
invalid all the same is ignored, so that fewer devices count and never more.

Counts are never too high: only the newest generation of a complete pool counts, as for kube-scheduler, and devices that
share counters count only as far as all of them can be allocated together.

Of CEL, the selectors of a class may use comparisons of the driver and of attributes with literals, joined by `&&`. Anything
else is unknown: then the device counts as selected, because kube-scheduler evaluates the complete expression and names only
nodes that have enough devices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.pod_resources import quantity
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = [
    "DEVICE_CLASS",
    "KINDS",
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
    "current_slices",
    "devices_on",
    "is_known",
    "pool_problem",
    "selected_on",
    "selects",
    "slice_document",
    "slice_of",
]

GROUP: Final = "resource.k8s.io"
RESOURCE_SLICE: Final = f"ResourceSlice.{GROUP}"
DEVICE_CLASS: Final = f"DeviceClass.{GROUP}"
RESOURCE_CLAIM: Final = f"ResourceClaim.{GROUP}"
KINDS: Final = (RESOURCE_SLICE, DEVICE_CLASS, RESOURCE_CLAIM)

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
    """An allocated ResourceClaim."""

    name: str
    """with its namespace"""
    devices: tuple[DeviceName, ...]
    """without those that are only accessed for administration"""
    pod: str = ""
    """UID of the pod whose extended resources it serves; empty for any other claim"""

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
    """Read a ResourceClaim; None while it has no devices."""
    results = _objects(_object(_object(_object(document, "status"), "allocation"), "devices"), "results")
    devices = [
        (_text(each, "driver"), _text(each, "pool"), _text(each, "device"))
        for each in results
        if each.get("adminAccess") is not True
    ]
    devices = [device for device in devices if all(device)]
    return Claim(name, tuple(dict.fromkeys(devices)), _served_pod(document)) if devices else None


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
    if found.pod:
        about["annotations"] = {FOR_EXTENDED_RESOURCES: "true"}
        about["ownerReferences"] = [{"kind": "Pod", "uid": found.pod, "controller": True}]
    document = _with_spec("ResourceClaim", name, {}, **about)
    return {**document, "status": {"allocation": {"devices": {"results": results}}}}


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
    if _text(_object(metadata, "annotations"), FOR_EXTENDED_RESOURCES) != "true":
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


Counters = dict[tuple[str, str], Decimal]
"""amounts by counter set and counter"""


def current_slices(slices: Iterable[Slice]) -> list[Slice]:
    """The slices of the newest generation of a pool, by name."""
    ordered = sorted(slices, key=lambda each: each.name)
    newest = max((each.generation for each in ordered), default=0)
    return [each for each in ordered if each.generation == newest]


def pool_problem(slices: Sequence[Slice]) -> str:
    """Why the current slices of a pool can't be used; empty if they can."""
    if any(each.total != len(slices) for each in slices):
        return f"{len(slices)} of {max(each.total for each in slices)} slices are published"
    names = Counter(device.name for each in slices for device in each.devices)
    if twice := next((name for name, count in names.items() if count > 1), ""):
        return f"the device name {twice!r} appears twice"
    counters = Counter((name, counter) for each in slices for name, counter, _ in each.counters)
    if any(count > 1 for count in counters.values()):
        return "a counter is defined twice"
    consumed = {(name, counter) for each in slices for device in each.devices for name, counter, _ in device.consumes}
    return "" if consumed <= counters.keys() else "a device consumes a counter that is not defined"


def selected_on(node: str, slices: Sequence[Slice], wanted: DeviceClass) -> list[SliceDevice]:
    """The devices of a class on a node."""
    return [
        device
        for each in slices
        for device in each.devices
        if node in {each.node, device.node} and _is_selected(wanted, each.driver, device)
    ]


def devices_on(
    node: str, slices: Sequence[Slice], wanted: DeviceClass, allocated: Collection[str]
) -> list[SliceDevice]:
    """The devices of a class on a node: those that are allocated, and those that can be allocated besides.

    `slices` are the current ones of a pool without a problem; `allocated` are names of its devices.
    """
    here = selected_on(node, slices, wanted)
    left: Counters = {(name, counter): quantity(amount) for each in slices for name, counter, amount in each.counters}
    if not left:
        return here
    total = dict(left)
    for device in (device for each in slices for device in each.devices if device.name in allocated):
        _take(left, device)
    fitting = {device.name for device in here if device.name in allocated}
    # Those that consume the least first: of devices and sets of the same devices, the single ones count.
    for device in sorted(here, key=lambda device: _weight(total, device)):
        if device.name not in fitting and all(left[key] >= amount for key, amount in _consumed(device)):
            _take(left, device)
            fitting.add(device.name)
    return [device for device in here if device.name in fitting]


def _is_selected(wanted: DeviceClass, driver: str, device: SliceDevice) -> bool:
    return all(selects(expression, driver, device) is not False for expression in wanted.selectors)


def _consumed(device: SliceDevice) -> list[tuple[tuple[str, str], Decimal]]:
    return [((name, counter), quantity(amount)) for name, counter, amount in device.consumes]


def _take(left: Counters, device: SliceDevice) -> None:
    for key, amount in _consumed(device):
        left[key] -= amount


def _weight(total: Counters, device: SliceDevice) -> Decimal:
    return sum((amount / total[key] for key, amount in _consumed(device) if total[key]), Decimal(0))


_TEXT: Final = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_LITERAL: Final = rf"(?:{_TEXT}|true|false|-?[0-9]{{1,18}})"
_OPERAND: Final = (
    rf"device\.(?:(?P<driver>driver)|attributes\[(?P<domain>{_TEXT})\]"
    rf"(?:\.(?P<name>\w+)|\[(?P<quoted>{_TEXT})\]))"
)
_COMPARISON: Final = re.compile(
    rf"{_OPERAND}\s*(?:(?P<operator>==|!=)\s*(?P<value>{_LITERAL})"
    rf"|in\s*\[\s*(?P<values>{_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*\])"
)
_FLAG: Final = re.compile(rf"(?P<not>!?){_OPERAND}")
_LONGEST: Final = 10 * 1024
"""characters of an expression, as in Kubernetes' validation"""


def selects(expression: str, driver: str, device: SliceDevice) -> bool | None:
    """Whether a device is selected; None if that is not known."""
    verdicts = [_verdict(part, driver, device) for part in _conjuncts(expression)]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def is_known(expression: str) -> bool:
    """Whether the complete expression is supported."""
    return all(part == "true" or _match(part) for part in _conjuncts(expression))


@lru_cache(maxsize=256)
def _conjuncts(expression: str) -> tuple[str, ...]:
    """The operands of `&&`; an expression that can't be divided is one."""
    if len(expression) > _LONGEST:
        return ("",)
    return tuple(_without_parentheses(part) for part in _split(expression))


def _split(expression: str) -> Iterator[str]:
    start, depth, quote = 0, 0, ""
    for place, sign in enumerate(expression):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif depth == 0 and expression.startswith("||", place):
            yield ""  # an alternative: what is on its sides need not be true
            return
        elif depth == 0 and expression.startswith("&&", place):
            yield expression[start:place]
            start = place + 2
    yield expression[start:]


def _without_parentheses(text: str) -> str:
    text = text.strip()
    inner = text[1:-1]
    alone = text.startswith("(") and text.endswith(")") and not set(inner) & set("()")
    return inner.strip() if alone else text


def _verdict(part: str, driver: str, device: SliceDevice) -> bool | None:
    if part == "true":
        return True
    match = _match(part)
    if match is None:
        return None
    found = driver if match["driver"] else device.attribute(f"{match['domain'][1:-1]}/{_name(match)}")
    if found is None:
        return False  # a missing attribute is an error in CEL, and the device is not selected
    if match.re is _FLAG:
        return found is not bool(match["not"]) if isinstance(found, bool) else None
    if match["values"]:
        return any(_equal(found, _literal(text)) for text in re.findall(_LITERAL, match["values"]))
    return _equal(found, _literal(match["value"])) == (match["operator"] == "==")


def _match(part: str) -> re.Match[str] | None:
    return _COMPARISON.fullmatch(part) or _FLAG.fullmatch(part)


def _name(match: re.Match[str]) -> str:
    return match["name"] or match["quoted"][1:-1]


def _literal(text: str) -> str | int | bool:
    if text in {"true", "false"}:
        return text == "true"
    return text[1:-1] if text[0] in "\"'" else int(text)


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other

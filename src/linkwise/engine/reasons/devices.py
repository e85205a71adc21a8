"""Refusals about devices: counts, layouts, memory, compute, bandwidth, sharing modes, namespaces and requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import (
    OTHER_NAMESPACE,
    RefusalText,
    as_pairs,
    as_tuple,
    choice_text,
    comma_list,
    device_count,
    device_names,
    is_or_are,
    size_text,
    with_unit,
)
from linkwise.model.topology import NO_LINK_DATA, link_data_help

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.model.verdict import Fact, Reason


__all__ = ["DEVICE_REFUSALS", "REQUIREMENT_REFUSALS"]

_MODES: Final = {"whole": "whole devices", "share": "device memory", "percent": "percentages of devices"}
_WRONG_COUNT: Final = "node(s) can't allocate that number of devices"
_TOO_FEW: Final = "node(s) had too few free devices"
_NOUNS: Final[Mapping[str, str]] = {
    "vendor": "a vendor",
    "brand": "a brand",
    "model": "a device model",
    "memory": "device memory",
    "compute": "a compute capability",
    "driver": "a driver",
    "firmware": "firmware",
    "cuda": "CUDA",
    "rocm": "ROCm",
    "cann": "CANN",
}
_WORDS: Final[Mapping[str, str]] = {
    ">=": "below",
    ">": "not above",
    "<": "not below",
    "<=": "above",
    "=": "other than",
    "!=": "that is",
}
_UNKNOWN: Final[Mapping[str, str]] = {
    "vendor": "device vendor",
    "brand": "device brand",
    "model": "device model",
    "memory": "device memory",
    "compute": "compute capability",
    "driver": "driver version",
    "firmware": "firmware version",
    "cuda": "CUDA version",
    "rocm": "ROCm version",
    "cann": "CANN version",
}


def _too_few(reason: Reason) -> str:
    free, total = as_tuple(reason.found)
    left = f"only {free} of {total} {is_or_are(free)}" if free else f"none of {total} is"
    return f"{device_count(reason.asked)} requested, but {left} free"


def _too_small(reason: Reason) -> str:
    return f"{device_count(reason.asked)} requested, but the node has {as_tuple(reason.found)[1]}"


def _unhealthy(reason: Reason) -> str:
    total, *devices = as_tuple(reason.found)
    named = ", ".join(map(str, devices))
    return f"{device_count(reason.asked)} requested, but {len(devices)} of {total} {is_or_are(len(devices))} unhealthy or cordoned: {named}"


def _unreachable(reason: Reason) -> str:
    devices = as_tuple(reason.found)
    several = len(devices) > 1
    return (
        f"{device_count(reason.asked)} requested by a pod of a job of several pods, but other nodes can't reach "
        f"device{'s' if several else ''} {', '.join(map(str, devices))}: the network port{'s' if several else ''} "
        f"of {'these devices are' if several else 'this device is'} faulty"
    )


def _not_available(reason: Reason) -> str:
    left = f"only {reason.found} {is_or_are(reason.found)}" if reason.found else "none is"
    return f"{device_count(reason.asked)} requested, but {left} available"


def _by_group(reason: Reason) -> str:
    """The idle devices of every ring, mesh, module or card, and the layout that the count requires."""
    plural = f"{reason.noun}{'es' if reason.noun.endswith('sh') else 's'}"
    layouts = {
        "one group": f"in one {reason.noun}",
        "whole groups": f"in fully idle {plural}",
        "even split": f"half in each of two {plural}, at matching positions",
        "whole groups first": f"in fully idle {plural} where there are any",
        "count": "together with the required devices",
    }
    idle = ", ".join(f"{reason.noun} {number} has {count} idle" for number, count in enumerate(as_tuple(reason.found)))
    return f"{idle}; {reason.asked} {is_or_are(reason.asked)} needed {layouts[reason.kind]}"


def _by_device(reason: Reason, unit: str, what: str) -> str:
    free = ", ".join(f"device {device} has {with_unit(left, unit)} free" for device, left in as_pairs(reason.found))
    return f"{free or 'no device is healthy'}; {with_unit(reason.asked, unit)}{what} is needed on one device"


def _other_namespaces(reason: Reason) -> str:
    users = as_tuple(reason.found)
    named = [str(user) for user in users if user != OTHER_NAMESPACE]
    others = len(users) - len(named)
    owners = " and ".join(
        [
            *([f"namespace{'s' if len(named) > 1 else ''} {', '.join(named)}"] if named else ()),
            *([OTHER_NAMESPACE if others == 1 else "other namespaces"] if others else ()),
        ]
    )
    return (
        f"devices with free memory are used by {owners or 'an unknown namespace'}, and namespace {reason.asked} can't share them "
        "(placing.share.within is namespace)"
    )


def _instead(names: Fact) -> str:
    return f"; use one of {comma_list(names)}" if names else ""


def _by_numa(reason: Reason) -> str:
    free = ", ".join(f"NUMA node {node} has {count}" for node, count in as_pairs(reason.found)) or "none is free"
    return (
        f"{device_count(reason.asked)} requested, but {free}; the node's Topology Manager has the policy {reason.kind} "
        "and would reject the pod"
    )


def _cpus_by_numa(reason: Reason) -> str:
    free = ", ".join(f"NUMA node {node} has {count}" for node, count in as_pairs(reason.found))
    policy = reason.kind.removesuffix(" cpus")
    return (
        f"{reason.asked} exclusive CPUs requested beside devices, but {free}; the node's Topology Manager has the policy "
        f"{policy} and would reject the pod"
    )


def _no_devices(asked: Fact) -> str:
    return f"{device_count(asked)} requested; request at least 1"


_NO_DEVICES: Final = RefusalText("node(s): the pod requests no devices", lambda r: _no_devices(r.asked), code="Invalid")


_WRONG_LAYOUT: Final = RefusalText(
    "node(s) had enough idle devices, but not in the required layout", _by_group, code="Fragmented"
)


DEVICE_REFUSALS: Final[dict[tuple[str, str], RefusalText]] = {
    ("000.partition", "no size"): _NO_DEVICES,
    ("000.partition", "too few"): RefusalText(_TOO_FEW, _not_available, code="NoRoom"),
    ("000.required", "not free"): RefusalText(
        "node(s) had a required device that is not free",
        lambda r: (
            f"{device_names(r.asked)} {is_or_are(len(as_tuple(r.asked)))} required but not available; "
            f"available: {comma_list(r.found) or 'none'}"
        ),
        code="NoRoom",
    ),
    ("000.required", "too many"): RefusalText(
        "node(s): more devices are required than requested",
        lambda r: (
            f"{device_count(len(as_tuple(r.found)))} {is_or_are(len(as_tuple(r.found)))} required ({comma_list(r.found)}), "
            f"but only {r.asked} {is_or_are(r.asked)} requested"
        ),
        code="Invalid",
    ),
    ("001.best-effort", ""): RefusalText(
        "node(s) had no free device set with the required bandwidth",
        lambda r: f"the slowest link of the best free set has {r.found:g} GB/s, below the floor of {r.asked:g} GB/s",
        code="Fragmented",
    ),
    ("001.best-effort", "unknown"): RefusalText(
        f"node(s) had {NO_LINK_DATA} for enough free devices; {link_data_help()}",
        lambda r: (
            f"a floor of {r.asked:g} GB/s is set, but there is {NO_LINK_DATA} for enough free devices; {link_data_help()}"
        ),
        code="NoTopology",
    ),
    ("001.percent", ""): RefusalText(
        "node(s) can't allocate more compute than a device has",
        lambda r: f"{r.asked}% of a device's compute requested; request 0 to {r.found}",
        code="Invalid",
    ),
    ("002.inventory", ""): RefusalText(
        "node(s) had no devices of the requested kind",
        lambda r: f"{r.asked} requested, but the node does not provide it",
        code="NoTopology",
    ),
    ("002.inventory", "by claim"): RefusalText(
        "node(s) had a device plugin, but the pod's status names a ResourceClaim",
        lambda r: (
            f"a device plugin provides {r.asked}, but the pod's status names a ResourceClaim; a new pod can run here"
        ),
        code="Excluded",
    ),
    ("002.inventory", "unknown node"): RefusalText(
        "node(s) were not observed yet",
        "the node has not been observed yet; the pod is retried once it is",
        code="Planned",
    ),
    ("002.affinity", "single-numa-node"): RefusalText(
        "node(s) had no NUMA node with enough free devices", _by_numa, code="Fragmented"
    ),
    ("002.affinity", "restricted"): RefusalText(
        "node(s) had enough free devices only on more NUMA nodes than the Topology Manager allows",
        _by_numa,
        code="Fragmented",
    ),
    ("002.affinity", "single-numa-node cpus"): RefusalText(
        "node(s) had no NUMA node with enough free devices and CPUs", _cpus_by_numa, code="Fragmented"
    ),
    ("002.affinity", "restricted cpus"): RefusalText(
        "node(s) had no NUMA nodes with enough free devices and CPUs", _cpus_by_numa, code="Fragmented"
    ),
    ("002.segregate", ""): RefusalText(
        "node(s) had free memory only on devices of other namespaces", _other_namespaces
    ),
    ("002.whole", ""): RefusalText(_TOO_FEW, _too_few, code="NoRoom"),
    ("002.whole", "too small"): RefusalText("node(s) had fewer devices than requested", _too_small, code="NoTopology"),
    ("002.whole", "unhealthy"): RefusalText("node(s) had too few usable devices", _unhealthy, code="NoTopology"),
    ("002.whole", "promised"): RefusalText(
        "node(s): the pod is being bound to another node",
        "the pod is being bound to another node, and that bind has not finished",
        code="Planned",
    ),
    ("002.whole", "no size"): _NO_DEVICES,
    ("003.count", ""): RefusalText(
        _WRONG_COUNT,
        lambda r: (
            f"{device_count(r.asked)} can't be allocated on {r.noun}; "
            f"request {choice_text([int(count) for count in as_tuple(r.found)])}"
        ),
        code="Invalid",
    ),
    ("003.count", "multiple"): RefusalText(
        _WRONG_COUNT,
        lambda r: (
            f"{device_count(r.asked)} requested in total; a job of more than {r.found} must request a multiple of {r.found}"
        ),
        code="Invalid",
    ),
    ("003.faulty", "unreachable"): RefusalText(
        "node(s) had too few devices that other nodes can reach", _unreachable, code="NoTopology"
    ),
    ("003.one-pod", "one pod"): RefusalText(
        "node(s): a job of this size must be one pod",
        lambda r: (
            f"{as_tuple(r.asked)[0]} devices requested by {as_tuple(r.asked)[1]} pods; "
            f"a job of up to {r.found} devices must be one pod"
        ),
        code="Invalid",
    ),
    ("003.one-pod", "full pods"): RefusalText(
        "node(s): every pod of a job of this size must request complete nodes",
        lambda r: (
            f"task {r.noun} requests {device_count(r.asked)} per pod; "
            f"a job of more than {r.found} devices must request {r.found} per pod"
        ),
        code="Invalid",
    ),
    ("003.predicate", "profile"): RefusalText(
        "node(s) had a different hardware profile",
        lambda r: f"hardware profile {r.asked} requested, but the node is {r.found}",
        code="NoTopology",
    ),
    ("003.predicate", "unknown profile"): RefusalText(
        "node(s) had an unknown hardware profile",
        lambda r: f"hardware profile {r.asked!r} is unknown{_instead(r.found)}",
        code="NoTopology",
    ),
    ("003.predicate", "one group"): _WRONG_LAYOUT,
    ("003.predicate", "whole groups"): _WRONG_LAYOUT,
    ("003.predicate", "even split"): _WRONG_LAYOUT,
    ("003.predicate", "whole groups first"): _WRONG_LAYOUT,
    ("003.predicate", "count"): _WRONG_LAYOUT,
    ("004.filter", ""): RefusalText(
        "node(s) had no device with enough free memory", lambda r: _by_device(r, r.unit, ""), code="NoRoom"
    ),
    ("004.filter", "core"): RefusalText(
        "node(s) had no device with enough free compute", lambda r: _by_device(r, "%", " of compute"), code="NoRoom"
    ),
    ("004.mode", ""): RefusalText(
        "node(s) use a different sharing mode",
        lambda r: f"the pod requests {_MODES[str(r.asked)]}, but the node allocates {_MODES[str(r.found)]}",
        code="NoTopology",
    ),
    ("004.one-card", ""): RefusalText(
        "node(s) had no device as large as the request",
        lambda r: (
            f"{with_unit(r.asked, r.unit)} requested on one device, but the largest has {with_unit(r.found, r.unit)}"
        ),
        code="NoTopology",
    ),
    ("004.one-card", "no size"): RefusalText(
        "node(s): the pod requests no device memory",
        lambda r: f"{r.asked} of a device's memory requested; request at least 1",
        code="Invalid",
    ),
    ("004.one-card", "bytes unknown"): RefusalText(
        "node(s) didn't report the memory size of their devices",
        lambda r: (
            f"{size_text(int(as_tuple(r.asked)[0]), up=True)} of device memory requested, "
            "but the node does not report the memory size of its devices"
        ),
        code="NoTopology",
    ),
}


def _unmet_parts(reason: Reason) -> tuple[str, str, list[str]]:
    """The fact, the operator and the values."""
    fact, operator, *values = map(str, as_tuple(reason.asked))
    return fact, operator, values


def _comparison(reason: Reason) -> str:
    fact, operator, values = _unmet_parts(reason)
    if len(values) == 1:
        return f"{fact}{operator}{values[0]}"
    return f"{fact} {'in' if operator == '=' else 'not in'} ({', '.join(values)})"


def _unmet_short(reason: Reason) -> str:
    fact, operator, values = _unmet_parts(reason)
    return f"{_NOUNS[fact]} {_WORDS[operator]} {_either(values)}"


def _unknown_short(reason: Reason) -> str:
    return _UNKNOWN[_unmet_parts(reason)[0]]


def _unmet(reason: Reason) -> str:
    fact, _, _ = _unmet_parts(reason)
    facts = ", ".join(_shown(fact, str(each)) for each in as_tuple(reason.found))
    return f"{_demand(reason)}, but the node has {_UNKNOWN[fact]} {facts}{_alternatives(reason)}"


def _unknown(reason: Reason) -> str:
    fact, _, _ = _unmet_parts(reason)
    return (
        f"{_demand(reason)}, but the {_UNKNOWN[fact]} of the node is unknown{_alternatives(reason)}; "
        "run the Linkwise agent or the vendor's labeller on it"
    )


def _mixed(reason: Reason) -> str:
    fact, _, _ = _unmet_parts(reason)
    facts = ", ".join(_shown(fact, str(each)) for each in as_tuple(reason.found)) or "an unknown value"
    return (
        f"{_demand(reason)}, but some devices of the node have {_UNKNOWN[fact]} {facts}, and the vendor's device plugin "
        "chooses among all devices; run the Linkwise agent with its device plugin on it"
    )


def _too_few_matching(reason: Reason) -> str:
    count, fact, operator, *values = map(str, as_tuple(reason.asked))
    meeting, devices = as_tuple(reason.found)
    text = f"{fact}{operator}{values[0]}" if len(values) == 1 else f"{fact} {_WORDS[operator]} {_either(values)}"
    only = "device meets" if meeting == 1 else "devices meet"
    return (
        f"{device_count(int(count))} requested, but only {meeting} of {devices} {only} the pod's requirements; the others "
        f"fail {text}"
    )


def _demand(reason: Reason) -> str:
    return f"{_comparison(reason)} is required by {reason.noun}"


def _alternatives(reason: Reason) -> str:
    if not reason.unit:
        return ""
    return (
        ", and its alternative does not hold"
        if reason.unit == "1"
        else f", and none of its {reason.unit} alternatives holds"
    )


def _shown(fact: str, text: str) -> str:
    return size_text(int(text)) if fact == "memory" and text.isdecimal() else text


def _either(values: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))


REQUIREMENT_REFUSALS: Final[dict[tuple[str, str], RefusalText]] = {
    ("002.versions", "unmet"): RefusalText("node(s) had {}", _unmet, "NoTopology", _unmet_short),
    ("002.versions", "unknown"): RefusalText("node(s) had an unknown {}", _unknown, "NoTopology", _unknown_short),
    ("002.versions", "mixed"): RefusalText(
        "node(s) had devices that don't meet the pod's requirements, and a device plugin that chooses among all",
        _mixed,
        "NoTopology",
    ),
    ("002.versions", "too few"): RefusalText(
        "node(s) had too few devices that meet the pod's requirements", _too_few_matching, "NoTopology"
    ),
}

"""Ascend nodes: chips, unhealthy chips and addresses in the forms of Huawei's device plugin, read and written.

Source: seed 003, "Fault Considerations"; contract ascend, sections 1 and 2. The same keys are read from annotations of
the node (0.4, 1.0) and from a ConfigMap (today), which takes precedence.

Source: contract ascend, sections 1 and 2. The check code of the ConfigMap is the SHA-256 of `DeviceInfo` as Go's
encoding/json writes it: keys of maps in order, no blanks, and <, > and & escaped.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from linkwise.dialects.ascend.rank_table import (
    ChipDetails,
    chip_details,
    chip_names,
    chip_numbers,
    json_list,
    json_object,
    shown,
)
from linkwise.dialects.dialect import where_node
from linkwise.dialects.pod_resources import whole_quantity
from linkwise.errors import InputError
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import NodeView

__all__ = [
    "DATA_KEY",
    "DEVICE_INFO",
    "NAMESPACE",
    "PREFIX",
    "PROFILES",
    "REFRESH",
    "TYPE_LABEL",
    "ChipStates",
    "DeviceInfo",
    "chip_lists",
    "config_map",
    "details_text",
    "is_current",
    "no_annotations",
    "node_annotations",
    "node_facts",
]

PROFILES: Final = {
    "huawei.com/Ascend910": "",
    "huawei.com/npu": "",
    "huawei.com/Ascend310": "ascend-310",
    "huawei.com/Ascend310P": "ascend-310p-duo",
    "huawei.com/Ascend910A": "",
    "huawei.com/Ascend910B2": "ascend-910b",
    "huawei.com/Ascend910B3": "ascend-910b",
    "huawei.com/Ascend910B4": "ascend-910b",
    "huawei.com/Ascend910C": "ascend-910c-16",
}
"""every resource of whole chips, with its default hardware profile"""

DEVICE_INFO: Final = "ConfigMap/mindx-dl-deviceinfo-"
TYPE_LABEL: Final = "accelerator-type"
MODEL_LABEL: Final = "node.kubernetes.io/npu.chip.name"
SEPARATED: Final = "ManuallySeparateNPU"
_KEPT_LABELS: Final = re.compile(r"accelerator|host-arch|huawei\.com/topotree.*")
_KEPT_NUMBERS: Final = {"SuperPodID": "super-pod", "ServerIndex": "server-index"}  # below zero: not known
NAMESPACE: Final = "kube-system"
PREFIX: Final = "mindx-dl-deviceinfo-"
"""of the name of the ConfigMap; the node's name follows"""
DATA_KEY: Final = "DeviceInfoCfg"
REFRESH: Final = 300  # seconds
"""after which Huawei's device plugin writes the ConfigMap again without a change, so that readers see that it lives"""
_LABELS: Final = {"mx-consumer-cim": "true", "mx-consumer-volcano": "true"}
_UNKNOWN: Final = -1
"""super pod and server index of a machine that belongs to none"""
_DETAILS: Final = "baseDeviceInfos"
_UNHEALTHY: Final = "-Unhealthy"
_UNREACHABLE: Final = "-NetworkUnhealthy"
_SUFFIXES: Final = ("", _UNHEALTHY, _UNREACHABLE)
_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def node_facts(view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
    """Facts from labels, annotations and the device plugin's ConfigMap; None for a node without Ascend chips."""
    reading = _Reading(view)
    reading.read(objects.get(f"{DEVICE_INFO}{view.name}", {}))
    kinds = [name for name in PROFILES if reading.count(name, view.capacity, view.allocatable) or name in reading.lists]
    if len(kinds) > 1:
        reading.report(kinds[1], f"the node also has {kinds[0]}; nodes with two kinds of chips are not supported")
    if len(kinds) != 1:
        return NodeFacts("ascend", problems=tuple(reading.problems)) if reading.problems else None
    devices = reading.devices(kinds[0])
    return NodeFacts(
        "ascend",
        devices=devices,
        profile=view.labels.get(TYPE_LABEL) or PROFILES[kinds[0]],
        mode="whole",
        labels=reading.labels,
        problems=tuple(reading.problems),
    )


@dataclass(slots=True)
class _Reading:
    """Facts and problems of one node while it is read."""

    view: NodeView
    lists: dict[str, object] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def report(self, key: str, sentence: str) -> None:
        problem = Problem(where_node(self.view), key, sentence)
        if problem not in self.problems:
            self.problems.append(problem)

    def read(self, config_map: object) -> None:
        self.labels |= {key: value for key, value in self.view.labels.items() if _KEPT_LABELS.fullmatch(key)}
        self.lists |= {key: value for key, value in self.view.annotations.items() if key.startswith(tuple(PROFILES))}
        if not config_map:
            return
        try:
            data = json_object(json_object(config_map).get("data"))
            config = json_object(data.get("DeviceInfoCfg"))
            devices = json_object(config.get("DeviceInfo"))
            lists = json_object(devices.get("DeviceList"))
        except InputError as error:
            self.report("DeviceInfoCfg", str(error))
            return
        self.lists = {**lists, SEPARATED: data.get(SEPARATED, "")}
        numbers = {word: config.get(key) for key, word in _KEPT_NUMBERS.items()}
        numbers["update-time"] = devices.get("UpdateTime")
        self.labels |= {word: str(number) for word, number in numbers.items() if type(number) is int and number >= 0}

    def count(self, resource: str, *sources: Mapping[str, str]) -> int:
        """Number of chips by the first source that has one; more than a machine can have is a mistake."""
        text = next((source[resource] for source in sources if resource in source), "0")
        try:
            count = whole_quantity(text)
        except InputError as error:
            self.report(resource, str(error))
            return 0
        if count > MAX_DEVICES:
            self.report(resource, f"{shown(text)} chips: a machine has at most {MAX_DEVICES}")
            return 0
        return count

    def devices(self, resource: str) -> tuple[Device, ...]:
        numbers = self._numbers(resource)
        unhealthy = {
            number
            for key in (f"{resource}-Unhealthy", f"{resource}-Recovering", SEPARATED)
            for number in self._listed(key, resource, numbers)
        } | (self._faulty(resource) & numbers)
        free = self._listed(resource, resource, numbers)
        for number in sorted(free & unhealthy):
            self.report(resource, f"chip {number} is listed as free and as unhealthy; it is not used")
        unhealthy |= self._unnamed(resource, numbers, unhealthy, free)
        self._label("free", free - unhealthy if resource in self.lists else set())
        unreachable = self._listed(f"{resource}-NetworkUnhealthy", resource, numbers)
        model = self.view.labels.get(MODEL_LABEL, "")
        return tuple(
            Device(f"#{n}", n, model=model, healthy=n not in unhealthy, reachable=n not in unreachable)
            for n in sorted(numbers)
        )

    def _label(self, word: str, numbers: set[int]) -> None:
        if numbers:
            self.labels[word] = ",".join(f"#{number}" for number in sorted(numbers))

    def _numbers(self, resource: str) -> set[int]:
        """Numbers of the chips; a lost chip leaves a gap, and only the addresses show where."""
        count = self.count(resource, self.view.capacity, self.view.allocatable)
        details = chip_details(self.view, resource)
        if isinstance(details, Problem):
            self.report(details.key, details.sentence)
            return set(range(count))
        return set(details) if len(details) == count else set(range(count))

    def _listed(self, key: str, resource: str, numbers: set[int]) -> set[int]:
        try:
            listed = set(chip_numbers(self.lists.get(key, ""), resource))
        except InputError as error:
            self.report(key, str(error))
            return set()
        for number in sorted(listed - numbers):
            self.report(key, f"chip {number} is listed, and the node has {len(numbers)} chips of {resource}")
        return listed & numbers

    def _faulty(self, resource: str) -> set[int]:
        """Chips that a fault takes out of use; other faults appear in the lists of unhealthy chips."""
        key = f"{resource}-Fault"
        try:
            faults = json_list(self.lists.get(key) or "[]")
            return {number for fault in faults for number in chip_numbers(_separated(fault), resource)}
        except InputError as error:
            self.report(key, str(error))
            return set()

    def _unnamed(self, resource: str, numbers: set[int], unhealthy: set[int], free: set[int]) -> set[int]:
        """Unhealthy chips that no list names, if the count of kubelet leaves no doubt which they are."""
        lost = len(numbers) - self.count(resource, self.view.allocatable, self.view.capacity)
        if lost <= len(unhealthy):
            return set()
        rest = numbers - free - unhealthy
        if lost == len(rest | unhealthy):
            return rest
        self.labels["unhealthy"] = str(lost)
        self.report(
            resource, f"{lost} of {len(numbers)} chips are unhealthy, but only {len(unhealthy)} of them are identified"
        )
        return set()


@dataclass(frozen=True, slots=True)
class ChipStates:
    """The chips of a node under one resource, by number."""

    resource: str
    free: frozenset[int] = frozenset()
    """healthy chips that no pod has"""
    unhealthy: frozenset[int] = frozenset()
    unreachable: frozenset[int] = frozenset()
    """chips whose network port does not work"""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The content of a node's ConfigMap, without the time at which it is written."""

    node: str
    lists: Mapping[str, str]


def chip_lists(states: ChipStates) -> dict[str, str]:
    """The `DeviceList` of the ConfigMap."""
    resource = states.resource
    # rule 003.faulty: faulty chips are in the list of unhealthy ones, and in that of free ones never.
    return {
        resource: chip_names(states.free - states.unhealthy, resource),
        f"{resource}{_UNHEALTHY}": chip_names(states.unhealthy, resource),
        f"{resource}{_UNREACHABLE}": chip_names(states.unreachable, resource),
        f"{resource}-Recovering": "",
        f"{resource}-Fault": _go_json([_fault(number, resource) for number in sorted(states.unhealthy)]),
    }


def node_annotations(states: ChipStates, details: Mapping[int, ChipDetails]) -> dict[str, str | None]:
    """The annotations of the Node, for tools of the versions before the ConfigMap, and for rank tables."""
    lists = chip_lists(states)
    listed: dict[str, str | None] = {
        f"{states.resource}{suffix}": lists[f"{states.resource}{suffix}"] for suffix in _SUFFIXES
    }
    return {**listed, _DETAILS: details_text(details, states.resource) if details else None}


def no_annotations(resource: str) -> dict[str, str | None]:
    """The removal of all annotations of `node_annotations`."""
    return dict.fromkeys([*(f"{resource}{suffix}" for suffix in _SUFFIXES), _DETAILS])


def details_text(details: Mapping[int, ChipDetails], resource: str) -> str:
    """Addresses of chips as the annotation of the Node holds them."""
    return _go_json(
        {
            chip_names([number], resource): {"IP": one.ip, "SuperDeviceID": one.super_device or 0}
            for number, one in sorted(details.items())
        }
    )


def config_map(desired: DeviceInfo, now: int) -> dict[str, object]:
    """The ConfigMap of a node; `now` in seconds since the epoch."""
    info = {"DeviceList": dict(sorted(desired.lists.items())), "UpdateTime": now}
    config = {
        "DeviceInfo": info,
        "SuperPodID": _UNKNOWN,
        "ServerIndex": _UNKNOWN,
        "CheckCode": sha256(_go_json(info).encode()).hexdigest(),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{PREFIX}{desired.node}", "namespace": NAMESPACE, "labels": dict(_LABELS)},
        "data": {DATA_KEY: _go_json(config)},
    }


def is_current(document: Mapping[str, object], desired: DeviceInfo, now: float) -> bool:
    """Whether a ConfigMap shows these lists, and was written not long ago."""
    try:
        info = json_object(json_object(json_object(document.get("data")).get(DATA_KEY)).get("DeviceInfo"))
        shown = json_object(info.get("DeviceList"))
    except InputError:
        return False
    written = info.get("UpdateTime")
    return dict(shown) == dict(desired.lists) and type(written) is int and now - written < REFRESH


def _separated(fault: object) -> object:
    entry = json_object(fault)
    out = entry.get("fault_type") == "CardUnhealthy" and entry.get("fault_handling") == "SeparateNPU"
    return entry.get("npu_name", "") if out else ""


def _go_json(value: object) -> str:
    """JSON as Go's encoding/json writes it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return "".join(_ESCAPES.get(letter, letter) for letter in text)


def _fault(number: int, resource: str) -> dict[str, object]:
    return {
        "fault_type": "CardUnhealthy",
        "npu_name": chip_names([number], resource),
        "large_model_fault_level": "SeparateNPU",
        "fault_level": "SeparateNPU",
        "fault_handling": "SeparateNPU",
        "fault_code": "",
    }

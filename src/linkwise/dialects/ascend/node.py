"""Ascend nodes: chips, unhealthy chips and addresses, as Huawei's device plugin reports them.

Source: seed 003, "Fault Considerations"; contract ascend, sections 1 and 2. The same keys are read from annotations of
the node (0.4, 1.0) and from a ConfigMap (today), which takes precedence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.dialects.ascend.rank_table import chip_details, chip_numbers, json_list, json_object, shown
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

__all__ = ["DEVICE_INFO", "PROFILES", "TYPE_LABEL", "node_facts"]

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


def _separated(fault: object) -> object:
    entry = json_object(fault)
    out = entry.get("fault_type") == "CardUnhealthy" and entry.get("fault_handling") == "SeparateNPU"
    return entry.get("npu_name", "") if out else ""

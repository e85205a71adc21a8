"""What Huawei's device plugin tells of a node: its chips, which of them are ill, and their addresses.

Source: seed 003, "Fault Considerations"; contract ascend, sections 1 and 2. Two ways are read under the same keys:
annotations of the node (0.4, 1.0) and a ConfigMap (today), which alone counts where it is there.
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

__all__ = ["PROFILES", "TYPE_LABEL", "node_facts"]

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
"""every resource of whole chips, and the hardware profile it means where nothing else is said"""

DEVICE_INFO: Final = "ConfigMap/mindx-dl-deviceinfo-"
TYPE_LABEL: Final = "accelerator-type"
MODEL_LABEL: Final = "node.kubernetes.io/npu.chip.name"
SEPARATED: Final = "ManuallySeparateNPU"
_KEPT_LABELS: Final = re.compile(r"accelerator|host-arch|huawei\.com/topotree.*")
_KEPT_NUMBERS: Final = {"SuperPodID": "super-pod", "ServerIndex": "server-index"}  # below zero: not known


def node_facts(view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
    """What labels, annotations and the device plugin's ConfigMap tell of a node; None if it has no Ascend chips."""
    reading = _Reading(view)
    reading.read(objects.get(f"{DEVICE_INFO}{view.name}", {}))
    kinds = [name for name in PROFILES if reading.count(name, view.capacity, view.allocatable) or name in reading.lists]
    if len(kinds) > 1:
        reading.tell(kinds[1], f"the node also has {kinds[0]}; nodes with two kinds of chips are not served")
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
    """What is gathered while one node is read."""

    view: NodeView
    lists: dict[str, object] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def tell(self, key: str, sentence: str) -> None:
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
            told = json_object(data.get("DeviceInfoCfg"))
            report = json_object(told.get("DeviceInfo"))
            lists = json_object(report.get("DeviceList"))
        except InputError as error:
            self.tell("DeviceInfoCfg", str(error))
            return
        self.lists = {**lists, SEPARATED: data.get(SEPARATED, "")}
        numbers = {word: told.get(key) for key, word in _KEPT_NUMBERS.items()}
        numbers["update-time"] = report.get("UpdateTime")
        self.labels |= {word: str(found) for word, found in numbers.items() if type(found) is int and found >= 0}

    def count(self, resource: str, *sources: Mapping[str, str]) -> int:
        """How many chips the first source that tells counts; too many for a machine is a mistake."""
        text = next((source[resource] for source in sources if resource in source), "0")
        try:
            count = whole_quantity(text)
        except InputError as error:
            self.tell(resource, str(error))
            return 0
        if count > MAX_DEVICES:
            self.tell(resource, f"{shown(text)} chips: a machine has at most {MAX_DEVICES}")
        return count if count <= MAX_DEVICES else 0

    def devices(self, resource: str) -> tuple[Device, ...]:
        numbers = self._numbers(resource)
        ill = {
            number
            for key in (f"{resource}-Unhealthy", f"{resource}-Recovering", SEPARATED)
            for number in self._listed(key, resource, numbers)
        } | (self._faulty(resource) & numbers)
        free = self._listed(resource, resource, numbers)
        for number in sorted(free & ill):
            self.tell(resource, f"chip {number} is listed as free and as unhealthy; it is not used")
        ill |= self._unnamed(resource, numbers, ill, free)
        self._label("free", free - ill if resource in self.lists else set())
        self._label("network-unhealthy", self._listed(f"{resource}-NetworkUnhealthy", resource, numbers))
        model = self.view.labels.get(MODEL_LABEL, "")
        return tuple(Device(f"#{n}", n, model=model, healthy=n not in ill) for n in sorted(numbers))

    def _label(self, word: str, numbers: set[int]) -> None:
        if numbers:
            self.labels[word] = ",".join(f"#{number}" for number in sorted(numbers))

    def _numbers(self, resource: str) -> set[int]:
        """A chip that is lost leaves a hole in the numbers: only the addresses tell where."""
        count = self.count(resource, self.view.capacity, self.view.allocatable)
        told = chip_details(self.view, resource)
        if isinstance(told, Problem):
            self.tell(told.key, told.sentence)
            return set(range(count))
        return set(told) if len(told) == count else set(range(count))

    def _listed(self, key: str, resource: str, numbers: set[int]) -> set[int]:
        try:
            found = set(chip_numbers(self.lists.get(key, ""), resource))
        except InputError as error:
            self.tell(key, str(error))
            return set()
        for number in sorted(found - numbers):
            self.tell(key, f"chip {number} is listed, and the node has {len(numbers)} chips of {resource}")
        return found & numbers

    def _faulty(self, resource: str) -> set[int]:
        """Chips that a fault takes out of use; what other faults mean, the lists of unhealthy chips say."""
        key = f"{resource}-Fault"
        try:
            faults = json_list(self.lists.get(key) or "[]")
            return {number for fault in faults for number in chip_numbers(_separated(fault), resource)}
        except InputError as error:
            self.tell(key, str(error))
            return set()

    def _unnamed(self, resource: str, numbers: set[int], ill: set[int], free: set[int]) -> set[int]:
        """Chips that kubelet counts as ill and no list names: sure only if no others can be meant."""
        lost = len(numbers) - self.count(resource, self.view.allocatable, self.view.capacity)
        if lost <= len(ill):
            return set()
        rest = numbers - free - ill
        if lost == len(rest | ill):
            return rest
        self.labels["unhealthy"] = str(lost)
        self.tell(resource, f"{lost} of {len(numbers)} chips are unhealthy, and which is told of {len(ill)} alone")
        return set()


def _separated(fault: object) -> object:
    told = json_object(fault)
    out = told.get("fault_type") == "CardUnhealthy" and told.get("fault_handling") == "SeparateNPU"
    return told.get("npu_name", "") if out else ""

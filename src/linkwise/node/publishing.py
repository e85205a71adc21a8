"""What a node publishes: the inventory, labels, annotations, capacity and taint that the API server should show.

Source: seed 000, "Architecture" (the link matrix); seed 001, "GPU topology resource reporting"; seed 002, "Inventory" and
"Scheduling", the first case (the taint); seed 004 (the number of shared devices).

The taint is for devices that are stranded: no pod that requests them fits beside the pods that do not. The effect
PreferNoSchedule only lowers the score of the node, so pods that request devices need no toleration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.cluster.demand import capacity_of as idle_capacity_of, demand_of
from linkwise.dialects.aliyun import COUNT
from linkwise.dialects.ascend.dialect import Ascend
from linkwise.dialects.ascend.node import ChipStates, no_annotations, node_annotations
from linkwise.dialects.ascend.rank_table import ChipDetails
from linkwise.dialects.koordinator.device_object import device_object
from linkwise.dialects.linkwise.dialect import (
    COUNT_LABEL,
    IDLE_TAINT,
    MEMORY_LABEL,
    MODEL_LABEL,
    NODE_LABELS,
    VENDOR_LABEL,
)
from linkwise.dialects.linkwise.inventory import SOURCE, inventory_object
from linkwise.dialects.nvidia import TOPOLOGY, Nvidia, matrix_annotation
from linkwise.model.ask import Load
from linkwise.model.inventory import NodeFacts
from linkwise.model.node import Node
from linkwise.model.requirement import FACTS
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.views import FINISHED, Taint
from linkwise.node.allocation import device_of as device_of_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from linkwise.dialects.ascend.node import DeviceInfo
    from linkwise.model.device import Device
    from linkwise.model.inventory import Discovery, Hold
    from linkwise.model.node import Mode, NumaAlignment
    from linkwise.model.topology import Topology
    from linkwise.model.views import NodeView, PodView
    from linkwise.node.allocation import Claim

__all__ = [
    "ANNOTATIONS",
    "DEFAULT",
    "IDLE_ACCELERATORS",
    "LABELS",
    "Condition",
    "NodeState",
    "Reserve",
    "Serving",
    "annotations_of",
    "believed_condition",
    "capacity_of",
    "chip_annotations",
    "chips_of",
    "conditions_of",
    "cordon_condition",
    "device_of",
    "inventory_of",
    "is_tainted",
    "label_value",
    "labels_of",
    "memory_in",
    "node_with_facts",
    "should_taint",
    "with_condition",
]

LABELS: Final = NODE_LABELS
"""all labels that the agent writes on its node; one that does not apply is removed"""
ANNOTATIONS: Final = (TOPOLOGY,)
"""likewise"""

_LONGEST_LABEL: Final = 63  # characters
_LONGEST_MODEL: Final = 253  # characters, by the schema of DeviceInventory
_LONGEST_MESSAGE: Final = 32768  # characters of a condition, by the same schema
_MEBIBYTES: Final = {"MiB": 1, "GiB": 1024}
# A preference, so that pods without devices still start if no other node has room.
IDLE_ACCELERATORS: Final = Taint(IDLE_TAINT, "", "PreferNoSchedule")


@dataclass(frozen=True, slots=True)
class Serving:
    """How the devices of a node are allocated."""

    mode: Mode
    """`any` if this agent serves no resource"""
    unit: str
    """of memory: MiB, or GiB for shares of that unit"""
    enforced: bool
    """whether this agent's device plugin allocates them"""
    alignment: NumaAlignment | None = None
    """how the kubelet aligns them with NUMA nodes; None if that is not known"""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the inventory; the publisher adds the time of the last change of its status."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    """in CamelCase"""
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeState:
    """Everything that the API server should show of a node."""

    inventory: Mapping[str, object]
    """the DeviceInventory, its conditions without times"""
    labels: Mapping[str, str] = field(default_factory=dict)
    """of the Node: any other of `LABELS` is removed"""
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """of the Node: None removes one, and any other of `ANNOTATIONS` is removed"""
    capacity: Mapping[str, str | None] = field(default_factory=dict)
    """of the Node, and its allocatable: None removes a resource, those not mentioned are left alone"""
    tainted: bool | None = None
    """whether the Node has the taint for idle accelerators; None leaves it alone"""
    device: Mapping[str, object] | None = None
    """Koordinator's Device object; None leaves it alone"""
    device_info: DeviceInfo | None = None
    """the ConfigMap of Huawei's device plugin; None leaves it alone"""


def memory_in(unit: str, mebibytes: int) -> int:
    """Memory of one device in a unit, rounded down: a device of 16276 MiB has 15 GiB to share."""
    return mebibytes // _MEBIBYTES[unit]


def inventory_of(  # noqa: PLR0913, PLR0917 - everything that an inventory shows
    node: str,
    discovery: Discovery,
    serving: Serving,
    allocations: Mapping[str, tuple[str, ...]] | None = None,
    pods: Mapping[str, tuple[str, str]] | None = None,
    conditions: Sequence[Condition] = (),
    holds: tuple[Hold, ...] = (),
    *,
    version: str = "",
) -> dict[str, object]:
    """The DeviceInventory of a node; its conditions have no time yet.

    `allocations` are devices by pod UID, `pods` the namespace and name of each, `version` that of the agent. Devices beyond the limit of the schema are
    left out, which `conditions_of` reports.
    """
    # rule 001.report: devices, links and measured bandwidth, as the driver found them.
    facts = NodeFacts(
        SOURCE,
        tuple(_listed(device, serving.unit) for device in discovery.devices[:MAX_DEVICES]),
        discovery.topology,
        mode=serving.mode,
        unit=serving.unit,
        labels={name: _one_line(value) for name, value in discovery.facts.items()},
        allocations=dict(sorted((allocations or {}).items())),  # in a fixed order: a new one would be a change
        holds=holds,
        alignment=serving.alignment,
    )
    return inventory_object(
        node,
        facts,
        enforced=serving.enforced,
        pods=pods,
        faults={name: _one_line(sentence) for name, sentence in discovery.faults.items()},
        conditions=[_condition_fields(condition) for condition in conditions],
        version=version,
    )


def node_with_facts(node: str, discovery: Discovery) -> Node:
    """The devices of a node with the facts that requirements of pods are compared with."""
    facts: dict[str, str] = {name: value for name in FACTS if (value := discovery.facts.get(name, ""))}
    return Node(node, discovery.devices, unit="MiB", facts=facts | {"vendor": discovery.vendor})


def labels_of(discovery: Discovery) -> dict[str, str]:
    """The labels of the Node; one whose value is not known, or differs between devices, is left out."""
    if not discovery.devices:
        return {}
    # rule 002.inventory: how many devices the node has, and which.
    values = {
        VENDOR_LABEL: discovery.vendor,
        MODEL_LABEL: _common({device.model for device in discovery.devices}),
        COUNT_LABEL: str(len(discovery.devices)),
        MEMORY_LABEL: _common({str(device.memory or "") for device in discovery.devices}),
    }
    valid = {name: label_value(value) for name, value in values.items()}
    return {name: value for name, value in valid.items() if value}


def annotations_of(discovery: Discovery) -> dict[str, str]:
    """The annotations of the Node: the link matrix, if it is complete and rows are the indices of devices."""
    if (
        discovery.vendor != Nvidia.vendor
        or not discovery.topology
        or not _is_complete(discovery.topology, discovery.devices)
    ):
        return {}
    # rule 000.publish: the matrix is an annotation of the Node, from which the scheduler reads it.
    return {TOPOLOGY: matrix_annotation(discovery.topology)}


def chips_of(
    discovery: Discovery, serving: Serving, resource: str, taken: Collection[str], *, listed: bool
) -> ChipStates | None:
    """The Ascend chips for Huawei's lists; None where another plugin serves them, or the kubelet does not count them yet.

    `taken` are the ids of devices that pods have or are about to get, `listed` whether the Node has the resource.
    """
    if discovery.vendor != Ascend.vendor or not serving.enforced or not listed:
        return None
    return ChipStates(
        resource,
        frozenset(device.index for device in discovery.devices if device.healthy and device.id not in taken),
        frozenset(device.index for device in discovery.devices if not device.healthy),
        frozenset(device.index for device in discovery.devices if device.id in discovery.network_faults),
    )


def chip_annotations(discovery: Discovery, states: ChipStates | None, *, wanted: bool) -> dict[str, str | None]:
    """The annotations of the Node for Huawei's tools; none where they are another writer's."""
    if states is None:
        return {}
    if not wanted:
        return no_annotations(states.resource)  # they may be left from a time when the setting was on
    details = {
        device.index: ChipDetails(discovery.addresses[device.id])
        for device in discovery.devices
        if device.id in discovery.addresses
    }
    return node_annotations(states, details)


def capacity_of(discovery: Discovery, serving: Serving) -> dict[str, str | None]:
    """Resources of the Node's status that no device plugin reports: None removes one; empty where another plugin serves."""
    if not serving.enforced:
        return {}
    if serving.mode == "share":
        # rule 004.count: beside the memory, which the plugin reports; its average is the memory of one device.
        return {COUNT: str(sum(memory_in(serving.unit, device.memory) > 0 for device in discovery.devices))}
    return {COUNT: None}


def device_of(node: str, discovery: Discovery) -> dict[str, object]:
    """Koordinator's Device object of a node, for clusters without koordlet."""
    values = {
        "model": _common({device.model for device in discovery.devices}),
        "driver": discovery.facts.get("driver", ""),
    }
    return device_object(node, discovery, {word: label_value(value) for word, value in values.items()})


def conditions_of(discovery: Discovery) -> tuple[Condition, ...]:
    """Conditions about the hardware."""
    return (_discovered(discovery), _healthy(discovery), _complete(discovery))


def cordon_condition(cordons: Mapping[str, str]) -> Condition | None:
    """The condition about devices that an administrator cordoned, by id or index; None if there is none."""
    if not cordons:
        return None
    devices = [f"{device}: {reason}" if reason else device for device, reason in cordons.items()]
    return Condition("DevicesCordoned", "True", "Cordoned", _joined(devices))


def believed_condition(claims: Sequence[Claim]) -> Condition | None:
    """The condition about containers that have other devices than those of the kubelet's ids; None if there is none."""
    if not claims:
        return None
    reason = "SeenInContainers" if all(claim.proven for claim in claims) else "RecordsBelieved"
    return Condition("KubeletIdsMatch", "False", reason, _joined(map(_believed, claims)))


def with_condition(document: Mapping[str, object], condition: Condition) -> dict[str, object]:
    """The DeviceInventory with one more condition."""
    status = document.get("status")
    status = status if isinstance(status, dict) else {}
    conditions = [*status.get("conditions", ()), _condition_fields(condition)]
    return {**document, "status": {**status, "conditions": conditions}}


def label_value(text: str) -> str:
    """The text as the value of a label: other characters become hyphens; empty if none is left."""
    words = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")
    return words[:_LONGEST_LABEL].rstrip("-_.")


def _believed(claim: Claim) -> str:
    why = "as its container was given" if claim.proven else "by its record: what its container was given can't be read"
    counted = ", ".join(dict.fromkeys(map(device_of_id, claim.ids)))
    return (
        f"pod {claim.pod.namespace}/{claim.pod.name} has {', '.join(claim.devices)} {why}; the kubelet counts {counted},"
        " which another device plugin was asked for"
    )


def _listed(device: Device, unit: str) -> Device:
    return replace(device, memory=memory_in(unit, device.memory), model=_one_line(device.model)[:_LONGEST_MODEL])


def _common(values: set[str]) -> str:
    """The value of all devices of which it is known; empty if they differ."""
    known = values - {""}
    return known.pop() if len(known) == 1 else ""


def _is_complete(topology: Topology, devices: Sequence[Device]) -> bool:
    """Whether every pair has a known link, and row i is the device with index i."""
    rows = [(device.index, device.id) for device in devices] == list(enumerate(topology.devices))
    pairs = [link for i, row in enumerate(topology.links) for j, link in enumerate(row) if i != j]
    return rows and bool(pairs) and all(link.direct or link.pcie for link in pairs)


def _discovered(discovery: Discovery) -> Condition:
    count = len(discovery.devices)
    if not count:
        return Condition(
            "DevicesDiscovered", "False", "NoDevices", _joined(discovery.problems) or "no devices were found"
        )
    noun = "device was" if count == 1 else "devices were"
    return Condition("DevicesDiscovered", "True", "Discovered", f"{count} {noun} found")


def _healthy(discovery: Discovery) -> Condition:
    unhealthy = [device for device in discovery.devices if not device.healthy]
    if not discovery.devices:
        return Condition("DevicesHealthy", "Unknown", "NoDevices", "no devices were found")
    if not unhealthy:
        return Condition("DevicesHealthy", "True", "AllHealthy")
    faults = [f"{one.id}: {discovery.faults.get(one.id, f'device {one.index} is unhealthy')}" for one in unhealthy]
    return Condition("DevicesHealthy", "False", "UnhealthyDevices", _joined(faults))


def _complete(discovery: Discovery) -> Condition:
    count, healthy = len(discovery.devices), {device.id for device in discovery.devices if device.healthy}
    if count > MAX_DEVICES:
        sentence = f"{count} devices were found; an inventory lists the first {MAX_DEVICES}"
        return Condition("InventoryComplete", "False", "TooManyDevices", _joined((sentence, *discovery.problems)))
    partly = [f"{name}: {sentence}" for name, sentence in discovery.faults.items() if name in healthy]
    missing = (*discovery.problems, *partly, *(discovery.topology.problems if discovery.topology else ()))
    if missing:
        return Condition("InventoryComplete", "False", "IncompleteData", _joined(missing))
    return Condition("InventoryComplete", "True", "Complete")


def _joined(sentences: Iterable[str]) -> str:
    return "; ".join(map(_one_line, sentences))


def _one_line(text: str) -> str:
    """Printable text without line breaks, as readers of an inventory expect it."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _condition_fields(condition: Condition) -> dict[str, str]:
    message = condition.message[:_LONGEST_MESSAGE]
    return {"type": condition.type, "status": condition.status, "reason": condition.reason, "message": message}


@dataclass(frozen=True, slots=True)
class Reserve:
    """What a node should keep free for each idle device."""

    cpu: int = 1000  # thousandths of a core
    memory: int = 1 << 30  # bytes
    release: float = 1.5
    """times the reserve must be free again before the taint is removed, so that it does not come and go with each pod"""


DEFAULT: Final = Reserve()


def is_tainted(view: NodeView) -> bool:
    """Whether the Node has the taint."""
    return any(taint.key == IDLE_ACCELERATORS.key for taint in view.taints)


def should_taint(view: NodeView, pods: Iterable[PodView], idle: int, reserve: Reserve = DEFAULT) -> bool:
    """Whether the Node should have the taint, with `idle` devices that no pod has, and the pods bound to the node.

    It gets the taint when less than the reserve is free, and loses it when clearly more is, or no device is idle.
    """
    if idle <= 0:
        return False
    load = Load()
    for pod in pods:
        if pod.phase not in FINISHED:
            load = load.plus(demand_of(pod)[0])
    capacity, factor = idle_capacity_of(view), reserve.release if is_tainted(view) else 1.0
    # rule 002.stranded: idle devices are of no use without CPUs and memory beside them.
    resources = ((capacity.cpu, load.cpu, reserve.cpu), (capacity.memory, load.memory, reserve.memory))
    return any(total is not None and total - used < factor * idle * each for total, used, each in resources)

"""Koordinator's Device object: read and written, with its labels on a node.

Memory is in percent, 100 per card, as in requests; the bytes of each card are kept for requests by `gpu-memory`.

koordlet writes the same object and overwrites what others write, so the agent does so only on request, and leaves the
object of another writer alone.

Source: seed 001, "GPU topology resource reporting"; Koordinator's Device, version v1alpha1.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from linkwise.dialects.dialect import where_node
from linkwise.dialects.koordinator.quantities import CORE, MEMORY, PREFIXES, RATIO, WHOLE, count, is_minor
from linkwise.errors import InputError
from linkwise.model.device import MIB, Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.topology import Topology, whole_matrix
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from linkwise.model.inventory import Discovery
    from linkwise.model.topology import Matrix
    from linkwise.model.views import NodeView

__all__ = [
    "API_VERSION",
    "KIND",
    "LABELS",
    "MANAGED_BY",
    "MANAGER",
    "MATRIX",
    "TYPE",
    "device_object",
    "node_facts",
    "other_writer",
]

T = TypeVar("T")
Raw = dict[object, object]

LABELS: Final = {
    "node.koordinator.sh/gpu-vendor": "vendor",
    "node.koordinator.sh/gpu-model": "model",
    "node.koordinator.sh/gpu-driver-version": "driver",
    "node.koordinator.sh/gpu-partition-policy": "partition-policy",
    "node.koordinator.sh/secondary-device-well-planned": "secondary-device-well-planned",
}
TYPE: Final = "gpu"
MATRIX: Final = "bandwidth"
_EXPECTED: Final = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false"}
API_VERSION: Final = "scheduling.koordinator.sh/v1alpha1"
KIND: Final = "Device"
MANAGED_BY: Final = "linkwise.dev/managed-by"
MANAGER: Final = "linkwise-agent"
"""the field manager of the agent's writes, and the value of the label"""
_VENDORS: Final = {"ascend": "huawei"}
"""where Koordinator has another name"""
_UNKNOWN: Final = -1


@dataclass(slots=True)
class _Notes:
    """Problems of one node while its object is read."""

    where: str
    problems: list[Problem] = field(default_factory=list)

    def say(self, key: str, sentence: str) -> None:
        self.problems.append(Problem(self.where, key, sentence))

    def typed(self, value: object, kind: type[T], key: str) -> T:
        """Return the value, or an empty one of its type if it is missing or invalid."""
        if value is not None and not isinstance(value, kind):
            self.say(key, f"{_EXPECTED[kind]} is expected: it is not read")
        return value if isinstance(value, kind) else kind()

    def items(self, value: object, key: str) -> list[tuple[Raw, str]]:
        """The mappings of a list, each with its own key."""
        keyed = [(item, f"{key}[{place}]") for place, item in enumerate(self.typed(value, list, key))]
        return [(self.typed(item, dict, at), at) for item, at in keyed]


class _Card(NamedTuple):
    """An entry of the object, and where it stands there."""

    key: str
    device: Device


def node_facts(view: NodeView, document: object, source: str) -> NodeFacts | None:
    """Facts of the node's labels and its Device object, if there is one; None if they tell nothing."""
    notes = _Notes(where_node(view))
    whole = notes.typed(dict(document) if isinstance(document, Mapping) else document, dict, "Device")
    spec = notes.typed(whole.get("spec"), dict, "Device spec")
    labels = _labels(view, whole, notes)
    # rule 001.device: read as the seed writes it, and as Koordinator does.
    cards = _cards(spec, labels.get("model", ""), notes)
    devices = tuple(card.device for card in cards)
    facts = NodeFacts(
        source,
        devices,
        topology=_topology(spec, devices, notes),
        mode="any",  # such a node reports nvidia.com/gpu as well: its first grant decides
        unit="%" if devices else "",
        labels=labels,
        allocations=_allocations(whole, devices, notes),
        problems=tuple(notes.problems),
    )
    return None if facts == NodeFacts(source) else facts


def device_object(node: str, discovery: Discovery, labels: Mapping[str, str]) -> dict[str, object]:
    """The object to write; `labels` are the model and the driver by these names, as valid label values."""
    devices = sorted(discovery.devices, key=_minor)
    values = {**labels, "vendor": _VENDORS.get(discovery.vendor, discovery.vendor)} if discovery.devices else {}
    named = {key: values[word] for key, word in LABELS.items() if values.get(word)}
    matrix = _matrix_text(discovery, devices)
    # rule 001.report: as the seed has it, beside our own inventory.
    topologies = {"topologies": {TYPE: [{"name": MATRIX, "topology": matrix}]}} if matrix else {}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node, "labels": {MANAGED_BY: MANAGER, **named}},
        "spec": {**topologies, "devices": [_entry(device) for device in devices]},
    }


def other_writer(document: Mapping[str, object] | None) -> str:
    """Who else writes the object: the field manager if it is known; empty if no other client does, or there is no object."""
    if document is None:
        return ""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    managers = [name for name in _spec_managers(metadata.get("managedFields")) if name != MANAGER]
    if managers:
        return managers[0]
    labels = metadata.get("labels")
    return "" if isinstance(labels, Mapping) and labels.get(MANAGED_BY) == MANAGER else "an unknown writer"


def _labels(view: NodeView, whole: Raw, notes: _Notes) -> dict[str, str]:
    """The object's labels, then the node's; where they differ the object's, which the node's own agent writes."""
    metadata = notes.typed(whole.get("metadata"), dict, "Device metadata")
    labels = notes.typed(metadata.get("labels"), dict, "Device metadata.labels")
    labels_by_name = {}
    for key, word in LABELS.items():
        label = notes.typed(labels.get(key), str, f"Device metadata.labels {key}")
        other = view.labels.get(key, "")
        if label and other and label != other:
            notes.say(key, f"the node says {other!r}, its Device object {label!r}, which is used: correct the label")
        if label or other:
            labels_by_name[word] = label or other
    return labels_by_name


def _cards(spec: Raw, model: str, notes: _Notes) -> list[_Card]:
    """The cards by minor, each under an id of its own."""
    cards: dict[int, _Card] = {}
    for item, key in notes.items(spec.get("devices"), "Device spec.devices"):
        if item.get("type") != TYPE:
            if not isinstance(item.get("type"), str):
                notes.say(f"{key}.type", "gpu, rdma or fpga is expected: the device is left out")
            continue
        minor = item.get("minor")
        if not is_minor(minor):
            notes.say(f"{key}.minor", "a whole number of 0 or more is expected: the card is left out")
        elif minor in cards:
            notes.say(f"{key}.minor", f"{minor} is listed twice: the second card is ignored")
        else:
            cards[minor] = _card(item, minor, model, key, notes)
    return _with_own_ids([cards[minor] for minor in sorted(cards)], notes)


def _card(item: Raw, minor: int, model: str, key: str, notes: _Notes) -> _Card:
    resources = notes.typed(item.get("resources"), dict, f"{key}.resources")
    place = notes.typed(item.get("topology"), dict, f"{key}.topology")
    ratio = _amount(resources, RATIO, f"{key}.resources", notes)
    if ratio is not None and not 0 < ratio <= WHOLE:
        notes.say(f"{key}.resources {RATIO}", f"1 to {WHOLE} is expected: the card is counted with {WHOLE}")
        ratio = None
    device = Device(
        id=_id(item.get("id"), minor, key, notes),
        index=minor,
        minor=minor,
        numa=_numa(place.get("nodeID"), key, notes),
        bus_id=notes.typed(place.get("busID"), str, f"{key}.topology.busID"),
        model=model,
        memory=WHOLE if ratio is None else ratio,
        healthy=_healthy(item, key, notes),
        bytes=_amount(resources, MEMORY, f"{key}.resources", notes) or 0,
    )
    return _Card(key, device)


def _amount(resources: Raw, word: str, key: str, notes: _Notes) -> int | None:
    """Return an amount under either prefix; None if it is missing or invalid."""
    amounts = [(prefix + word, resources[prefix + word]) for prefix in PREFIXES if prefix + word in resources]
    numbers = set()
    for name, value in amounts:
        number = count(value)
        if number is None:
            notes.say(f"{key} {name}", "a quantity is expected, such as 16Gi or 100: it is not read")
            return None
        numbers.add(number)
    if len(numbers) > 1:
        notes.say(f"{key} {word}", f"{' and '.join(name for name, _ in amounts)} differ: neither is read")
    return numbers.pop() if len(numbers) == 1 else None


def _id(value: object, minor: int, key: str, notes: _Notes) -> str:
    """Return the ID as reported, even a truncated one; `#minor` if there is none."""
    text = notes.typed(value, str, f"{key}.id")
    if text.startswith("#") or not text.isprintable():
        notes.say(f"{key}.id", f"{text!r} is not an id: the card is known as #{minor}")
        return f"#{minor}"
    return text or f"#{minor}"


def _numa(value: object, key: str, notes: _Notes) -> int | None:
    """-1 says that it is not known."""
    if value is None or value == -1 or is_minor(value):
        return value if is_minor(value) else None
    notes.say(f"{key}.topology.nodeID", "a whole number is expected: it is not read")
    return None


def _healthy(item: Raw, key: str, notes: _Notes) -> bool:
    """False if nothing is reported, as in Koordinator; a condition Healthy is newer than the field and overrides it."""
    health = notes.typed(item.get("health"), bool, f"{key}.health")
    conditions = [condition for condition, _ in notes.items(item.get("conditions"), f"{key}.conditions")]
    statuses = [condition.get("status") for condition in conditions if condition.get("type") == "Healthy"]
    return "False" not in statuses and ("True" in statuses or health)


def _with_own_ids(cards: list[_Card], notes: _Notes) -> list[_Card]:
    times = Counter(card.device.id for card in cards)
    for place, (key, device) in enumerate(cards):
        if times[device.id] > 1:
            notes.say(f"{key}.id", f"{device.id} is the id of {times[device.id]} cards: this one is #{device.index}")
            cards[place] = cards[place]._replace(device=replace(device, id=f"#{device.index}"))
    return cards


def _topology(spec: Raw, devices: tuple[Device, ...], notes: _Notes) -> Topology | None:
    """The matrix, its rows bound to the devices in the order of their minors; None where it can't be used."""
    key = "Device spec.topologies"
    topologies = notes.items(notes.typed(spec.get("topologies"), dict, key).get(TYPE), f"{key}.{TYPE}")
    matrices = [(item.get("topology"), at) for item, at in topologies if item.get("name") == MATRIX]
    if len(matrices) > 1:
        notes.say(f"{key}.{TYPE}", f"{len(matrices)} matrices are named {MATRIX}: none is read, keep one")
    if len(matrices) != 1:
        return None
    text, at = matrices[0]
    try:
        return Topology(tuple(device.id for device in devices), bandwidth=_matrix(text, len(devices)))
    except InputError as error:
        notes.say(f"{at}.topology", f"{error}: the links of this node are not known, measure them again")
        return None


def _matrix(text: object, size: int) -> Matrix:
    try:
        rows = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise InputError(f"the matrix can't be read as JSON: {str(error)[:80]}") from error
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise InputError("a list of rows, as JSON in a text, is expected")
    if not rows or any(isinstance(value, bool) for row in rows for value in row):
        raise InputError("the matrix is empty, or holds true or false where a number is expected")
    return whole_matrix(rows, "the matrix", size)


def _allocations(whole: Raw, devices: tuple[Device, ...], notes: _Notes) -> dict[str, tuple[str, ...]]:
    """Devices by pod, as the status lists them."""
    ids = {device.index: device.id for device in devices}
    status = notes.typed(whole.get("status"), dict, "Device status")
    allocations: dict[str, tuple[str, ...]] = {}
    for group, key in notes.items(status.get("allocations"), "Device status.allocations"):
        entries = notes.items(group.get("entries"), f"{key}.entries") if group.get("type") == TYPE else []
        for entry, at in entries:
            uid, minors = entry.get("uuid"), entry.get("minors")
            if not isinstance(uid, str) or not uid or not isinstance(minors, list):
                notes.say(at, "a uuid and a list of minors are expected: the entry is not read")
                continue
            allocated = [ids[minor] for minor in minors if is_minor(minor) and minor in ids]
            if len(allocated) < len(minors):
                notes.say(
                    f"{at}.minors", f"{len(minors) - len(allocated)} name no card of this node: they are left out"
                )
            allocations[uid] = tuple(dict.fromkeys((*allocations.get(uid, ()), *allocated)))
    return allocations


def _minor(device: Device) -> int:
    return device.index if device.minor is None else device.minor


def _matrix_text(discovery: Discovery, devices: list[Device]) -> str:
    """The bandwidth matrix as JSON, its rows in the order of the minors; empty if it is not complete."""
    topology = discovery.topology
    if not topology or not topology.bandwidth or {device.id for device in devices} != set(topology.devices):
        return ""
    order = [topology.devices.index(device.id) for device in devices]
    rows = [[topology.bandwidth[i][j] if i != j else _diagonal(topology.bandwidth[i][i]) for j in order] for i in order]
    return json.dumps(rows, separators=(",", ":"))


def _diagonal(value: float) -> float:
    """A device with itself may be anything, also what JSON can't hold."""
    return value if 0 <= value < float("inf") else 0


def _entry(device: Device) -> dict[str, object]:
    prefix, size = PREFIXES[0], device.bytes or device.memory * MIB
    amounts = {CORE: str(WHOLE), RATIO: str(WHOLE)} | ({MEMORY: str(size)} if size else {})
    entry: dict[str, object] = {
        "type": TYPE,
        "id": device.id,
        "minor": _minor(device),
        "health": device.healthy,
        "resources": {f"{prefix}{word}": amount for word, amount in amounts.items()},
    }
    if device.numa is None and not device.bus_id:
        return entry
    # The schema requires these fields; koordlet writes the same for what it does not know.
    numa = _UNKNOWN if device.numa is None else device.numa
    bus = {"busID": device.bus_id} if device.bus_id else {}
    return {**entry, "topology": {"socketID": _UNKNOWN, "nodeID": numa, "pcieID": "", **bus}}


def _spec_managers(entries: object) -> list[str]:
    """The managers of fields of the spec."""
    managers = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    return [
        str(entry.get("manager") or "an unknown writer")
        for entry in managers
        if isinstance(fields := entry.get("fieldsV1"), Mapping) and "f:spec" in fields
    ]

"""DeviceInventory objects: the devices of a node, their links and their allocations, as the agent reports them.

One object per node, with its name: deploy/crds/deviceinventories.linkwise.dev.yaml holds the schema.

Rows and columns of a matrix belong to the devices that `rows` names, so a device that is gone or renumbered can't take the
row of another. Without `rows` the order is that of the devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Final, get_args

from linkwise.dialects.json_fields import Fields, Report, shown
from linkwise.errors import TopologyError
from linkwise.model.device import Device
from linkwise.model.inventory import Hold, NodeFacts
from linkwise.model.link import SELF, Link, Pcie
from linkwise.model.node import SCOPES, TOPOLOGY_POLICIES, Mode, NumaAlignment
from linkwise.model.requirement import FACTS
from linkwise.model.topology import Topology, plainly_whole, square, whole_matrix
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.topology import Matrix

__all__ = [
    "API_VERSION",
    "FIELDS",
    "KIND",
    "SOURCE",
    "forget_links",
    "held_devices",
    "inventory_enforced",
    "inventory_facts",
    "inventory_faults",
    "inventory_object",
    "topology_fields",
    "topology_of",
]

FIELDS: Final = frozenset({"rows", "links", "bandwidth", "rings", "problems", "warnings"})
_read: Final = lru_cache(maxsize=1024)(Link)
"""thousands of machines are of a few builds, and print the same few kinds"""
API_VERSION: Final = "linkwise.dev/v1alpha1"
KIND: Final = "DeviceInventory"
SOURCE: Final = "linkwise"
_MODES: Final[tuple[Mode, ...]] = get_args(Mode)
_SPEC: Final = frozenset(
    {
        "mode",
        "unit",
        "enforced",
        "profile",
        "deviceCount",
        "healthyCount",
        "devices",
        "facts",
        "holds",
        "kubelet",
        *FIELDS,
    }
)
_DEVICE: Final = frozenset({"uuid", "index", "minor", "numa", "busID", "model", "memory", "healthy", "facts", "nics"})
_KUBELET: Final = frozenset({"topologyManagerPolicy", "topologyManagerScope", "cpuManagerPolicy"})
_quick_device: Final = fast_constructor(Device)
_quick_facts: Final = fast_constructor(NodeFacts)
_ALLOCATION: Final = frozenset({"podUID", "namespace", "name", "devices"})
_HOLD: Final = frozenset({"uuid", "reason", "until"})
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


def topology_of(spec: Fields, devices: tuple[Device, ...]) -> Topology | None:
    """Topology of an inventory; None, and a problem, if it is invalid."""
    if not FIELDS & spec.raw.keys():
        return None
    rows = spec.texts("rows", tuple(device.id for device in devices))
    problems, warnings = spec.texts("problems", ()), spec.texts("warnings", ())
    if rows is None:
        return None
    try:
        return Topology(
            devices=rows,
            links=_links(spec.raw.get("links", ())),
            bandwidth=_bandwidth(spec.raw.get("bandwidth", ())),
            rings=_rings(spec.raw.get("rings", ())),
            problems=problems or (),
            warnings=warnings or (),
        )
    except TopologyError as error:
        spec.report.refuse(f"spec: {error}; the devices are known, their links are not")
        return None


def topology_fields(topology: Topology) -> dict[str, object]:
    """The topology as fields of an inventory: only what is known."""
    fields: dict[str, object] = {
        "links": [[_link_text(link) for link in row] for row in topology.links],
        "bandwidth": _bandwidth_rows(topology.bandwidth),
        "rings": [list(ring) for ring in topology.rings],
        "problems": list(topology.problems),
        "warnings": list(topology.warnings),
    }
    return {"rows": list(topology.devices)} | {name: value for name, value in fields.items() if value}


def _matrix(value: object, what: str) -> list[list[object]]:
    if not isinstance(value, list | tuple) or not all(isinstance(row, list | tuple) for row in value):
        raise TopologyError(f"{what} is not a list of lists")
    return [list(row) for row in value]


def _links(value: object) -> tuple[tuple[Link, ...], ...]:
    rows = _matrix(value, "links")
    square(rows, "links")
    try:
        return _linked(tuple(map(tuple, rows)))
    except TypeError:  # something in it can't even be looked up
        return _linked.__wrapped__(tuple(map(tuple, rows)))


@lru_cache(maxsize=1024)
def _linked(rows: tuple[tuple[object, ...], ...]) -> tuple[tuple[Link, ...], ...]:
    """Machines of one build share one matrix, so that everything computed from it is computed once."""
    return tuple(tuple(_link(cell, i, j) for j, cell in enumerate(row)) for i, row in enumerate(rows))


def _link(cell: object, i: int, j: int) -> Link:
    if i == j:
        return SELF
    if not isinstance(cell, str) or not cell.isprintable():
        raise TopologyError(f"links row {i} column {j} is {shown(cell)}, a link kind such as NV2 is expected")
    return _read(cell)


def forget_links() -> None:
    """Drop cached links: a code means something else once vendors have changed."""
    _linked.cache_clear()
    _read.cache_clear()


def _bandwidth(value: object) -> Matrix:
    plain = _plain_rows(value)
    if plain is not None:
        return plain
    rows = _matrix(value, "bandwidth")
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            if i != j and not isinstance(cell, int | float):
                raise TopologyError(f"bandwidth row {i} column {j} is {shown(cell)}, a number is expected")
    return whole_matrix(rows, "bandwidth")


def _plain_rows(value: object) -> Matrix | None:
    """The rows if they are a square of quantities, the diagonal included, as nearly all are."""
    if type(value) is not list or set(map(type, value)) != {list} or set(map(len, value)) != {len(value)}:
        return None
    rows = tuple(map(tuple, value))
    return rows if plainly_whole(rows) else None


def _rings(value: object) -> tuple[tuple[int, ...], ...]:
    rings: list[tuple[int, ...]] = []
    for row in _matrix(value, "rings"):
        positions = [cell for cell in row if isinstance(cell, int) and not isinstance(cell, bool)]
        if len(positions) < len(row) or any(abs(position) > 1000 for position in positions):
            raise TopologyError("rings hold something else than positions of devices")
        rings.append(tuple(positions))
    return tuple(rings)


def _link_text(link: Link) -> str:
    """As printed, with the PCIe path if the tool printed it elsewhere."""
    hidden = link.pcie is not Pcie.UNKNOWN and Link(link).pcie is not link.pcie
    return f"{link}+{link.pcie.name}" if hidden else str(link)


def _bandwidth_rows(rows: Matrix) -> list[list[float]]:
    """A device with itself may be anything, NaN too: JSON gets a 0 for what it can't hold."""
    return [[value if 0 <= value < inf else 0 for value in row] for row in rows]


class _Columns:
    """The fields that all devices of a list have, in the order of `Device`."""

    def __init__(self, **kinds: type) -> None:
        self.names = frozenset(kinds)
        self.row = itemgetter(*kinds)
        self.kinds = [{kind} for kind in kinds.values()]


_PLACED: Final = _Columns(uuid=str, index=int, minor=int, numa=int, busID=str, model=str, memory=int, healthy=bool)
"""as our agent writes them"""


_PLAIN: Final = _Columns(uuid=str, index=int, minor=int, busID=str, model=str, memory=int, healthy=bool)
"""likewise, where NUMA nodes are not known"""


def inventory_facts(raw: object, node: str = "") -> NodeFacts:
    """Facts of an inventory, and problems for what is invalid. `node` is the name that it must have."""
    report = Report(f"node {node or _name(raw) or '(an inventory without a name)'}", KIND)
    root = _ours(raw, node, report)
    spec = root and Fields.of(root.raw.get("spec"), "spec", report)
    if root is None or spec is None:
        return NodeFacts(SOURCE, problems=tuple(report.problems))
    spec.unknown(_SPEC)
    devices = _devices(spec)
    topology = topology_of(spec, devices)
    profile, mode, unit = spec.text("profile", "") or "", _mode(spec), spec.text("unit", "") or ""
    labels, allocations = _labels(spec), _allocations(root)
    holds, alignment = _holds(spec) if "holds" in spec.raw else (), _alignment(spec)
    problems = tuple(report.problems)  # the last: reading makes them
    return _quick_facts(SOURCE, devices, topology, profile, mode, unit, labels, allocations, problems, holds, alignment)


def inventory_enforced(raw: object) -> bool:
    """Whether our own agent allocates the node's devices, so that a pick is binding."""
    spec = raw.get("spec") if isinstance(raw, Mapping) else None
    return isinstance(spec, Mapping) and spec.get("enforced") is True


def held_devices(raw: object) -> frozenset[str]:
    """UUIDs of the devices that an inventory holds."""
    spec = raw.get("spec") if isinstance(raw, Mapping) else None
    holds = spec.get("holds") if isinstance(spec, Mapping) else None
    listed = [hold.get("uuid") for hold in holds if isinstance(hold, Mapping)] if isinstance(holds, list) else []
    return frozenset(uuid for uuid in listed if isinstance(uuid, str))


def inventory_faults(raw: object) -> dict[str, str]:
    """Why devices are unhealthy, by id, as the agent reports it; nothing of what is invalid, which `inventory_facts` reports."""
    spec = raw.get("spec") if isinstance(raw, Mapping) else None
    devices = spec.get("devices") if isinstance(spec, Mapping) else None
    faults: dict[str, str] = {}
    for device in devices if isinstance(devices, list) else ():
        facts = device.get("facts") if isinstance(device, Mapping) and device.get("healthy") is False else None
        fault = facts.get("fault") if isinstance(facts, Mapping) else None
        if isinstance(fault, str) and fault.isprintable() and isinstance(device.get("uuid"), str):
            faults[device["uuid"]] = fault
    return faults


def inventory_object(  # noqa: PLR0913 - a builder: what is only for people has defaults
    name: str,
    facts: NodeFacts,
    *,
    enforced: bool,
    pods: Mapping[str, tuple[str, str]] | None = None,
    faults: Mapping[str, str] | None = None,
    conditions: Sequence[Mapping[str, str]] = (),
    version: str = "",
) -> dict[str, object]:
    """The object to write.

    For people, it also has the namespaces and names of pods by UID, the faults of devices by id, conditions, and the version
    of the agent.
    """
    spec: dict[str, object] = {
        "mode": facts.mode,
        "unit": facts.unit,
        "enforced": enforced,
        "profile": facts.profile,
        "deviceCount": len(facts.devices),
        "healthyCount": sum(device.healthy for device in facts.devices),
        "devices": [_device_object(device, (faults or {}).get(device.id, "")) for device in facts.devices],
        "facts": dict(facts.labels),
    }
    if facts.holds:
        spec["holds"] = [_hold_object(hold) for hold in facts.holds]
    if facts.alignment is not None:
        spec["kubelet"] = _kubelet_object(facts.alignment)
    status: dict[str, object] = {
        "allocations": [
            _allocation_object(uid, devices, (pods or {}).get(uid)) for uid, devices in facts.allocations.items()
        ]
    }
    if version:
        status["agentVersion"] = version
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": spec | (topology_fields(facts.topology) if facts.topology else {}),
        "status": status | ({"conditions": [dict(condition) for condition in conditions]} if conditions else {}),
    }


def _name(raw: object) -> str:
    meta = raw.get("metadata") if isinstance(raw, Mapping) else None
    name = meta.get("name") if isinstance(meta, Mapping) else None
    return name if isinstance(name, str) and name.isprintable() else ""


def _ours(raw: object, node: str, report: Report) -> Fields | None:
    root = Fields.of(raw, "", report)
    if root is None:
        return None
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if root.raw.get(field, expected) != expected:
            report.refuse(f"{field} is {shown(root.raw[field])}; we know {expected} only, so it is ignored")
    if node and _name(raw) != node:
        report.refuse(f"metadata.name is {shown(_name(raw))}; an inventory is named after its node")
    return None if report.broken else root


def _devices(spec: Fields) -> tuple[Device, ...]:
    """The devices; one with the id or index of an earlier one is ignored."""
    devices = _plain_devices(spec.raw.get("devices"))
    if devices is None:
        devices = _read_devices(spec)
    for field, count in (
        ("deviceCount", len(devices)),
        ("healthyCount", sum(device.healthy for device in devices.values())),
    ):
        if field in spec.raw and spec.number(field) not in {count, None}:
            spec.report.note(f"spec.{field} is {shown(spec.raw[field])}; the list has {count}, which is used")
    return tuple(devices.values())


def _read_devices(spec: Fields) -> dict[str, Device]:
    devices: dict[str, Device] = {}
    indices: set[int] = set()
    for entry in spec.objects("devices"):
        device = _device(entry)
        if device is None:
            continue
        if device.id in devices or device.index in indices:
            spec.report.refuse(f"{entry.path[:-1]} has the uuid or index of an earlier device; it is left out")
        else:
            devices[device.id] = device
            indices.add(device.index)
    return devices


def _plain_devices(raw: object) -> dict[str, Device] | None:
    """Fast path: the devices if all have the same fields, each of its type, as the agent writes them; else None.

    A start reads many thousands. Any other list takes the slow path, which reports problems: one without minors, for
    example, with NUMA nodes of some devices only, or with the facts of a faulty device.
    """
    if not isinstance(raw, list) or not raw:
        return None
    placed = type(raw[0]) is dict and "numa" in raw[0]
    columns = _PLACED if placed else _PLAIN
    if not all(type(entry) is dict and entry.keys() == columns.names for entry in raw):
        return None
    rows = list(map(columns.row, raw))
    values = list(zip(*rows, strict=True))
    if [set(map(type, column)) for column in values] != columns.kinds:
        return None
    uuids, indices, minors, *more, buses, models, memories, _ = values
    numbers = (*indices, *minors, *memories, *more[0]) if placed else (*indices, *minors, *memories)
    if min(numbers) < 0 or max(numbers) >= 2**63 or not "".join((*uuids, *buses, *models)).isprintable():
        return None
    if "" in uuids or len(set(uuids)) < len(rows) or len(set(indices)) < len(rows):
        return None
    return (
        {row[0]: _quick_device(*row) for row in rows}
        if placed
        else {row[0]: _quick_device(row[0], row[1], row[2], None, *row[3:]) for row in rows}
    )


def _device(entry: Fields) -> Device | None:
    uuid, index = entry.text("uuid"), entry.number("index")
    entry.unknown(_DEVICE)
    if uuid is None or index is None:
        return None
    return Device(
        id=uuid,
        index=index,
        minor=entry.number("minor") if "minor" in entry.raw else None,
        numa=entry.number("numa") if "numa" in entry.raw else None,
        bus_id=entry.text("busID", "") or "",
        model=entry.text("model", "") or "",
        memory=entry.number("memory", 0) or 0,
        healthy=entry.flag("healthy") or False,
        nics=entry.texts("nics") or () if "nics" in entry.raw else (),
        facts=_device_facts(entry) if "facts" in entry.raw else (),
    )


def _device_facts(entry: Fields) -> tuple[tuple[str, str], ...]:
    holder = Fields.of(entry.raw["facts"], f"{entry.path}facts", entry.report)
    if holder is None:
        return ()
    return tuple((name, text) for name in FACTS if name in holder.raw and (text := holder.text(name)))


def _mode(spec: Fields) -> Mode:
    text = spec.text("mode", "any")
    known = next((mode for mode in _MODES if mode == text), None)
    if known is None and text is not None:
        spec.report.refuse(f"spec.mode is {shown(text)}; one of {', '.join(_MODES)} is expected")
    return known or "any"


def _alignment(spec: Fields) -> NumaAlignment | None:
    """The Topology Manager of the kubelet; None if the agent does not know it."""
    fields = Fields.of(spec.raw["kubelet"], "spec.kubelet", spec.report) if "kubelet" in spec.raw else None
    if fields is None:
        return None
    fields.unknown(_KUBELET)
    policy, scope = fields.text("topologyManagerPolicy", ""), fields.text("topologyManagerScope", "container")
    known = next((each for each in TOPOLOGY_POLICIES if each == policy), None)
    known_scope = next((each for each in SCOPES if each == scope), None)
    if policy and known is None:
        spec.report.note(
            f"spec.kubelet.topologyManagerPolicy is {shown(policy)}; one of {', '.join(TOPOLOGY_POLICIES)} is expected"
        )
    if scope and known_scope is None:
        spec.report.note(f"spec.kubelet.topologyManagerScope is {shown(scope)}; one of {', '.join(SCOPES)} is expected")
    static = fields.text("cpuManagerPolicy", "static") == "static"
    return NumaAlignment(known, known_scope or "container", static_cpus=static) if known else None


def _kubelet_object(alignment: NumaAlignment) -> dict[str, object]:
    return {
        "topologyManagerPolicy": alignment.policy,
        "topologyManagerScope": alignment.scope,
        "cpuManagerPolicy": "static" if alignment.static_cpus else "none",
    }


def _labels(spec: Fields) -> dict[str, str]:
    holder = Fields.of(spec.raw.get("facts", {}), "spec.facts", spec.report)
    if holder is None:
        return {}
    labels = {name: holder.text(name, "") for name in holder.raw if isinstance(name, str)}
    return {name: text for name, text in labels.items() if text is not None}


def _allocations(root: Fields) -> dict[str, tuple[str, ...]]:
    """Devices by pod; a pod that is listed twice has the devices of both entries."""
    allocations: dict[str, tuple[str, ...]] = {}
    status = Fields.of(root.raw.get("status", {}), "status", root.report)
    for entry in status.objects("allocations") if status else ():
        uid, devices = entry.text("podUID"), entry.texts("devices")
        entry.unknown(_ALLOCATION)
        if uid is None or devices is None:
            continue
        if uid in allocations:
            root.report.note(f"{entry.path}podUID is {shown(uid)}, which is listed before; the devices of both count")
        allocations[uid] = tuple(dict.fromkeys((*allocations.get(uid, ()), *devices)))
    return allocations


def _holds(spec: Fields) -> tuple[Hold, ...]:
    """The holds; one without a valid time holds nothing, because it would never end."""
    holds: dict[str, Hold] = {}
    for entry in spec.objects("holds"):
        entry.unknown(_HOLD)
        device, reason, until = entry.text("uuid"), entry.text("reason", ""), entry.time("until")
        if device is None or until is None:
            continue
        if device in holds:
            spec.report.note(f"{entry.path}uuid is {shown(device)}, which is listed before; the later time counts")
            until = max(until, holds[device].until)
        holds[device] = Hold(device, reason or "", until)
    return tuple(holds.values())


def _hold_object(hold: Hold) -> dict[str, object]:
    until = datetime.fromtimestamp(hold.until, UTC).strftime(_TIME)
    return {"uuid": hold.device, "reason": hold.reason, "until": until}


def _device_object(device: Device, fault: str) -> dict[str, object]:
    fields: dict[str, object] = {
        "uuid": device.id,
        "index": device.index,
        "minor": device.minor,
        "numa": device.numa,
        "busID": device.bus_id,
        "model": device.model,
        "memory": device.memory,
        "healthy": device.healthy,
        "facts": {**dict(device.facts), **({"fault": fault} if fault else {})} or None,
        "nics": list(device.nics) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _allocation_object(uid: str, devices: tuple[str, ...], pod: tuple[str, str] | None) -> dict[str, object]:
    names = {"namespace": pod[0], "name": pod[1]} if pod else {}
    return {"podUID": uid, **names, "devices": list(devices)}

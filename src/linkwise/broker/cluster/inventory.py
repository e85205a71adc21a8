"""Inventory of a node, merged from all dialects: identity, health, memory and links of its devices.

Order of precedence: our own inventory, then Koordinator's Device object, then lists of other systems, then counts.
Disagreements are reported as problems, never guessed away.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from linkwise.dialects.dialect import where_node
from linkwise.dialects.kubernetes.claims.objects import by_claim
from linkwise.dialects.kubernetes.objects import KIND as TOPOLOGY_KIND, topology_alignment
from linkwise.dialects.linkwise.cordon import CORDONED, cordoned_devices, cordons_of
from linkwise.dialects.linkwise.inventory import KIND, SOURCE, inventory_enforced, inventory_faults
from linkwise.dialects.nvidia import TOPOLOGY
from linkwise.dialects.pod_resources import quantity
from linkwise.dialects.registry import (
    BY_NAME,
    by_priority,
    counts_whole_devices,
    dialects_of_node,
    owner_name,
    vendor_group,
)
from linkwise.errors import InputError
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts, NodeInventory
from linkwise.model.requirement import FACTS
from linkwise.model.topology import Topology, link_data_help
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from linkwise.broker.cluster.objects import MissingInventory
    from linkwise.model.inventory import ClaimableDevices
    from linkwise.model.node import Mode, NumaAlignment
    from linkwise.model.views import NodeView

__all__ = [
    "Source",
    "cordoned_by",
    "faults_of",
    "in_percent",
    "joined",
    "kind_of",
    "matched",
    "measured",
    "merge_inventory",
    "merge_or_report",
    "topology_of",
    "without_cordoned",
]

BY_DEVICE: Final = {SOURCE: KIND, "koordinator": "Device"}
"""sources that report the health of every device, with the kind of object they read"""
SHARING: Final = frozenset({SOURCE, "aliyun"})
"""sources that count memory as a node in the mode `share` does"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = 9e9  # seconds since the epoch
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_NONE: Final[Mapping[str, MissingInventory]] = {}
_REQUIRED: Final = attrgetter("model", "memory", "bytes", "facts")
"""the fields of a device that requirements are compared with"""
T = TypeVar("T")
PERCENT: Final = "%"
WHOLE: Final = 100  # percent
BYTES: Final = {"MiB": 2**20, "GiB": 2**30}
_INDEX: Final = attrgetter("index")
_MODEL: Final = attrgetter("model")
_MEMORY: Final = attrgetter("memory")
_FACTS: Final = attrgetter("minor", "numa", "bus_id", "bytes", "healthy", "reachable")
_NO_FACTS: Final = (None, None, "", 0, True, True)
KEYS: Final = {"linkwise": KIND, "koordinator": "Device spec.topologies", "nvidia": TOPOLOGY}
"""annotation or object of each source"""


def merge_inventory(
    view: NodeView,
    objects: Mapping[str, Mapping[str, object]],
    claimable: Sequence[ClaimableDevices] = (),
    missing: Mapping[str, MissingInventory] = _NONE,
    *,
    plans_claims: bool = True,
) -> NodeInventory:
    """Merge the inventory of a node from its own fields, its objects, and the devices that ResourceClaims allocate.

    The objects in `missing` were deleted. Without `plans_claims`, devices that claims allocate are only counted.
    """
    facts_by_source = _read_facts(view, objects)
    problems = [problem for facts in facts_by_source.values() for problem in facts.problems]
    problems += [problem for each in claimable for problem in each.problems]
    problems += [Problem(where_node(view), key, _missing_text(lost)) for key, lost in missing.items()]
    spoken = _spoken(view, facts_by_source, problems)
    published = [each for each in claimable if each.devices]
    if published and not spoken:
        return _by_claims(view, facts_by_source, published, problems, objects.get(KIND), linked=plans_claims)
    vendor = _vendor(view, spoken, facts_by_source, problems)
    sources = matched([facts for name, facts in facts_by_source.items() if name in vendor])
    words, mode = _words(view, frozenset(spoken) & vendor), _mode(facts_by_source, vendor)
    devices, unit = _devices(sources, words, mode)
    # A matrix without devices may belong to any vendor.
    linked = [facts for name, facts in facts_by_source.items() if name in vendor or not facts.devices]
    topology = topology_of(linked, devices, view, problems)
    cordoned = cordoned_by(view, devices, problems, by_claims=False)
    if KIND not in missing:
        _compare(view, facts_by_source.get(SOURCE, NodeFacts(SOURCE)).devices, cordoned, problems)
    alignment = _alignment(view, facts_by_source, objects.get(TOPOLOGY_KIND), problems)
    claimed = _claimed_besides(view, published, words, devices, problems)
    enforced, usable = inventory_enforced(objects.get(KIND)), without_cordoned(devices, cordoned)
    labels = {word: text for source in reversed(sources) for word, text in source.facts.labels.items()}
    return NodeInventory(
        name=view.name,
        devices=usable,
        topology=topology,
        profile=next((source.facts.profile for source in sources if source.facts.profile), ""),
        mode=mode,
        unit=unit,
        words=words,
        unidentified=_unidentified(
            sources, usable if enforced else devices, missing
        ),  # our agent reports cordoned ones as unhealthy
        allocations=_allocations(sources),
        claimed=claimed,
        enforced=enforced,
        labels=labels,
        problems=tuple(dict.fromkeys(problems)),
        holds=facts_by_source[SOURCE].holds if SOURCE in facts_by_source else (),
        faults=faults_of(devices, objects.get(KIND)),
        cordoned=cordoned,
        alignment=alignment,
        facts=_facts(labels, facts_by_source, vendor),
        steered=enforced or not devices or any(BY_NAME[word].records for word in words if word in BY_NAME),
    )


def merge_or_report(
    view: NodeView,
    objects: Mapping[str, Mapping[str, object]],
    claimable: Sequence[ClaimableDevices] = (),
    missing: Mapping[str, MissingInventory] = _NONE,
    *,
    plans_claims: bool = True,
) -> NodeInventory:
    """Merge an inventory; on a bug, return an empty one with a problem: one node must not stop all others."""
    try:
        return merge_inventory(view, objects, claimable, missing, plans_claims=plans_claims)
    except Exception as error:  # noqa: BLE001 - any bug
        wrong = f"the inventory can't be computed, which is a bug in Linkwise: {type(error).__name__}: {error}"
        return NodeInventory(view.name, problems=(Problem(where_node(view), "devices", wrong),))


def kind_of(inventory: NodeInventory) -> tuple[object, ...]:
    """Return what decides whether a node serves a request, apart from free devices."""
    devices = tuple(map(_REQUIRED, inventory.devices))
    facts = inventory.facts, inventory.steered, devices
    return inventory.words, inventory.profile, inventory.topology, inventory.by_claims, inventory.alignment, facts


class Source(NamedTuple):
    """One source of a node's devices."""

    facts: NodeFacts
    twins: Mapping[str, Device]
    """its devices, by the ids of the authoritative ones"""


def matched(node_facts: Sequence[NodeFacts]) -> tuple[Source, ...]:
    """Match the devices of all sources with those of the first that lists any."""
    devices = next((facts.devices for facts in node_facts if facts.devices), ())
    return tuple(Source(facts, _twins(devices, facts.devices)) for facts in node_facts)


def joined(sources: Sequence[Source]) -> tuple[Device, ...]:
    """Return the devices in index order, completed from later sources; memory is unchanged."""
    first = next((source for source in sources if source.twins), None)
    if first is None:
        return ()
    devices = first.facts.devices
    named = all(map(_MODEL, devices))
    others = [source for source in sources if source is not first and not (named and _only_counts(source))]
    found = [_filled(device, _twins_of(device, others)) for device in devices] if others else devices
    return tuple(sorted(found, key=_INDEX))


def measured(devices: Sequence[Device], sources: Sequence[Source]) -> tuple[tuple[Device, ...], str]:
    """Return the devices with the memory and unit of the first source that has any; units are never mixed."""
    units_with_memory = [source.facts.unit for source in sources if any(twin.memory for twin in source.twins.values())]
    units = units_with_memory or [source.facts.unit for source in sources if source.facts.unit]
    same = [source for source in sources if source.facts.unit == units[0]] if units else []
    if same and same[0].facts.devices == devices and all(map(_MEMORY, devices)):
        return tuple(devices), units[0]  # nothing to merge: the usual case, and much faster
    return tuple([_with_memory(device, same) for device in devices]), units[0] if units else ""


def in_percent(devices: Sequence[Device], sources: Sequence[Source]) -> tuple[tuple[Device, ...], str]:
    """Return the devices with memory in percent, and in bytes from any source."""
    percents = [source for source in sources if source.facts.unit == PERCENT]
    return tuple(
        replace(
            device,
            memory=_first(0, (twin.memory for twin in _twins_of(device, percents))) or WHOLE,
            bytes=device.bytes or _first(0, _sizes(device, sources)),
        )
        for device in devices
    ), PERCENT


def faults_of(devices: Sequence[Device], document: object) -> dict[str, str]:
    """Return why each unhealthy device is unhealthy, by id, as the DeviceInventory says; empty where it does not."""
    unhealthy = [device.id for device in devices if not device.healthy]
    known = inventory_faults(document) if unhealthy else {}
    return {id_: known.get(id_, "") for id_ in unhealthy}


def cordoned_by(
    view: NodeView, devices: Sequence[Device], problems: list[Problem], *, by_claims: bool
) -> dict[str, str]:
    """Return the reason of each cordoned device, by id; entries of the annotation that name no device are problems."""
    cordons, wrong = cordons_of(view)
    problems += wrong
    if not cordons or by_claims:
        if cordons:
            sentence = "ResourceClaims allocate the devices of this node; use a DeviceTaintRule of Kubernetes instead"
            problems.append(Problem(where_node(view), CORDONED, sentence))
        return {}
    known = {key for device in devices for key in (device.id, f"#{device.index}")}
    for key in cordons if devices else ():
        if key not in known:
            sentence = (
                f"the node has no device {key}; remove it with `linkwise uncordon node/{view.name} --device {key}`"
            )
            problems.append(Problem(where_node(view), CORDONED, sentence))
    return cordoned_devices(devices, cordons)


def without_cordoned(devices: tuple[Device, ...], cordoned: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the devices with cordoned ones as unhealthy: they are not allocated, and stay with the pods that have them."""
    if not cordoned:
        return devices
    return tuple(replace(device, healthy=False) if device.id in cordoned else device for device in devices)


def topology_of(
    sources: Iterable[NodeFacts], devices: Sequence[Device], view: NodeView, problems: list[Problem]
) -> Topology | None:
    """Return the first topology of these devices; links and bandwidth of two sources if none has both."""
    topologies = [
        _named(facts.topology, devices)
        for facts in sources
        if facts.topology is not None and _as_many(facts, devices, view, problems)
    ]
    links = next((topology for topology in topologies if topology.links), None)
    bandwidth = next((topology for topology in topologies if topology.bandwidth), None)
    both = _combined(links, bandwidth, devices) if links and bandwidth and links is not bandwidth else None
    with_data = [topology for topology in topologies if topology.links or topology.bandwidth]
    return both or next(iter(with_data or topologies), None)


def _read_facts(view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> dict[str, NodeFacts]:
    """Return the facts of each dialect, in order of precedence."""
    keys = (*view.capacity, *view.allocatable, *view.labels, *view.annotations, *objects)
    facts = [dialect.node(view, objects) for dialect in dialects_of_node(keys)]
    return {each.source: each for each in facts if each is not None}


def _missing_text(lost: MissingInventory) -> str:
    time = "" if lost.since is None else f" since {_EPOCH + timedelta(seconds=min(lost.since, _LATEST)):{_TIME}}"
    return f"missing{time}; the devices last reported are used for a grace period"


def _spoken(view: NodeView, facts_by_source: Mapping[str, NodeFacts], problems: list[Problem]) -> dict[str, str]:
    """Return the dialects by which devices can be requested, with the resource that shows it; labels are not enough."""
    found: dict[str, str] = {}
    for resource in view.allocatable or view.capacity:
        owner = owner_name(resource)
        if owner and owner not in found and _amount(view, resource, problems) > 0:
            found[owner] = resource
    if "koordinator" in facts_by_source and facts_by_source["koordinator"].devices:
        found.setdefault("koordinator", "Device")
    return {dialect.name: found[dialect.name] for dialect in by_priority() if dialect.name in found}


def _amount(view: NodeView, resource: str, problems: list[Problem]) -> Decimal:
    try:
        return quantity((view.allocatable or view.capacity).get(resource, "0"))
    except InputError as error:
        problems.append(Problem(where_node(view), resource, f"{error}; check the device plugin of this node"))
        return Decimal(0)


def _by_claims(  # noqa: PLR0913 - all that describes the node
    view: NodeView,
    facts_by_source: Mapping[str, NodeFacts],
    published: Sequence[ClaimableDevices],
    problems: list[Problem],
    inventory: object,
    *,
    linked: bool,
) -> NodeInventory:
    """Return the inventory of a node without a device plugin, whose devices are allocated by ResourceClaims.

    Claims that Linkwise writes name devices, so that links count. Without `linked`, kube-scheduler takes the first devices
    that fit, and only their number can be relied on.
    """
    served, *others = published
    cordoned_by(view, served.devices, problems, by_claims=True)
    labels = {word: text for facts in facts_by_source.values() for word, text in facts.labels.items()}
    for other in others:
        sentence = f"the node has {served.resource} as well, and only that is served; use one vendor per node"
        problems.append(Problem(where_node(view), other.resource, sentence))
    vendor = vendor_group(owner_name(served.resource))
    found = NodeInventory(
        name=view.name,
        devices=served.devices,
        mode="whole",
        words=frozenset({owner_name(served.resource), served.resource, by_claim(served.resource)}),
        allocations=served.allocations,
        claims=served.claims,
        pins=served.pins,
        labels=labels,
        faults=faults_of(served.devices, inventory),
        facts=_facts(labels, facts_by_source, vendor),
        steered=False,
    )
    if not linked:
        return replace(found, problems=tuple(dict.fromkeys(problems)))
    known = [facts for name, facts in facts_by_source.items() if name in vendor or name == SOURCE]
    sources = [_identified(facts, served.devices) for facts in known]
    twins = matched([NodeFacts("claims", _by_index(served.devices, sources)), *sources])
    devices, unit = measured(joined(twins), twins)
    return replace(
        found,
        devices=devices,
        unit=unit,
        topology=topology_of(sources, devices, view, problems),
        profile=next((facts.profile for facts in sources if facts.profile), ""),
        alignment=next((facts.alignment for facts in sources if facts.alignment), None),
        faults=faults_of(devices, inventory),
        problems=tuple(dict.fromkeys(problems)),
        steered=bool(served.pins),
    )


def _identified(facts: NodeFacts, devices: Sequence[Device]) -> NodeFacts:
    """Return the facts of a source with the ids that slices have for its devices, and without other devices.

    Devices are the same if their ids are, or their PCI addresses.
    """
    own, places = {device.id for device in devices}, {_address(device): device.id for device in devices}
    ids = {device.id: device.id if device.id in own else places.get(_address(device), "") for device in facts.devices}
    ids = {name: found for name, found in ids.items() if found}
    if len(set(ids.values())) < len(ids) or not ids:  # a PCI address that several devices have tells nothing
        return replace(facts, devices=()) if facts.devices else facts
    topology = facts.topology
    if topology is not None and not ids.keys().isdisjoint(topology.devices):
        topology = _restricted(topology, ids)
    kept = tuple(replace(device, id=ids[device.id]) for device in facts.devices if device.id in ids)
    return replace(facts, devices=kept, topology=topology)


def _restricted(topology: Topology, ids: Mapping[str, str]) -> Topology:
    """Return the rows of the devices in `ids`, under their new ids."""
    rows = [place for place, name in enumerate(topology.devices) if name in ids]
    names = tuple(ids[topology.devices[place]] for place in rows)
    if len(rows) == len(topology.devices):
        return replace(topology, devices=names)
    return Topology(
        names,
        _reordered(topology.links, rows) if topology.links else (),
        _reordered(topology.bandwidth, rows) if topology.bandwidth else (),
        problems=topology.problems,
        warnings=topology.warnings,
    )


def _by_index(devices: Sequence[Device], sources: Iterable[NodeFacts]) -> tuple[Device, ...]:
    """Return the devices with the numbers that a source has for all of them, or in the order of their PCI addresses."""
    for facts in sources:
        numbers = {device.id: device.index for device in facts.devices}
        if numbers.keys() >= {device.id for device in devices}:
            return tuple(replace(device, index=numbers[device.id]) for device in devices)
    addresses = [_address(device) for device in devices]
    if "" in addresses or len(set(addresses)) < len(addresses):
        return tuple(devices)
    order = sorted(devices, key=_address)
    return tuple(replace(device, index=place) for place, device in enumerate(order))


def _address(device: Device) -> str:
    """Return the PCI address of a device as other sources write it too; they differ in case and in zeros of the domain."""
    domain, _, rest = device.bus_id.lower().partition(":")
    if rest.count(":") == 0:
        domain, rest = ("0", device.bus_id.lower()) if device.bus_id else ("", "")
    return f"{domain.lstrip('0') or '0'}:{rest}" if rest else ""


def _facts(
    labels: Mapping[str, str], facts_by_source: Mapping[str, NodeFacts], vendor: frozenset[str]
) -> dict[str, str]:
    """Return the facts that requirements are compared with; the vendor is that of the resources."""
    facts: dict[str, str] = {name: labels[name] for name in FACTS if labels.get(name)}
    # Other systems' labels have memory in units of their own; their devices have it as well.
    facts.pop("memory", None)
    if SOURCE in facts_by_source and (memory := facts_by_source[SOURCE].labels.get("memory", "")):
        facts["memory"] = memory
    vendors = {BY_NAME[name].vendor for name in vendor if name in BY_NAME and BY_NAME[name].vendor}
    return facts | ({"vendor": vendors.pop()} if len(vendors) == 1 else {})


def _vendor(
    view: NodeView, spoken: Mapping[str, str], facts_by_source: Mapping[str, NodeFacts], problems: list[Problem]
) -> frozenset[str]:
    """Return the dialects of the one vendor that is served, and our own; all while there are no devices."""
    listing = (name for name, facts in facts_by_source.items() if facts.devices and name != SOURCE)
    first = next(iter((*spoken, *listing)), None)
    vendor = vendor_group(first) if first else frozenset(dialect.name for dialect in by_priority())
    for name, resource in spoken.items():
        if name not in vendor and first is not None:
            sentence = f"the node has {spoken[first]} as well, and only that is served; use one vendor per node"
            problems.append(Problem(where_node(view), resource, sentence))
    return vendor | {SOURCE}


def _words(view: NodeView, spoken: frozenset[str]) -> frozenset[str]:
    """Return the dialects and the names of their resources on the node."""
    owned = [name for name in view.allocatable or view.capacity if owner_name(name) in spoken]
    return spoken | {name for name in owned if _amount(view, name, []) > 0}


def _mode(facts_by_source: Mapping[str, NodeFacts], vendor: frozenset[str]) -> Mode:
    modes = [facts_by_source[name].mode for name in (SOURCE, "aliyun") if name in facts_by_source and name in vendor]
    return next((mode for mode in modes if mode != "any"), "any")


def _devices(sources: Sequence[Source], words: frozenset[str], mode: Mode) -> tuple[tuple[Device, ...], str]:
    """Return the devices, with memory in the unit of the sharing mode."""
    devices = joined(sources)
    if mode == "share":
        return measured(devices, [source for source in sources if source.facts.source in SHARING])
    # Koordinator's asks count percents, whatever the devices are measured in.
    return in_percent(devices, sources) if devices and "koordinator" in words else measured(devices, sources)


def _compare(view: NodeView, listed: Sequence[Device], cordoned: Collection[str], problems: list[Problem]) -> None:
    """Compare the inventory with kubelet's count, which may include unhealthy and cordoned devices."""
    healthy = sum(device.healthy for device in listed)
    least = sum(device.healthy and device.id not in cordoned for device in listed)
    for resource in (view.allocatable or view.capacity) if listed else ():
        if not counts_whole_devices(resource):
            continue
        count = _amount(view, resource, problems)
        if count > 0 and not least <= count <= len(listed):
            counts = f"{count:g} are allocatable, but the {KIND} lists {len(listed)}, {healthy} of them healthy"
            sentence = f"{counts}; the {KIND} is used, check the agent and the device plugin"
            problems.append(Problem(where_node(view), resource, sentence))


def _alignment(
    view: NodeView, facts_by_source: Mapping[str, NodeFacts], raw: object, problems: list[Problem]
) -> NumaAlignment | None:
    """Return the Topology Manager as our agent read it, else as a NodeResourceTopology has it, with the latter's CPUs."""
    listed = facts_by_source[SOURCE].alignment if SOURCE in facts_by_source else None
    if raw is None:
        return listed
    found, wrong = topology_alignment(raw, view.name)
    problems += wrong
    if listed is None or found is None:
        return listed or found
    return replace(listed, cpus=found.cpus, total_cpus=found.total_cpus) if listed.static_cpus else listed


def _claimed_besides(
    view: NodeView,
    published: Sequence[ClaimableDevices],
    words: frozenset[str],
    devices: Sequence[Device],
    problems: list[Problem],
) -> int:
    """Return the number of devices that claims have and that the device plugin may allocate as well.

    kube-scheduler serves the resource by the device plugin then, and other claims get devices of the slices. Whether
    these are the same devices is known only if both sources report UUIDs.
    """
    known, count = {device.id for device in devices}, 0
    for each in published:
        named = len(each.uuids) == len(each.devices) and not any(name.startswith("#") for name in known)
        if each.resource not in words or (named and known.isdisjoint(each.uuids)):
            continue
        count += len(each.claims)
        sentence = (
            f"{len(each.devices)} devices are published in ResourceSlices as well; the device plugin serves this resource, "
            "and devices that ResourceClaims have count as used, because they may be the same"
        )
        problems.append(Problem(where_node(view), each.resource, sentence))
    return count


def _unidentified(sources: Sequence[Source], devices: Sequence[Device], missing: Collection[str]) -> int:
    """Return the number of unhealthy devices that are counted but not identified."""
    current = {source for source, kind in BY_DEVICE.items() if kind not in missing}
    if any(source.facts.devices for source in sources if source.facts.source in current):
        return 0
    counting = [source.facts for source in sources if source.facts.source not in BY_DEVICE]
    counted = max((int(facts.labels.get("unhealthy", "0")) for facts in counting), default=0)
    return max(0, counted - sum(not device.healthy for device in devices))


def _allocations(sources: Sequence[Source]) -> Mapping[str, tuple[str, ...]]:
    """Return the allocations of the first source that has any, with authoritative device ids."""
    for facts, twins in sources:
        if facts.allocations:
            ids = {twin.id: name for name, twin in twins.items()}
            return {pod: tuple(ids.get(name, name) for name in held) for pod, held in facts.allocations.items()}
    return {}


def _twins(devices: Sequence[Device], others: Sequence[Device]) -> dict[str, Device]:
    """Match the devices of another source by id, or else by number."""
    by_id = {other.id: other for other in others}
    if others is devices:
        return by_id
    ids = {device.id for device in devices}
    rest = [other for other in others if other.id not in ids]
    if rest and all(other.minor is None for other in rest):  # counted: nothing but the index can tell them apart
        by_index = {other.index: other for other in reversed(rest)}
        found = {device.id: by_id.get(device.id) or by_index.get(device.index) for device in devices}
        return {name: twin for name, twin in found.items() if twin is not None}
    found = {device.id: by_id.get(device.id) or _by_number(device, rest) for device in devices}
    return {name: twin for name, twin in found.items() if twin is not None}


def _by_number(device: Device, others: Iterable[Device]) -> Device | None:
    """Match by minor if both have it: one source's index may be another's minor."""
    for other in others:
        minors = device.minor, other.minor
        if minors[0] == minors[1] if None not in minors else device.index == other.index:
            return other
    return None


def _only_counts(source: Source) -> bool:
    """Return whether a source has only the number of devices, and at most their model."""
    return set(map(_FACTS, source.twins.values())) <= {_NO_FACTS}


def _filled(device: Device, node_facts: Sequence[Device]) -> Device:
    for twin in node_facts:
        if _counted(twin) and twin.healthy and twin.reachable and (device.model or not twin.model):
            continue
        device = Device(
            device.id,
            device.index,
            device.minor if device.minor is not None else twin.minor,
            device.numa if device.numa is not None else twin.numa,
            device.bus_id or twin.bus_id,
            device.model or twin.model,
            device.memory,
            device.healthy and twin.healthy,
            device.bytes or twin.bytes,
            device.reachable and twin.reachable,
            device.nodes or twin.nodes,
            device.nics or twin.nics,
            device.facts or twin.facts,
        )
    return device


def _counted(device: Device) -> bool:
    """Return whether a device has no facts but its model."""
    return device.minor is None and device.numa is None and not device.bus_id and not device.bytes


def _twins_of(device: Device, sources: Iterable[Source]) -> list[Device]:
    return [source.twins[device.id] for source in sources if device.id in source.twins]


def _with_memory(device: Device, sources: Iterable[Source]) -> Device:
    """Return the device with the memory of the first source that has it."""
    memory = 0
    for source in sources:
        twin = source.twins.get(device.id)
        if twin is not None and twin.memory:
            memory = twin.memory
            break
    return device if device.memory == memory else replace(device, memory=memory)


def _first(empty: T, values: Iterable[T]) -> T:
    """Return the first value that is set."""
    return next((value for value in values if value != empty), empty)


def _sizes(device: Device, sources: Iterable[Source]) -> Iterable[int]:
    return (
        source.twins[device.id].memory * BYTES[source.facts.unit]
        for source in sources
        if source.facts.unit in BYTES and device.id in source.twins
    )


def _named(topology: Topology, devices: Sequence[Device]) -> Topology:
    """Name the rows by the devices in index order, if the topology uses none of their names."""
    names = set(topology.devices)
    known = any(device.id in names or f"#{device.index}" in names for device in devices)
    return topology if known else replace(topology, devices=tuple(device.id for device in devices))


def _as_many(facts: NodeFacts, devices: Sequence[Device], view: NodeView, problems: list[Problem]) -> bool:
    rows = len(facts.topology.devices) if facts.topology else 0
    if rows != len(devices):
        covered = f"link data covers {rows} devices, but the node has {len(devices)}"
        sentence = f"{covered}; it is ignored, {link_data_help(view.name)}"
        problems.append(Problem(where_node(view), KEYS.get(facts.source, facts.source), sentence))
    return rows == len(devices)


def _combined(links: Topology, bandwidth: Topology, devices: Sequence[Device]) -> Topology | None:
    """Return the rows in index order; None if a device is missing."""
    first, second = (
        [place for place in _places(topology, devices) if place is not None] for topology in (links, bandwidth)
    )
    if any(sorted(places) != list(range(len(devices))) for places in (first, second)):
        return None
    rings, places = (links.rings, first) if links.rings else (bandwidth.rings, second)
    return Topology(
        tuple(device.id for device in devices),
        _reordered(links.links, first),
        _reordered(bandwidth.bandwidth, second),
        tuple(tuple(places.index(position) for position in ring) for ring in rings),
        tuple(dict.fromkeys((*links.problems, *bandwidth.problems))),
        tuple(dict.fromkeys((*links.warnings, *bandwidth.warnings))),
    )


def _places(topology: Topology, devices: Sequence[Device]) -> list[int | None]:
    known = {name: position for position, name in enumerate(topology.devices)}
    return [known.get(device.id, known.get(f"#{device.index}")) for device in devices]


def _reordered(rows: tuple[tuple[T, ...], ...], places: Sequence[int]) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(rows[i][j] for j in places) for i in places)

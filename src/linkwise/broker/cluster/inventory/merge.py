"""Inventory of a node, merged from all dialects.

Order of precedence: our own inventory, then Koordinator's Device object, then lists of other systems, then counts.
Disagreements are reported as problems, never guessed away.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.inventory.devices import in_percent, joined, matched, measured
from linkwise.broker.cluster.inventory.health import cordoned_by, faults_of, without_cordoned
from linkwise.broker.cluster.inventory.topology import topology_of
from linkwise.dialects.dialect import where_node
from linkwise.dialects.dra.objects import by_claim
from linkwise.dialects.linkwise.inventory import KIND, SOURCE, inventory_enforced
from linkwise.dialects.node_resource_topology import KIND as TOPOLOGY_KIND, topology_alignment
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
from linkwise.model.inventory import NodeFacts, NodeInventory
from linkwise.model.requirement import FACTS
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from linkwise.broker.cluster.inventory.devices import Source
    from linkwise.broker.cluster.node_objects import MissingInventory
    from linkwise.model.device import Device
    from linkwise.model.inventory import ClaimableDevices
    from linkwise.model.node import Mode
    from linkwise.model.numa import NumaAlignment
    from linkwise.model.views import NodeView

__all__ = ["kind_of", "merge_inventory", "merge_or_report"]

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


def merge_inventory(
    view: NodeView,
    objects: Mapping[str, Mapping[str, object]],
    claimable: Sequence[ClaimableDevices] = (),
    missing: Mapping[str, MissingInventory] = _NONE,
) -> NodeInventory:
    """Merge the inventory of a node from its own fields, its objects, and the devices that ResourceClaims allocate.

    The objects in `missing` were deleted.
    """
    facts_by_source = _read_facts(view, objects)
    problems = [problem for facts in facts_by_source.values() for problem in facts.problems]
    problems += [problem for each in claimable for problem in each.problems]
    problems += [Problem(where_node(view), key, _missing_text(lost)) for key, lost in missing.items()]
    spoken = _spoken(view, facts_by_source, problems)
    published = [each for each in claimable if each.devices]
    if published and not spoken:
        return _by_claims(view, facts_by_source, published, problems)
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
) -> NodeInventory:
    """Merge an inventory; on a bug, return an empty one with a problem: one node must not stop all others."""
    try:
        return merge_inventory(view, objects, claimable, missing)
    except Exception as error:  # noqa: BLE001 - any bug
        wrong = f"the inventory can't be computed, which is a bug in Linkwise: {type(error).__name__}: {error}"
        return NodeInventory(view.name, problems=(Problem(where_node(view), "devices", wrong),))


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


def kind_of(inventory: NodeInventory) -> tuple[object, ...]:
    """Return what decides whether a node serves a request, apart from free devices."""
    devices = tuple(map(_REQUIRED, inventory.devices))
    facts = inventory.facts, inventory.steered, devices
    return inventory.words, inventory.profile, inventory.topology, inventory.by_claims, inventory.alignment, facts


def _by_claims(
    view: NodeView,
    facts_by_source: Mapping[str, NodeFacts],
    published: Sequence[ClaimableDevices],
    problems: list[Problem],
) -> NodeInventory:
    """Return the inventory of a node without a device plugin, whose devices are allocated by ResourceClaims.

    Links are left out: kube-scheduler takes the first devices that fit, so that only their number can be relied on.
    """
    served, *others = published
    cordoned_by(view, served.devices, problems, by_claims=True)
    labels = {word: text for facts in facts_by_source.values() for word, text in facts.labels.items()}
    for other in others:
        sentence = f"the node has {served.resource} as well, and only that is served; use one vendor per node"
        problems.append(Problem(where_node(view), other.resource, sentence))
    return NodeInventory(
        name=view.name,
        devices=served.devices,
        mode="whole",
        words=frozenset({owner_name(served.resource), served.resource, by_claim(served.resource)}),
        allocations=served.allocations,
        claims=served.claims,
        labels=labels,
        problems=tuple(dict.fromkeys(problems)),
        faults=faults_of(served.devices, None),
        facts=_facts(labels, facts_by_source, vendor_group(owner_name(served.resource))),
        steered=False,
    )


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


def _read_facts(view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> dict[str, NodeFacts]:
    """Return the facts of each dialect, in order of precedence."""
    keys = (*view.capacity, *view.allocatable, *view.labels, *view.annotations, *objects)
    facts = [dialect.node(view, objects) for dialect in dialects_of_node(keys)]
    return {each.source: each for each in facts if each is not None}


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


def _words(view: NodeView, spoken: frozenset[str]) -> frozenset[str]:
    """Return the dialects and the names of their resources on the node."""
    owned = [name for name in view.allocatable or view.capacity if owner_name(name) in spoken]
    return spoken | {name for name in owned if _amount(view, name, []) > 0}


def _amount(view: NodeView, resource: str, problems: list[Problem]) -> Decimal:
    try:
        return quantity((view.allocatable or view.capacity).get(resource, "0"))
    except InputError as error:
        problems.append(Problem(where_node(view), resource, f"{error}; check the device plugin of this node"))
        return Decimal(0)


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


def _missing_text(lost: MissingInventory) -> str:
    time = "" if lost.since is None else f" since {_EPOCH + timedelta(seconds=min(lost.since, _LATEST)):{_TIME}}"
    return f"missing{time}; the devices last reported are used for a grace period"


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

"""Devices of one node, merged from several sources: identity, health and memory."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from linkwise.model.device import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.inventory import NodeFacts

__all__ = ["Source", "in_percent", "joined", "matched", "measured"]

T = TypeVar("T")

PERCENT: Final = "%"
WHOLE: Final = 100  # percent
BYTES: Final = {"MiB": 2**20, "GiB": 2**30}
_INDEX: Final = attrgetter("index")
_MODEL: Final = attrgetter("model")
_MEMORY: Final = attrgetter("memory")
_FACTS: Final = attrgetter("minor", "numa", "bus_id", "bytes", "healthy", "reachable")
_NO_FACTS: Final = (None, None, "", 0, True, True)


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


def _with_memory(device: Device, sources: Iterable[Source]) -> Device:
    """Return the device with the memory of the first source that has it."""
    memory = 0
    for source in sources:
        twin = source.twins.get(device.id)
        if twin is not None and twin.memory:
            memory = twin.memory
            break
    return device if device.memory == memory else replace(device, memory=memory)


def _twins_of(device: Device, sources: Iterable[Source]) -> list[Device]:
    return [source.twins[device.id] for source in sources if device.id in source.twins]


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


def _only_counts(source: Source) -> bool:
    """Return whether a source has only the number of devices, and at most their model."""
    return set(map(_FACTS, source.twins.values())) <= {_NO_FACTS}


def _counted(device: Device) -> bool:
    """Return whether a device has no facts but its model."""
    return device.minor is None and device.numa is None and not device.bus_id and not device.bytes


def _sizes(device: Device, sources: Iterable[Source]) -> Iterable[int]:
    return (
        source.twins[device.id].memory * BYTES[source.facts.unit]
        for source in sources
        if source.facts.unit in BYTES and device.id in source.twins
    )


def _first(empty: T, values: Iterable[T]) -> T:
    """Return the first value that is set."""
    return next((value for value in values if value != empty), empty)

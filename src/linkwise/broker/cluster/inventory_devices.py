"""One node's devices, of which several sources tell: who they are, whether they work, and how much memory each has."""

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
_FACTS: Final = attrgetter("minor", "numa", "bus_id", "bytes", "healthy")
_NO_FACTS: Final = (None, None, "", 0, True)


class Source(NamedTuple):
    """What one source tells of the node."""

    facts: NodeFacts
    twins: Mapping[str, Device]
    """its devices, by the ids of those that are believed"""


def matched(told: Sequence[NodeFacts]) -> tuple[Source, ...]:
    """The sources, with the devices of the first that lists any as those that are believed."""
    devices = next((facts.devices for facts in told if facts.devices), ())
    return tuple(Source(facts, _twins(devices, facts.devices)) for facts in told)


def joined(sources: Sequence[Source]) -> tuple[Device, ...]:
    """The devices in index order, with what others tell where the first is silent; memory is left as it is."""
    first = next((source for source in sources if source.twins), None)
    if first is None:
        return ()
    devices = first.facts.devices
    named = all(map(_MODEL, devices))
    others = [source for source in sources if source is not first and not (named and _only_counts(source))]
    found = [_filled(device, _told_of(device, others)) for device in devices] if others else devices
    return tuple(sorted(found, key=_INDEX))


def measured(devices: Sequence[Device], sources: Sequence[Source]) -> tuple[tuple[Device, ...], str]:
    """The devices with memory of the first source that tells any, and its unit; nobody else's unit is mixed in."""
    telling = [source.facts.unit for source in sources if any(twin.memory for twin in source.twins.values())]
    units = telling or [source.facts.unit for source in sources if source.facts.unit]
    same = [source for source in sources if source.facts.unit == units[0]] if units else []
    if same and same[0].facts.devices == devices and all(map(_MEMORY, devices)):
        return tuple(devices), units[0]  # as it was told: the usual case, in a fraction of the time
    return tuple([_with_memory(device, same) for device in devices]), units[0] if units else ""


def in_percent(devices: Sequence[Device], sources: Sequence[Source]) -> tuple[tuple[Device, ...], str]:
    """The devices with memory in percent, and their bytes beside it, by whatever unit these are told in."""
    percents = [source for source in sources if source.facts.unit == PERCENT]
    return tuple(
        replace(
            device,
            memory=_first(0, (twin.memory for twin in _told_of(device, percents))) or WHOLE,
            bytes=device.bytes or _first(0, _sizes(device, sources)),
        )
        for device in devices
    ), PERCENT


def _twins(devices: Sequence[Device], others: Sequence[Device]) -> dict[str, Device]:
    """The same devices as another source knows them: by id, or else by the number of a device that is nobody's else."""
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
    """By minor where both tell it: one source's index may be another's minor."""
    for other in others:
        minors = device.minor, other.minor
        if minors[0] == minors[1] if None not in minors else device.index == other.index:
            return other
    return None


def _with_memory(device: Device, sources: Iterable[Source]) -> Device:
    """Its memory by the first of the sources that tells any."""
    memory = 0
    for source in sources:
        twin = source.twins.get(device.id)
        if twin is not None and twin.memory:
            memory = twin.memory
            break
    return device if device.memory == memory else replace(device, memory=memory)


def _told_of(device: Device, sources: Iterable[Source]) -> list[Device]:
    return [source.twins[device.id] for source in sources if device.id in source.twins]


def _filled(device: Device, told: Sequence[Device]) -> Device:
    for twin in told:
        if _counted(twin) and twin.healthy and (device.model or not twin.model):
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
        )
    return device


def _only_counts(source: Source) -> bool:
    """Whether a source tells nothing but that there are devices, and at most their model."""
    return set(map(_FACTS, source.twins.values())) <= {_NO_FACTS}


def _counted(device: Device) -> bool:
    """Whether only that there is such a device is told, and at most its model."""
    return device.minor is None and device.numa is None and not device.bus_id and not device.bytes


def _sizes(device: Device, sources: Iterable[Source]) -> Iterable[int]:
    return (
        source.twins[device.id].memory * BYTES[source.facts.unit]
        for source in sources
        if source.facts.unit in BYTES and device.id in source.twins
    )


def _first(empty: T, values: Iterable[T]) -> T:
    """The first that is told."""
    return next((value for value in values if value != empty), empty)

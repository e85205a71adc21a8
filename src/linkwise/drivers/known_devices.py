"""Known devices: those that earlier discoveries found, so that a lost device turns unhealthy instead of vanishing.

    read before, read now         as read now; facts that can't be read now keep their last value
    read before, not now          unhealthy, with its last facts, index and links
    not read before, read now     new; it replaces a device that was at its bus id
    never read                    left out, with a sentence

A device keeps its index while the process runs: records on pods may refer to it, and when the driver no longer lists a
device, it renumbers those behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkwise.drivers.host_files import pci_address
from linkwise.model.link import SELF, UNKNOWN_LINK, Link
from linkwise.model.topology import MAX_DEVICES, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.device import Device
    from linkwise.model.inventory import Discovery

__all__ = ["KnownDevices", "Unreadable"]

Pair = tuple[str, str]
"""the ids of two devices, from and to"""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A device that is there but can't be identified."""

    index: int
    """as the driver numbers it now"""
    why: str
    bus_id: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    device: Device
    reported: int
    """the index by which the driver reported it last"""


class KnownDevices:
    """Memory of one driver; `complete` adds to a discovery what it lacks."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._links: dict[Pair, Link] = {}

    def at_bus(self, unreadable: Unreadable) -> str:
        """The bus id of a device that can't be read: its own, or that of the device known by its index."""
        known = (known for known in self._known.values() if known.reported == unreadable.index)
        return unreadable.bus_id or next((each.device.bus_id for each in known), "")

    def complete(self, discovery: Discovery, unreadable: Iterable[Unreadable] = ()) -> Discovery:
        """The discovery with every known device, in index order; problems name devices that were never read."""
        problems = [*discovery.problems]
        problems += self._forget_replaced(discovery.devices)
        seen = {device.id for device in discovery.devices}
        lost, unknown = self._match(unreadable, seen)
        problems += unknown
        missing = [known.device for id_, known in self._known.items() if id_ not in seen]
        faults = dict(discovery.faults)
        for device in missing:
            why = lost.get(device.id, "the driver no longer reports it")
            faults[device.id] = f"device {device.index} is lost: {why}"
        devices = [self._remembered(device) for device in discovery.devices]
        devices = _numbered(devices, {id_: known.device.index for id_, known in self._known.items()})
        reported = {device.id: device.index for device in discovery.devices}
        every = sorted([*devices, *(replace(device, healthy=False) for device in missing)], key=lambda each: each.index)
        if len(every) > MAX_DEVICES:
            problems.append(f"{len(every)} devices are known, the first {MAX_DEVICES} are used")
            every = every[:MAX_DEVICES]
        topology = self._topology(discovery.topology, every)
        self._known = {
            device.id: _Known(device, reported[device.id] if device.id in reported else self._known[device.id].reported)
            for device in every
        }
        ids = {device.id for device in every}
        return replace(
            discovery,
            devices=tuple(every),
            topology=topology,
            faults={id_: why for id_, why in faults.items() if id_ in ids},
            problems=tuple(problems),
        )

    def _forget_replaced(self, devices: Iterable[Device]) -> list[str]:
        """Forget devices in whose place there is another one now."""
        by_bus = {pci_address(device.bus_id): device for device in devices if device.id not in self._known}
        present = {device.id for device in devices}
        sentences = []
        for id_, known in list(self._known.items()):
            address = pci_address(known.device.bus_id)
            if id_ not in present and address and address in by_bus:
                del self._known[id_]
                sentences.append(f"device {id_} at {address} was replaced by {by_bus[address].id}")
        return sentences

    def _match(self, unreadable: Iterable[Unreadable], seen: set[str]) -> tuple[dict[str, str], list[str]]:
        """Why known devices are lost, by id, and sentences for devices that are not known."""
        lost: dict[str, str] = {}
        unknown: list[str] = []
        missing = {id_: known for id_, known in self._known.items() if id_ not in seen}
        for each in unreadable:
            if id_ := next((id_ for id_, known in missing.items() if id_ not in lost and _is(known, each)), ""):
                lost[id_] = each.why
            else:
                unknown.append(f"device {each.index} is left out: {each.why}")
        return lost, unknown

    def _remembered(self, device: Device) -> Device:
        """The device with the last value of every fact that can't be read now."""
        if device.id not in self._known:
            return device
        last = self._known[device.id].device
        return replace(
            device,
            minor=last.minor if device.minor is None else device.minor,
            numa=last.numa if device.numa is None else device.numa,
            bus_id=device.bus_id or last.bus_id,
            model=device.model or last.model,
            memory=device.memory or last.memory,
            bytes=device.bytes or last.bytes,
            nodes=device.nodes or last.nodes,
            nics=device.nics or last.nics,
            facts=device.facts or last.facts,
        )

    def _topology(self, topology: Topology | None, devices: list[Device]) -> Topology | None:
        """The topology of all devices; pairs with a device that can't be read now keep their last link.

        Without a link matrix, all pairs do. Measured bandwidth is added later, to the devices of the result.
        """
        ids = tuple(device.id for device in devices)
        now = _links(topology) if topology else {}
        readable = {device.id for device in devices if device.healthy} if now else set[str]()
        last = {pair: link for pair, link in self._links.items() if not readable.issuperset(pair)}
        links = {(a, b): last.get((a, b), now.get((a, b), UNKNOWN_LINK)) for a in ids for b in ids if a != b}
        self._links = {pair: link for pair, link in links.items() if link != UNKNOWN_LINK}
        if topology is None and not self._links:
            return None
        topology = topology or Topology(ids)
        known = topology.links or self._links
        rows = tuple(tuple(SELF if a == b else links[a, b] for b in ids) for a in ids) if known else ()
        places = {id_: place for place, id_ in enumerate(ids)}
        rings = (
            [places[topology.devices[old]] for old in ring if topology.devices[old] in places]
            for ring in topology.rings
        )
        return replace(topology, devices=ids, links=rows, rings=tuple(tuple(sorted(ring)) for ring in rings))


def _is(known: _Known, unreadable: Unreadable) -> bool:
    """Whether a device that can't be read is the known one: by bus id if both have one, otherwise by index."""
    own, other = pci_address(known.device.bus_id), pci_address(unreadable.bus_id)
    return own == other if own and other else known.reported == unreadable.index


def _links(topology: Topology) -> dict[Pair, Link]:
    return {
        (a, b): link
        for a, row in zip(topology.devices, topology.links, strict=False)
        for b, link in zip(topology.devices, row, strict=True)
        if a != b
    }


def _numbered(devices: list[Device], indices: Mapping[str, int]) -> list[Device]:
    """Devices with the index by which they are known; new ones with their own, or a free one if it is taken."""
    taken = set(indices.values())
    numbered = []
    for device in devices:
        index = indices.get(device.id, device.index)
        if device.id not in indices:
            free = (number for number in range(len(taken) + 1) if number not in taken)
            index = next(free) if index in taken else index
            taken.add(index)
        numbered.append(replace(device, index=index))
    return numbered

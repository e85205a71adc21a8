"""Pool of a node: what the agent's DRA driver publishes of its devices, as the contents of ResourceSlices.

Each device is there on its own, and in the sets that are worth allocating together. One counter per device keeps the two
apart: a set consumes the counters of its members, so a device is never allocated twice. Counters have a slice of their own,
and so have devices and the sets of each size, in which in-tree allocation tries them in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.dialects.kubernetes.claims.driver import (
    MOST_ATTRIBUTES,
    MOST_COUNTERS,
    MOST_DEVICES,
    DeviceTaint,
    PublishedDevice,
    counters_part,
    devices_part,
    pci_address,
)
from linkwise.dialects.linkwise.cordon import cordoned_devices
from linkwise.node.dra.sets import SET_NAMES, good_sets, pair_values
from linkwise.node.publishing import label_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.dialects.kubernetes.claims.driver import Part, Value
    from linkwise.model.device import Device
    from linkwise.model.inventory import Discovery
    from linkwise.node.dra.sets import DeviceSet

__all__ = ["CORDONED", "UNHEALTHY", "Pool", "pool_of"]

UNHEALTHY: Final = "linkwise.dev/unhealthy"
"""key of the taint of a device with a fault, and of the sets that it is in"""
CORDONED: Final = "linkwise.dev/cordoned"
"""key of the taint of a device that an administrator cordoned"""
MEGABYTES: Final = 1000  # MB in a GB, as bandwidths are measured


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of a node by their names in its pool."""

    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """ids of the devices, by the name of a device or a set"""
    faults: Mapping[str, str] = field(default_factory=dict)
    """why a device or a set can't be used, by its name; cordoned ones can"""
    parts: tuple[Part, ...] = ()
    """the contents of its slices"""
    plain: tuple[Part, ...] = ()
    """likewise for API servers that drop counters or taints: without sets, and without devices that would have a taint"""


def pool_of(found: Discovery, cordons: Mapping[str, str]) -> Pool:
    """The pool of a node with these devices; `cordons` are reasons of cordoned devices, by id or `#` and index."""
    devices = found.devices[:MOST_DEVICES]
    if not devices:
        return Pool()
    cordons = cordoned_devices(devices, cordons)
    listed = {device.id for device in devices}
    sets = [one for one in good_sets(found) if all(device.id in listed for device in one.devices)]
    counters = {device.id: _counter(number) for number, device in enumerate(devices)}
    bandwidths = _bandwidths(found)
    singles = [_single(device, found, cordons, counters, bandwidths) for device in devices]
    by_size = [
        [_of_set(one, found, cordons, counters) for one in sets if len(one.devices) == size] for size in SET_NAMES
    ]
    named: dict[str, tuple[str, ...]] = {_name(device): (device.id,) for device in devices}
    named |= {one.name: tuple(device.id for device in one.devices) for one in sets}
    broken = {device.id: _fault(device, found) for device in devices if not device.healthy}
    faults = {
        name: "; ".join(broken[one] for one in ids if one in broken)
        for name, ids in named.items()
        if not broken.keys().isdisjoint(ids)
    }
    plain = [PublishedDevice(one.name, one.attributes, one.memory) for one in singles if not one.taints]
    return Pool(
        named,
        faults,
        (_counter_sets(counters.values()), devices_part(singles), *(devices_part(some) for some in by_size if some)),
        (devices_part(plain),) if plain else (),
    )


def _name(device: Device) -> str:
    return f"gpu-{device.index}"


def _counter(number: int) -> tuple[str, str]:
    return f"devices-{number // MOST_COUNTERS}", f"device-{number}"


def _counter_sets(counters: Iterable[tuple[str, str]]) -> Part:
    sets: dict[str, list[str]] = {}
    for name, counter in counters:
        sets.setdefault(name, []).append(counter)
    return counters_part(sets)


def _bandwidths(found: Discovery) -> Mapping[str, Mapping[int, float]]:
    """GB/s by the id of a device and the index of another one."""
    devices, values = pair_values(found)
    return {
        device.id: {other.index: values[i][j] for j, other in enumerate(devices) if i != j and values[i][j] > 0}
        for i, device in enumerate(devices)
    }


def _single(
    device: Device,
    found: Discovery,
    cordons: Mapping[str, str],
    counters: Mapping[str, tuple[str, str]],
    bandwidths: Mapping[str, Mapping[int, float]],
) -> PublishedDevice:
    attributes: dict[str, Value] = {"type": "device", "size": 1, **_common((device,), found), "index": device.index}
    if not device.id.startswith("#"):
        attributes["uuid"] = device.id
    if device.minor is not None:
        attributes["minor"] = device.minor
    links = {f"bandwidthTo{other}": round(value * MEGABYTES) for other, value in bandwidths.get(device.id, {}).items()}
    kinds = _link_kinds(device, found)
    bus_id = {"resource.kubernetes.io/pciBusID": pci_address(device.bus_id)} if pci_address(device.bus_id) else {}
    for more in (bus_id, links, kinds):  # with many devices not all of them fit
        if len(attributes) + len(more) < MOST_ATTRIBUTES:
            attributes |= more
    return PublishedDevice(
        _name(device), attributes, device.memory, (counters[device.id],), _taints((device,), found, cordons)
    )


def _of_set(
    one: DeviceSet, found: Discovery, cordons: Mapping[str, str], counters: Mapping[str, tuple[str, str]]
) -> PublishedDevice:
    attributes: dict[str, Value] = {
        "type": SET_NAMES[len(one.devices)],
        "size": len(one.devices),
        **_common(one.devices, found),
        "devices": ",".join(str(device.index) for device in one.devices),
        "bandwidth": round(one.bandwidth * MEGABYTES),
        **{f"uuid{n}": device.id for n, device in enumerate(one.devices) if not device.id.startswith("#")},
    }
    return PublishedDevice(
        one.name,
        attributes,
        sum(device.memory for device in one.devices),
        tuple(counters[device.id] for device in one.devices),
        _taints(one.devices, found, cordons),
    )


def _common(devices: Sequence[Device], found: Discovery) -> dict[str, Value]:
    """Attributes that all of the devices have alike."""
    attributes: dict[str, Value] = {"vendor": found.vendor}
    models, nodes = {device.model for device in devices}, {device.numa for device in devices}
    if len(models) == 1 and (model := models.pop()):
        attributes["productName"] = model
    if len(nodes) == 1 and (numa := nodes.pop()) is not None:
        attributes["numaNode"] = numa
    return attributes


def _link_kinds(device: Device, found: Discovery) -> dict[str, Value]:
    """The kinds of the links to other devices, by their index."""
    topology = found.topology
    if topology is None or not topology.links or device.id not in topology.devices:
        return {}
    indices = {one.id: one.index for one in found.devices}
    row = topology.links[topology.devices.index(device.id)]
    return {
        f"linkTo{indices[other]}": str(link)
        for other, link in zip(topology.devices, row, strict=True)
        if other != device.id and other in indices and (link.direct or link.pcie)
    }


def _taints(devices: Sequence[Device], found: Discovery, cordons: Mapping[str, str]) -> tuple[DeviceTaint, ...]:
    """Taints for the first fault and the first cordon of the devices: pods that have the devices keep them."""
    faults = [_fault(device, found) for device in devices if not device.healthy]
    held = [cordons[device.id] for device in devices if device.id in cordons]
    taints = [DeviceTaint(UNHEALTHY, label_value(faults[0]))] if faults else []
    return (*taints, DeviceTaint(CORDONED, label_value(held[0]))) if held else tuple(taints)


def _fault(device: Device, found: Discovery) -> str:
    return found.faults.get(device.id, "") or f"device {device.index} is unhealthy"

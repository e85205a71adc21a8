"""Sets of devices worth allocating together: pairs and fours within 5% of the best bottleneck, the best first.

In-tree allocation takes the first device that fits, so the order is the choice. Of sets that are equal by their links, the
first one is that which leaves the most good sets to other pods, then one on fewer NUMA nodes, then neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import TYPE_CHECKING, Final

from linkwise.topology.bottleneck import near_ties
from linkwise.topology.device_sets import Question, mask_of, positions
from linkwise.topology.fabric import NEAR, fabric_of
from linkwise.topology.machine import LARGEST_EXACT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.device import Device
    from linkwise.model.inventory import Discovery
    from linkwise.model.topology import Matrix
    from linkwise.topology.fabric import Fabric

__all__ = ["SET_NAMES", "DeviceSet", "good_sets", "pair_values"]

SET_NAMES: Final[Mapping[int, str]] = {2: "pair", 4: "four"}
"""by the number of devices"""
MOST_SETS: Final = 64
"""of one size; as many as a slice has devices, because only within a slice they are tried in their order"""


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """Devices that a claim gets together."""

    devices: tuple[Device, ...]
    """in index order"""
    bandwidth: float  # GB/s, of its slowest pair

    @property
    def name(self) -> str:
        """Its name in the pool: `pair-2-3`."""
        return "-".join((SET_NAMES[len(self.devices)], *(str(device.index) for device in self.devices)))


def pair_values(found: Discovery) -> tuple[tuple[Device, ...], Matrix]:
    """The devices of the topology and the bandwidth of their pairs in GB/s, measured or by link kind; empty if unknown."""
    topology = found.topology
    if topology is None or not (topology.links or topology.bandwidth):
        return (), ()
    known = {device.id: device for device in found.devices}
    if len(known) != len(found.devices) or any(one not in known for one in topology.devices):
        return (), ()
    return tuple(known[one] for one in topology.devices), fabric_of(topology.bandwidth, topology.links).values


def good_sets(found: Discovery) -> tuple[DeviceSet, ...]:
    """The sets of each size, the best first; none without link data. Health changes none of them."""
    devices, values = pair_values(found)
    if not devices:
        return ()
    fabric = fabric_of(values)
    sets: list[DeviceSet] = []
    for size in SET_NAMES:
        if size <= len(devices):
            sets += [_set(devices, fabric, mask) for mask in _best_first(fabric, devices, size)[:MOST_SETS]]
    return tuple(sets)


def _best_first(fabric: Fabric, devices: tuple[Device, ...], size: int) -> list[int]:
    if len(devices) > LARGEST_EXACT:
        if size != min(SET_NAMES):
            return []  # too many to compare
        pairs = {mask_of(pair): fabric.values[pair[0]][pair[1]] for pair in combinations(range(len(devices)), 2)}
        best = max(pairs.values())
        return sorted((mask for mask, value in pairs.items() if value >= NEAR * best > 0), key=_neighbours(devices))
    everything = (1 << len(devices)) - 1
    chosen = [mask for mask in near_ties(fabric, Question(everything, 0, size)) if fabric.bottleneck(mask) > 0]
    near = _neighbours(devices)
    # rule 001.near-ties: sets within 5% are equal; what they leave decides.
    return sorted(chosen, key=lambda mask: (tuple(-left for left in fabric.left(everything ^ mask)), near(mask)))


def _neighbours(devices: tuple[Device, ...]) -> Callable[[int], tuple[int, int, tuple[int, ...]]]:
    """The order of sets that are equal by their links: on fewer NUMA nodes first, then closer neighbours."""

    def key(mask: int) -> tuple[int, int, tuple[int, ...]]:
        indices = tuple(devices[place].index for place in positions(mask))
        return len({devices[place].numa for place in positions(mask)}), max(indices) - min(indices), indices

    return key


def _set(devices: tuple[Device, ...], fabric: Fabric, mask: int) -> DeviceSet:
    members = sorted((devices[place] for place in positions(mask)), key=lambda device: device.index)
    value = fabric.bottleneck(mask)
    return DeviceSet(tuple(members), value if isfinite(value) else 0.0)

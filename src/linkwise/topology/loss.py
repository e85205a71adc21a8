"""Loss: the GB/s of the good sets of 16, 8, 4 and 2 free devices that other pods lose if devices are taken.

A set is worth the sum of its pairs, by link kind or by class of measured bandwidths, so losses compare between machines:
a device of a PCIe machine costs other pods less than one of an NVLink machine, a device without a good partner less than
half a pair, and a device of a machine in use less than the first one of an empty machine. Without link data small sets
are worth nothing, because any others serve as well; sets of 8 and 16 are worth next to nothing, but they count, because
they are often a whole machine. A machine with too many devices for an exact search has nothing measurable to lose.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from linkwise.speed.caches import cached_by_identity
from linkwise.topology.canonical import canonical_of
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix, Topology

__all__ = ["by_least_loss", "least_lost", "loss", "losses", "position_losses"]

TYPES: Final = 32
"""types of machines that are found without hashing their matrix"""


def loss(node: Node, devices: Iterable[str]) -> tuple[int, ...]:
    """The loss of other pods if some of the node's free devices are taken, per size, the largest first."""
    values, places = _links_of(node)
    free = mask_of(places[device.id] for device in node.free() if device.id in places)
    return _fabric_of(values).lost(free, mask_of(places[device] for device in devices if device in places))


def losses(node: Node) -> dict[str, tuple[int, ...]]:
    """The loss of other pods for each of the node's free devices."""
    values, places = _links_of(node)
    free = {places[device.id]: device.id for device in node.free() if device.id in places}
    return {free[place]: lost for place, lost in _fabric_of(values).losses(mask_of(free)).items()}


def least_lost(topology: Topology, scores: Matrix, free: Collection[int]) -> int:
    """The free device that a request for one takes."""
    # rule 000.one, 002.pack: the least loss of good sets, then the smallest sum of link scores to the other free devices.
    lost = position_losses(topology, free)
    least = min(lost.values())
    equals = [one for one in sorted(free) if lost[one] == least]
    if len(equals) == 1:
        return equals[0]
    return min(equals, key=lambda one: sum([scores[one][other] for other in free if other != one]))


def by_least_loss(topology: Topology, scores: Matrix, free: Collection[int]) -> list[int]:
    """The free devices in the order in which `least_lost` prefers them."""
    lost = position_losses(topology, free)
    links = {one: sum([scores[one][other] for other in free if other != one]) for one in free}
    return sorted(free, key=lambda one: (lost[one], links[one], one))


def position_losses(topology: Topology, free: Collection[int]) -> Mapping[int, tuple[int, ...]]:
    """The loss of other pods for each of the free positions of a machine."""
    return _fabric_of(canonical_of(topology)).losses(mask_of(free))


def _links_of(node: Node) -> tuple[Matrix, dict[str, int]]:
    """The values of all pairs, and the position of every device that they tell of."""
    values = canonical_of(node.topology) if node.topology is not None else ()
    if values:
        return values, node.positions()
    return _unknown(len(node.devices)), {device.id: place for place, device in enumerate(node.devices)}


_fabric_of: Final = cached_by_identity(fabric_of, TYPES)


@cache
def _unknown(count: int) -> Matrix:
    return ((0.0,) * count,) * count

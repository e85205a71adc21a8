"""What would make room for an ask that no node can take: pods that end, a smaller ask. Worked out, never guessed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from linkwise.engine.index.node_index import Wanted
    from linkwise.model.ask import Ask
    from linkwise.model.node import Node

__all__ = ["Crowd", "largest_room", "room_makers", "smaller"]

MOST_TOGETHER: Final = 3
"""pods that are looked at together: nobody waits for more than so many to end by chance"""
MOST_PODS: Final = 12
"""of a crowd, those likeliest to end"""
STEPS: Final = 600
"""sets of pods tried"""
ENOUGH: Final = 8
"""nodes on which so many pods are enough: further ones are not looked at"""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Pods of one node whose ends could make room there together."""

    node: str
    pods: tuple[str, ...]
    """the likeliest to end first"""
    lack: int = 0
    """how much must come free at least"""
    freed: Mapping[str, int] = field(default_factory=dict)
    """how much comes free with each pod, in the same unit"""

    def sets(self, size: int) -> Iterator[tuple[str, ...]]:
        """Sets of so many pods that may be enough."""
        for pods in combinations(self.pods[:MOST_PODS], size):
            if sum(self.freed.get(pod, 0) for pod in pods) >= self.lack:
                yield pods


def room_makers(
    crowds: Sequence[Crowd], fits: Callable[[str, tuple[str, ...]], bool], steps: int = STEPS
) -> list[tuple[str, tuple[str, ...]]]:
    """The nodes with the fewest pods that have to end there, all sets of that size that were found in so many steps."""
    for size in range(1, MOST_TOGETHER + 1):
        found: list[tuple[str, tuple[str, ...]]] = []
        for crowd in crowds:
            if len({node for node, _ in found} - {crowd.node}) >= ENOUGH:
                break
            for pods in crowd.sets(size):
                steps -= 1
                if steps < 0:
                    return found
                if fits(crowd.node, pods):
                    found.append((crowd.node, pods))
        if found:
            return found
    return []


def smaller(ask: Ask, *, devices: int = 0, share: int = 0) -> Ask:
    """The same ask for less; all of it by the first container."""
    first = replace(ask.containers[0], devices=devices, share=share, core=ask.core)
    return replace(ask, containers=(first,), required=())


def largest_room(wanted: Wanted, node: Node) -> tuple[int, int]:
    """The most of one device that the ask's owner could have of a node now, and that device's index; 0 if nothing."""
    rooms = node.room()
    for device in sorted(node.healthy(), key=lambda device: (-rooms[device.id], device.index)):
        room = rooms[device.id]
        share = room * device.bytes // device.memory if wanted.ask.in_bytes and device.memory else room
        offer = wanted.policy.pick(smaller(wanted.ask, share=share), node) if share > 0 else None
        if isinstance(offer, Offer):
            return share, next(found.index for found in node.devices if found.id == offer.devices[0])
    return 0, 0

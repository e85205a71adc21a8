"""A part of one device: memory in the resource's own unit, and compute where that is asked for.

Source: seed 004, steps 2.1 and 2.2; percents below one device of seed 001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.model.node import FREE
from linkwise.model.settings import ShareSettings
from linkwise.model.verdict import Offer, Part, Reason, Reject
from linkwise.policies.policy import Policy

if TYPE_CHECKING:
    from linkwise.model.ask import Ask
    from linkwise.model.node import Node

__all__ = ["MemoryShare"]

WHOLE_CORE: Final = 100  # percent
_DEFAULT: Final = ShareSettings()


class _Room(NamedTuple):
    """What is left of one device; tuples compare by memory, then compute, then position."""

    memory: int
    core: int
    position: int
    device: str


class MemoryShare(Policy):
    """The fullest device that still fits, shared within one namespace unless a setting says otherwise."""

    name = "memory-share"
    terms = ("tightness", "packing")
    leading = 0

    def __init__(self, settings: ShareSettings = _DEFAULT) -> None:
        self._settings = settings

    def admit(self, ask: Ask) -> Reason | None:
        """A part of memory, and at most one device's compute."""
        if ask.share < 1:
            return Reason("004.one-card", asked=ask.share, kind="no size")
        if not 0 <= ask.core <= WHOLE_CORE:
            return Reason("001.percent", asked=ask.core, found=WHOLE_CORE)
        return Reason("004.one-card", asked=ask.share, kind="no size") if ask.broken() else None

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """One device with room for all containers of the pod."""
        # rule 004.mode
        if node.mode not in {"any", ask.mode}:
            return Reject(node.name, Reason("004.mode", asked=ask.mode, found=node.mode))
        # rule 004.one-card: an ask fits on one device or nowhere.
        largest = max((device.memory for device in node.devices), default=0)
        if ask.share > largest:
            return Reject(node.name, Reason("004.one-card", asked=ask.share, found=largest), final=True)
        rooms = _rooms(node)
        # rule 004.filter: room is judged device by device; a node's sum does not count.
        fitting = [room for room in rooms if room.memory >= ask.share and room.core >= ask.core]
        if not fitting:
            return Reject(node.name, _no_room(ask, rooms))
        # rule 002.segregate: a device that pods of other namespaces sit on is not to be had.
        allowed = [room for room in fitting if self._may_share(ask, node, room)]
        if not allowed:
            return Reject(node.name, Reason("002.segregate", asked=ask.namespace, found=_neighbours(node, fitting)))
        device = self._best(allowed).device
        parts = [
            Part(container.container, (device,), container.share, container.core)
            for container in ask.containers
            if container.share or container.core
        ]
        return Offer(node.name, tuple(parts))

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """What is left on the device after it, and how many devices the node has that nobody uses."""
        (chosen,) = offer.devices
        left = node.room()[chosen] - ask.share
        packed = (-left, -len(node.free()))
        return packed if self._settings.order == "binpack" else (-packed[0], -packed[1])

    def _best(self, rooms: list[_Room]) -> _Room:
        # rule 004.binpack: of the devices that fit the one with the least room; spreading takes the most.
        if self._settings.order == "binpack":
            return min(rooms)
        return min(rooms, key=lambda room: (-room.memory, -room.core, room.position))

    def _may_share(self, ask: Ask, node: Node, room: _Room) -> bool:
        used = node.used.get(room.device, FREE)
        own = used.namespaces == {ask.namespace}  # whose it is must be known: an unknown owner is another one
        return self._settings.within == "any" or used == FREE or own


def _no_room(ask: Ask, rooms: list[_Room]) -> Reason:
    """What is left of every device, of that which is short."""
    if any(room.memory >= ask.share for room in rooms):
        found = tuple((room.position, room.core) for room in rooms)
        return Reason("004.filter", asked=ask.core, found=found, kind="core")
    return Reason("004.filter", asked=ask.share, found=tuple((room.position, room.memory) for room in rooms))


def _rooms(node: Node) -> list[_Room]:
    memory, rooms = node.room(), []
    for device in node.healthy():
        use = node.use(device)
        core = 0 if use.whole else max(0, WHOLE_CORE - use.core)
        rooms.append(_Room(memory[device.id], core, device.index, device.id))
    return rooms


def _neighbours(node: Node, rooms: list[_Room]) -> tuple[str, ...]:
    """Whose pods sit on the devices that would have had room."""
    return tuple(sorted({name for room in rooms for name in node.used[room.device].namespaces}))

"""A part of one device: memory in the resource's own unit, and compute where that is asked for.

Bytes are the exception: they are counted in each device's own unit, rounded up container by container, so that what is
granted is never less than what was asked, and nothing is sold twice.

Source: seed 004, steps 2.1 and 2.2; percents below one device of seed 001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.model.node import FREE
from linkwise.model.settings import ShareSettings
from linkwise.model.verdict import Offer, Part, Reason, Reject
from linkwise.policies.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node

__all__ = ["MemoryShare", "shares_on"]

WHOLE_CORE: Final = 100  # percent
_DEFAULT: Final = ShareSettings()


class _Room(NamedTuple):
    """What is left of one device."""

    memory: int
    core: int
    position: int
    device: str
    need: int
    """what the ask takes of it, in its own unit"""


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
        return Reason("004.one-card", asked=ask.share, kind="no size") if ask.is_invalid() else None

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """One device with room for all containers of the pod."""
        # rule 004.mode
        if node.mode not in {"any", ask.mode}:
            return Reject(node.name, Reason("004.mode", asked=ask.mode, found=node.mode))
        # rule 004.one-card: an ask fits on one device or nowhere.
        shares = _shares(ask, node)
        too_large = _too_large(ask, node, shares)
        if too_large:
            return Reject(node.name, too_large, final=True)
        rooms = _rooms(node, shares)
        # rule 004.filter, 002.fractions: room is judged device by device; a node's sum does not count.
        fitting = [room for room in rooms if room.memory >= room.need and room.core >= ask.core]
        if not fitting:
            return Reject(node.name, _no_room(ask, rooms, node.unit))
        # rule 002.segregate: a device that pods of other namespaces sit on is not to be had.
        allowed = [room for room in fitting if self._may_share(ask, node, room)]
        if not allowed:
            return Reject(node.name, Reason("002.segregate", asked=ask.namespace, found=_neighbours(node, fitting)))
        device = self._best(allowed).device
        parts = [
            Part(container.container, (device,), share, container.core)
            for container, share in zip(ask.containers, shares[device], strict=True)
            if share or container.core
        ]
        return Offer(node.name, tuple(parts))

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """What is left on the device after it, and how many devices the node has that nobody uses."""
        (chosen,) = offer.devices
        left = node.room()[chosen] - sum(_shares(ask, node)[chosen])
        packed = (-left, -len(node.free()))
        return packed if self._settings.order == "binpack" else (-packed[0], -packed[1])

    def _best(self, rooms: list[_Room]) -> _Room:
        # rule 004.binpack: of the devices that fit the one with the least room; spreading takes the most.
        sign = 1 if self._settings.order == "binpack" else -1
        return min(rooms, key=lambda room: (sign * (room.memory - room.need), sign * room.core, room.position))

    def _may_share(self, ask: Ask, node: Node, room: _Room) -> bool:
        used = node.used.get(room.device, FREE)
        own = used.namespaces == {ask.namespace}  # whose it is must be known: an unknown owner is another one
        return self._settings.within == "any" or used == FREE or own


def shares_on(ask: Ask, memory: int, size: int) -> tuple[int, ...] | None:
    """What each container takes of a device that has so much memory, `size` bytes; None if that can't be told."""
    if not ask.in_bytes:
        return tuple(container.share for container in ask.containers)
    if memory < 1 or size < 1:
        return None
    return tuple(-(-container.share * memory // size) for container in ask.containers)


def _shares(ask: Ask, node: Node) -> dict[str, tuple[int, ...]]:
    """What each container takes, by the device it would take it of."""
    found = {device.id: shares_on(ask, device.memory, device.bytes) for device in node.devices}
    return {device: shares for device, shares in found.items() if shares is not None}


def _too_large(ask: Ask, node: Node, shares: Mapping[str, tuple[int, ...]]) -> Reason | None:
    """Why none of the devices could serve the ask if they were free."""
    if node.devices and not shares:
        return Reason("004.one-card", asked=ask.share, kind="bytes unknown")
    needs = [(sum(shares[device.id]), device.memory) for device in node.devices if device.id in shares]
    if any(need <= memory for need, memory in needs):
        return None
    need, memory = min((need for need, _ in needs), default=ask.share), max((size for _, size in needs), default=0)
    return Reason("004.one-card", asked=need, found=memory, unit=node.unit)


def _no_room(ask: Ask, rooms: list[_Room], unit: str) -> Reason:
    """What is left of every device, of that which is short."""
    if any(room.memory >= room.need for room in rooms):
        found = tuple((room.position, room.core) for room in rooms)
        return Reason("004.filter", asked=ask.core, found=found, kind="core")
    need = min((room.need for room in rooms), default=ask.share)
    return Reason("004.filter", asked=need, found=tuple((room.position, room.memory) for room in rooms), unit=unit)


def _rooms(node: Node, shares: Mapping[str, tuple[int, ...]]) -> list[_Room]:
    memory, rooms = node.room(), []
    for device in node.healthy():
        if device.id not in shares:
            continue
        use = node.use(device)
        core = 0 if use.whole else max(0, WHOLE_CORE - use.core - node.unattributed_core)
        rooms.append(_Room(memory[device.id], core, device.index, device.id, sum(shares[device.id])))
    return rooms


def _neighbours(node: Node, rooms: list[_Room]) -> tuple[str, ...]:
    """Whose pods sit on the devices that would have had room."""
    return tuple(sorted({name for room in rooms for name in node.used[room.device].namespaces}))

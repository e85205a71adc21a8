"""One node's devices and what is left of them: all that a policy sees of a node."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.device import Device
    from linkwise.model.topology import Topology

__all__ = ["FREE", "AskMode", "Mode", "Node", "Use"]

AskMode = Literal["whole", "share", "percent"]
Mode = Literal["any", "whole", "share", "percent"]


@dataclass(frozen=True, slots=True)
class Use:
    """What is taken of one device."""

    share: int = 0  # in the unit of the node's share resource
    core: int = 0  # percent
    whole: bool = False
    namespaces: frozenset[str] = frozenset()
    """whose pods sit on it"""


FREE: Final = Use()
_INDEX: Final = attrgetter("index")


@dataclass(frozen=True, slots=True)
class Node:
    """Devices in index order; `used` names only those that are taken or shared."""

    name: str
    devices: tuple[Device, ...]
    used: Mapping[str, Use] = field(default_factory=dict)
    topology: Topology | None = None
    profile: str = ""
    """the hardware profile by which its devices form groups"""
    mode: Mode = "any"
    """how its devices are handed out; `any` while nothing decided it"""
    unattributed: int = 0
    """devices that are taken or do not work, of which it is not known which they are"""
    unattributed_share: int = 0
    """memory that is taken of devices, of which it is not known which they are"""
    unattributed_core: int = 0  # percent
    unit: str = ""
    """what memory is counted in, where that is told: MiB, GiB, %"""

    def __post_init__(self) -> None:
        """Put the devices in index order; a tuple that is in order stays the same one, by which others know it again."""
        ordered = tuple(sorted(self.devices, key=_INDEX))
        if ordered != self.devices:
            object.__setattr__(self, "devices", ordered)

    def use(self, device: Device) -> Use:
        """What is taken of the device."""
        return self.used.get(device.id, FREE)

    def free(self) -> tuple[Device, ...]:
        """Healthy devices of which nothing is taken."""
        used = self.used  # most devices are not in it: comparing uses would take far longer
        return tuple(
            device for device in self.devices if device.healthy and (device.id not in used or used[device.id] == FREE)
        )

    def healthy(self) -> tuple[Device, ...]:
        """Devices that work, whoever has them."""
        return tuple(device for device in self.devices if device.healthy)

    def positions(self) -> dict[str, int]:
        """Where each device stands in the topology, by id or by index; what the topology does not know is left out."""
        if self.topology is None:
            return {}
        known = {name: position for position, name in enumerate(self.topology.devices)}
        if list(known) == [device.id for device in self.devices]:
            return known
        found = {device.id: known.get(device.id, known.get(f"#{device.index}")) for device in self.devices}
        return {name: position for name, position in found.items() if position is not None}

    def room(self) -> dict[str, int]:
        """Share left on each healthy device, by id; never below zero, whatever the records say."""
        taken = self.unattributed_share  # it may be of any of them
        return {
            device.id: 0 if use.whole or self.unattributed else max(0, device.memory - use.share - taken)
            for device in self.devices
            if device.healthy
            for use in (self.use(device),)
        }

"""A set of devices that was chosen, with what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.node import Node

__all__ = ["Choice", "indices_of"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Devices by index; every text may be empty."""

    devices: tuple[int, ...]
    worth: str = ""
    """how good the set is: its links, its ring, its room"""
    because: str = ""
    """why it was taken"""
    other: tuple[int, ...] = ()
    """the set that came second"""
    lost: str = ""
    """why that was not taken"""
    now: tuple[int, ...] = ()
    """the set that would be taken now, where that is another one"""


def indices_of(node: Node, devices: Iterable[str]) -> tuple[int, ...]:
    """The indices of devices, ascending."""
    known = {device.id: device.index for device in node.devices}
    return tuple(sorted(known[device] for device in devices))

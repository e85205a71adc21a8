"""Report on a chosen set of devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.node import Node

__all__ = ["Choice", "indices_of"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen set of devices, by index; every text may be empty."""

    devices: tuple[int, ...]
    worth: str = ""
    """quality of the set: its links, its ring, its free share"""
    because: str = ""
    """why it was chosen"""
    other: tuple[int, ...] = ()
    """the runner-up"""
    lost: str = ""
    """why the runner-up lost"""
    now: tuple[int, ...] = ()
    """the set that would be chosen now, if it differs"""


def indices_of(node: Node, devices: Iterable[str]) -> tuple[int, ...]:
    """Return the indices of devices, ascending."""
    known = {device.id: device.index for device in node.devices}
    return tuple(sorted(known[device] for device in devices))

"""What a node has to hand out, as all its sources together tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.device import Device
    from linkwise.model.node import Mode
    from linkwise.model.topology import Topology
    from linkwise.model.verdict__problem import Problem

__all__ = ["Stock"]


@dataclass(frozen=True, slots=True)
class Stock:
    """Devices in index order, before anything is taken of them."""

    name: str
    """of the node"""
    devices: tuple[Device, ...] = ()
    topology: Topology | None = None
    profile: str = ""
    """the hardware profile by which devices form groups"""
    mode: Mode = "any"
    unit: str = ""
    """what shares are counted in: MiB, GiB, %"""
    words: frozenset[str] = frozenset()
    """the dialects in whose words its devices can be asked for, and the resources that it has"""
    sick: int = 0
    """devices that do not work, of which it is not told which they are"""
    allocations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """devices by pod UID, as the node's own agent saw them in use"""
    enforced: bool = False
    """whether our agent hands out the devices, so that a pick is more than expected"""
    labels: Mapping[str, str] = field(default_factory=dict)
    """facts in plain words: model, driver, cuda"""
    problems: tuple[Problem, ...] = ()

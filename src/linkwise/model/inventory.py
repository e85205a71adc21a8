"""What a node's labels, annotations and objects tell about its devices, in one system's words.

What a node has to hand out, as all its sources together tell it.
"""
# Joined from node_facts, stock: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.device import Device
    from linkwise.model.node import Mode
    from linkwise.model.topology import Topology
    from linkwise.model.verdict import Problem

__all__ = ["NodeFacts", "NodeInventory"]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Empty fields are not told; facts of several systems are joined by whoever knows which to believe."""

    source: str
    """the dialect that read them"""
    devices: tuple[Device, ...] = ()
    """with real ids where the source tells them, `#index` where it only counts"""
    topology: Topology | None = None
    profile: str = ""
    """the hardware profile by which devices form groups"""
    mode: Mode = "any"
    unit: str = ""
    """what the node's shares are counted in: MiB, GiB, %"""
    labels: Mapping[str, str] = field(default_factory=dict)
    """facts in plain words: model, driver, cuda, clique"""
    allocations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """devices by pod UID, where the source tells what is really in use"""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeInventory:
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

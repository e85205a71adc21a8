"""Node: devices, what is used of them and how the kubelet aligns them, which is all that a policy knows of a node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from linkwise.model.device import Device
    from linkwise.model.topology import Topology

__all__ = [
    "FREE",
    "SCOPES",
    "TOPOLOGY_POLICIES",
    "AskMode",
    "Mode",
    "Node",
    "NumaAlignment",
    "TopologyPolicy",
    "TopologyScope",
    "Use",
]

AskMode = Literal["whole", "share", "percent"]
Mode = Literal["any", "whole", "share", "percent"]
_INDEX: Final = attrgetter("index")
TopologyPolicy = Literal["none", "best-effort", "restricted", "single-numa-node"]
TopologyScope = Literal["container", "pod"]
TOPOLOGY_POLICIES: Final[tuple[TopologyPolicy, ...]] = get_args(TopologyPolicy)
SCOPES: Final[tuple[TopologyScope, ...]] = get_args(TopologyScope)


@dataclass(frozen=True, slots=True)
class Use:
    """Usage of one device."""

    share: int = 0  # in the unit of the node's share resource
    core: int = 0  # percent
    whole: bool = False
    domains: frozenset[str] = frozenset()
    """sharing domains of the pods on it"""


FREE: Final = Use()


_WHOLE: Final = Use(whole=True)


@dataclass(frozen=True, slots=True)
class Node:
    """Devices in index order; `used` has only those with any usage."""

    name: str
    devices: tuple[Device, ...]
    used: Mapping[str, Use] = field(default_factory=dict)
    topology: Topology | None = None
    profile: str = ""
    """the hardware profile by which its devices form groups"""
    mode: Mode = "any"
    """sharing mode; `any` until the inventory or the first grant decides it"""
    unattributed: int = 0
    """the number of devices known to be used or unhealthy without knowing which"""
    unattributed_share: int = 0
    """memory known to be used without knowing on which device"""
    unattributed_core: int = 0  # percent
    unit: str = ""
    """the unit of memory, if known: MiB, GiB, %"""
    alignment: NumaAlignment | None = None
    """how the kubelet aligns devices with NUMA nodes; None if it does not, or if that is not known"""
    facts: Mapping[str, str] = field(default_factory=dict)
    """by a name of `model.requirement.FACTS`, where its devices don't differ"""
    steered: bool = True
    """whether containers get the devices that are picked; otherwise a device plugin chooses among all of them"""

    def __post_init__(self) -> None:
        """Sort the devices by index; a sorted tuple stays the same object, because caches are keyed by identity."""
        ordered = tuple(sorted(self.devices, key=_INDEX))
        if ordered != self.devices:
            object.__setattr__(self, "devices", ordered)

    def use(self, device: Device) -> Use:
        """Usage of the device."""
        return self.used.get(device.id, FREE)

    def free(self) -> tuple[Device, ...]:
        """Healthy devices without any usage."""
        used = self.used  # most devices are not in it: looking them up is far cheaper than comparing usages
        return tuple(
            device for device in self.devices if device.healthy and (device.id not in used or used[device.id] == FREE)
        )

    def with_only(self, devices: Collection[str]) -> Node:
        """The node with all other devices marked as used."""
        used = {name: use for name, use in self.used.items() if name in devices}
        others = {device.id: _WHOLE for device in self.devices if device.id not in devices}
        return replace(self, used={**used, **others})

    def healthy(self) -> tuple[Device, ...]:
        """Healthy devices, used or not."""
        return tuple(device for device in self.devices if device.healthy)

    def reachable(self) -> Node:
        """The node with the devices that other nodes can't reach marked as used; the same object if there are none."""
        unreachable = {device.id: _WHOLE for device in self.devices if not device.reachable}
        return replace(self, used={**self.used, **unreachable}) if unreachable else self

    def positions(self) -> dict[str, int]:
        """Position of each device in the topology, by id or by index; devices it does not list are left out."""
        if self.topology is None:
            return {}
        known = {name: position for position, name in enumerate(self.topology.devices)}
        if list(known) == [device.id for device in self.devices]:
            return known
        positions = {device.id: known.get(device.id, known.get(f"#{device.index}")) for device in self.devices}
        return {name: position for name, position in positions.items() if position is not None}

    def room(self) -> dict[str, int]:
        """Free share of each healthy device, by id; never below zero, even if records claim more than there is."""
        taken = self.unattributed_share  # counted on every device, because it may be on any of them
        return {
            device.id: 0 if use.whole or self.unattributed else max(0, device.memory - use.share - taken)
            for device in self.devices
            if device.healthy
            for use in (self.use(device),)
        }


@dataclass(frozen=True, slots=True)
class NumaAlignment:
    """The Topology Manager's policy and scope, as the kubelet of a node is configured."""

    policy: TopologyPolicy
    scope: TopologyScope = "container"
    """whether each container is aligned by itself, or all containers of a pod together"""
    cpus: tuple[tuple[int, int], ...] = ()
    """NUMA nodes and the CPUs that each can still give to containers exclusively; empty if unknown"""
    total_cpus: tuple[tuple[int, int], ...] = ()
    """likewise, all CPUs that pods may use"""

    static_cpus: bool = True
    """whether the CPU Manager is static, so that CPUs are aligned too; true while it is not known"""

    @property
    def rejects(self) -> bool:
        """Whether the kubelet rejects pods that it can't align."""
        return self.policy in {"restricted", "single-numa-node"}

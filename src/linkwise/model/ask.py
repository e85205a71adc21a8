"""Asks: the devices that a pod requests, and the group of pods it is placed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from linkwise.model.node import AskMode  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.requirement import Requirement  # noqa: TC001 - same

__all__ = ["Ask", "ContainerAsk", "Group", "MatchPolicy", "NetworkWish"]


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """The request of one container: whole devices, or a part of one device."""

    container: str
    devices: int = 0
    share: int = 0  # memory of one device, in the resource's own unit, never converted
    core: int = 0  # percent of one device's compute
    cpus: int = 0  # exclusive ones, of a static CPU Manager


@dataclass(frozen=True, slots=True)
class Ask:
    """The request of one pod for one resource, an entry per container in the order of the pod's spec."""

    resource: str
    containers: tuple[ContainerAsk, ...]
    namespace: str = "default"
    """of the pod"""
    profile: str = ""
    """the hardware profile that the pod specifies, if any"""
    mode: AskMode = "whole"
    """the sharing mode that a node must have to serve it"""
    required: tuple[str, ...] = ()
    """devices that must be among the allocated ones"""
    in_bytes: bool = False
    """shares are bytes: a device counts them in its own unit, rounded up"""
    sharing: str = ""
    """the sharing domain, if it is not the namespace"""
    cpus: int = 0
    """CPUs that a static CPU Manager allocates exclusively to all containers of the pod together"""
    requirement: Requirement | None = None
    """what every device must meet: model, memory, versions"""

    @property
    def domain(self) -> str:
        """The sharing domain: parts of a device go to pods of one domain."""
        return self.sharing or self.namespace

    @property
    def devices(self) -> int:
        """Whole devices of all containers together."""
        if len(self.containers) == 1:  # nearly always, and this is read in every decision
            return self.containers[0].devices
        return sum(container.devices for container in self.containers)

    def is_invalid(self) -> bool:
        """Whether a container requests a negative amount."""
        return any(min(container.devices, container.share, container.core) < 0 for container in self.containers)

    @property
    def share(self) -> int:
        """Device memory of all containers together, in the resource's own unit."""
        return sum(container.share for container in self.containers)

    @property
    def core(self) -> int:
        """Percent of one device's compute of all containers together."""
        return sum(container.core for container in self.containers)


MatchPolicy = Literal["once-satisfied", "only-waiting", "waiting-and-running"]
"""the members that count for the minimum: all that ever ran, pending ones only, or pending and running ones"""


@dataclass(frozen=True, slots=True)
class NetworkWish:
    """A network level that the members should share: a node label key, or a system's own name for one."""

    level: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The group of a pod, as the pod specifies it; equal keys are one group."""

    key: str
    """namespace, name, and whatever distinguishes it from another group of the same name"""
    source: str
    """the convention it was read from: koordinator, kubernetes, volcano, kai, kueue, scheduler-plugins; or owner"""
    total: int | None = None
    """the number of members; None if unspecified"""
    minimum: int | None = None
    """the number of members that must start together; None if the group is not a gang"""
    rank: int | None = None
    """this pod's index among the members"""
    role: str = ""
    match_policy: MatchPolicy = "once-satisfied"
    strict: bool = True
    """whether all pending members give up their devices when one member fails"""
    waiting_time: float = 600.0  # seconds
    bundle: tuple[str, ...] = ()
    """groups that start together with it"""
    network: tuple[NetworkWish, ...] = ()
    all_members: bool = False
    """whether it is a gang that does not declare its minimum: all existing members must start together"""
    settles: bool = False
    """whether it is planned only when no member was added for a while, because their number is not declared"""

    @property
    def is_gang(self) -> bool:
        """Whether members must start together; without a declared minimum, all that exist."""
        return self.minimum is not None or self.all_members

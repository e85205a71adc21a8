"""What a pod wants.

Pods that are placed as one.
"""
# Joined from ask, group: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from linkwise.model.node import AskMode

__all__ = ["Ask", "ContainerAsk", "Group", "MatchPolicy", "NetworkWish"]


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """What one container wants: whole devices, or a part of one device."""

    container: str
    devices: int = 0
    share: int = 0  # memory of one device, in the resource's own unit, never converted
    core: int = 0  # percent of one device's compute


@dataclass(frozen=True, slots=True)
class Ask:
    """What one pod wants of one resource, an entry per container, in the order of the pod's spec."""

    resource: str
    containers: tuple[ContainerAsk, ...]
    namespace: str = "default"
    """sharing is kept within it unless a setting says otherwise"""
    profile: str = ""
    """the hardware profile it is meant for, where the pod says so"""
    mode: AskMode = "whole"
    """how a node must hand out its devices to serve it"""
    required: tuple[str, ...] = ()
    """devices that must be among those given"""
    in_bytes: bool = False
    """shares are bytes: a device counts them in its own unit, rounded up"""

    @property
    def devices(self) -> int:
        """Whole devices wanted by all containers together."""
        if len(self.containers) == 1:  # nearly always, and asked for all the time
            return self.containers[0].devices
        return sum(container.devices for container in self.containers)

    def broken(self) -> bool:
        """Whether a container asks for less than nothing."""
        return any(min(found.devices, found.share, found.core) < 0 for found in self.containers)

    @property
    def share(self) -> int:
        """Memory wanted of one device by all containers together, in the resource's own unit."""
        return sum(container.share for container in self.containers)

    @property
    def core(self) -> int:
        """Percent of one device's compute wanted by all containers together."""
        return sum(container.core for container in self.containers)


MatchPolicy = Literal["once-satisfied", "only-waiting", "waiting-and-running"]
"""which members count for the minimum: all that ever ran, only those waiting, or those waiting and running"""


@dataclass(frozen=True, slots=True)
class NetworkWish:
    """A level of the network that members shall share: a node label key, or a system's own name for one."""

    level: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """What one pod says about the group it belongs to; equal keys are one group."""

    key: str
    """namespace, name, and what else tells it apart from a group of the same name"""
    source: str
    """whose convention says so: koordinator, kubernetes, volcano, kai, kueue, scheduler-plugins; or owner"""
    total: int | None = None
    """how many members it has; None if that is not said"""
    minimum: int | None = None
    """how many must start together; None without all-or-nothing"""
    rank: int | None = None
    """this pod's place among the members"""
    role: str = ""
    match_policy: MatchPolicy = "once-satisfied"
    strict: bool = True
    """whether one failure lets all waiting members go"""
    waiting_time: float = 600.0  # seconds
    bundle: tuple[str, ...] = ()
    """groups that start together with it"""
    network: tuple[NetworkWish, ...] = ()

"""What an administrator may set about placing, as values; a file that sets them is read elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = ["NETWORK", "BandwidthSettings", "GroupSettings", "JobShape", "PlacingSettings", "ShareSettings"]

NETWORK: Final = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "network.topology.nvidia.com/datacenter",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/block",
    "network.topology.nvidia.com/accelerator",
    "nvidia.com/gpu.clique",
)
JobShape = Literal["strict", "per-pod"]
"""which shapes a job of ring-linked devices may have"""


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """How parts of devices are handed out."""

    order: Literal["binpack", "spread"] = "binpack"
    """the fitting device with the least room, or with the most"""
    within: Literal["namespace", "any"] = "namespace"
    """who may share a device: pods of one namespace, or any"""
    width: float = 0.05
    """part of a device's memory within which what is left counts as equal between nodes; at 0 every unit counts"""


@dataclass(frozen=True, slots=True)
class BandwidthSettings:
    """When bandwidth is a must."""

    floor: float = 0.0  # GB/s; a set below it is refused, 0 refuses none


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How groups of pods are planned."""

    network: tuple[str, ...] = NETWORK
    """node labels that name the domains of the network, the broadest first"""
    order: Literal["bandwidth", "seed"] = "bandwidth"
    """whether speed goes before few left-over devices, or after them as seed 001 has it"""
    models: Literal["one", "any"] = "one"
    """whether all members get devices of one model"""
    hold: float = 60.0  # seconds
    """for how long a plan holds devices that nobody was bound to"""
    longest_hold: float = 3600.0  # seconds
    """for how long a gang's plan holds them at most, however long the gang itself says that it waits"""
    grace: float = 5.0  # seconds
    """for how long the devices of a member that is gone are kept for the one that comes in its place"""
    window: float = 10.0  # seconds
    """for how long a group that is no gang waits for members that are missing"""
    steps: int = 4000
    """of planning in one filter; past them the pod is told that its group is being planned"""
    write_plans: bool = False
    """whether a plan is written on its members when it is held, for whoever starts anew"""
    by_owner: bool = False
    """whether pods that ask for devices and name no group are one group with the other pods of their owner, a job for one"""
    evict_half_bound: bool = False
    """whether bound members of a strict gang are evicted when the others found no place in time and none has begun to run"""


@dataclass(frozen=True, slots=True)
class PlacingSettings:
    """How asks are answered."""

    breadth: int = 16
    """nodes of the best class that filter returns, so that the scheduler's own preferences choose among equals;
    0 returns every node that fits"""
    offer: Literal["best", "class"] = "best"
    """which of them: those that no other outranks, or all, for a scheduler to which its own scores count more than ranks"""
    pending: float = 2.0  # seconds
    """for how long a pod that was offered nodes and is not bound yet is kept in mind"""
    rounds: int = 3
    """after so many answers that led to no bind all nodes that fit are returned"""
    budget: int = 20_000
    """shapes of nodes judged in one filter; past it the answer is made of those judged so far"""
    policies: dict[str, str] = field(default_factory=dict)
    """the policy by resource name, where it is not the usual one"""
    share: ShareSettings = field(default_factory=ShareSettings)
    bandwidth: BandwidthSettings = field(default_factory=BandwidthSettings)
    group: GroupSettings = field(default_factory=GroupSettings)
    job_shape: JobShape = "strict"

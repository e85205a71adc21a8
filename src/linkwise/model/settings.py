"""Placing settings as values; `linkwise.config` reads them from files and the environment.

Node labels of the network levels are those that topograph writes. Its versions name the same switches differently, so a level
has several labels, the newest first: 1.x `fabric.topograph.run/tier-N`, where 0 is closest to the node, and
`accelerator.topograph.run/domain`; 0.5 `network.topology.nvidia.com/{core,spine,leaf,accelerator}`; 0.1
`/{datacenter,spine,block}`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from linkwise.model.access_policy import OPERATORS

__all__ = [
    "ACCELERATOR",
    "FABRIC",
    "NETWORK",
    "NVIDIA",
    "TIERS",
    "TOPOGRAPH",
    "AdmissionSettings",
    "BandwidthSettings",
    "ClaimSettings",
    "GroupSettings",
    "JobShape",
    "PlacingSettings",
    "PreemptionSettings",
    "ReservationSettings",
    "ShareSettings",
    "Visibility",
    "VolcanoSettings",
]

FABRIC: Final = "fabric.topograph.run/"
ACCELERATOR: Final = "accelerator.topograph.run/"
TIERS: Final = 16
"""tiers that are read; topograph sets no limit, but no network has as many"""
NVIDIA: Final = "network.topology.nvidia.com/"
_EARLIER: Final = {0: ("leaf", "block"), 1: ("spine",), 2: ("core", "datacenter")}

TOPOGRAPH: Final = (
    *(
        (f"{FABRIC}tier-{number}", *(NVIDIA + name for name in _EARLIER.get(number, ())))
        for number in reversed(range(TIERS))
    ),
    (f"{ACCELERATOR}domain", f"{NVIDIA}accelerator"),
    (f"{ACCELERATOR}sub-domain",),
)


NETWORK: Final = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    *(label for level in TOPOGRAPH for label in level),
    "nvidia.com/gpu.clique",
)
JobShape = Literal["strict", "per-pod"]
"""the shapes that a job of ring-linked devices may have"""
Visibility = Literal["group", "opt-in", "never"]
"""whether containers see the devices of their group on the node: all, those of pods that request it, or none"""


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """How shares of devices are allocated."""

    order: Literal["binpack", "spread"] = "binpack"
    """the fitting device with the least free memory, or with the most"""
    within: Literal["namespace", "any"] = "namespace"
    """which pods may share a device: those of one namespace, or any"""


@dataclass(frozen=True, slots=True)
class BandwidthSettings:
    """When bandwidth is mandatory."""

    floor: float = 0.0  # GB/s; a set below it is refused, 0 refuses none


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """Devices that ResourceClaims allocate."""

    plan: bool = True
    """whether such devices are planned, and the claims name them; otherwise they are placed by count"""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How groups of pods are planned."""

    network: tuple[str, ...] = NETWORK
    """node labels of the network domains, the broadest first"""
    order: Literal["bandwidth", "seed"] = "bandwidth"
    """whether bandwidth goes before few left-over devices, or after them as in the original design"""
    models: Literal["one", "any"] = "one"
    """whether all members get devices of one model"""
    hold: float = 60.0  # seconds
    """how long a plan reserves devices of members that are not bound"""
    longest_hold: float = 3600.0  # seconds
    """upper limit of that time for gangs that specify their own waiting time"""
    grace: float = 5.0  # seconds
    """how long the devices of a deleted member are reserved for its replacement"""
    window: float = 10.0  # seconds
    """how long a group that is not a gang waits for missing members"""
    steps: int = 4000
    """planning steps per filter call; beyond them the pod is refused until its group is planned"""
    write_plans: bool = True
    """whether binds of members record the plan of the others, so that it survives a restart"""
    by_owner: bool = False
    """whether pods without a group form one with the other pods of their owner, such as a Job, in every namespace"""
    owners: dict[str, str] = field(default_factory=dict)
    """the same by namespace or pattern: none, group, or gang if the pods of a job start together"""
    settle: float = 1.0  # seconds
    """how long the pods of a job whose number is unknown wait for more of them, counted from the last one"""
    gates: bool = True
    """whether gangs whose members have our scheduling gate are planned before it is removed; otherwise it is removed at once"""
    schedulers: tuple[str, ...] = ()
    """schedulers whose gated pods are planned; empty for all. The gate of other pods is removed, with a warning"""
    evict_half_bound: bool = False
    """whether the bound members of a partially bound strict gang are evicted when the plan expires before any has run"""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How the admission webhook changes pods."""

    scheduler: str = "linkwise-scheduler"
    """scheduler of pods that request devices and name none, or default-scheduler"""
    gates: bool = True
    """whether members of gangs get a scheduling gate until the complete gang is planned"""
    volcano_gates: bool = True
    """whether all pods of Volcano schedulers that request devices get it: their devices are chosen before Volcano tries them"""
    hide_devices: bool = False
    """whether containers that request no devices get the variables that select devices, set to `void`"""
    controllers: tuple[str, ...] = OPERATORS
    """users who create pods from templates that the webhook saw, beside Kubernetes' own controllers: such pods keep the
    user of the template"""


@dataclass(frozen=True, slots=True)
class ReservationSettings:
    """When nodes are drained for the first pod or group in the queue that smaller pods would pass forever."""

    after: float = 300.0  # seconds
    """how long it must have been unschedulable; 0 turns reservations off"""
    hold: float = 3600.0  # seconds
    """how long a reservation lasts at most; afterwards it is the turn of the next in the queue"""
    count: int = 1
    """reservations at a time"""
    nodes: int = 32
    """nodes per reservation; a group that needs more gets none"""


@dataclass(frozen=True, slots=True)
class PreemptionSettings:
    """Preemption by evictions of our own."""

    evict: bool = True
    """whether pods of lower priority are evicted for groups, and for pods that kube-scheduler's preemption can't help"""
    hold: float = 300.0  # seconds
    """how long devices are held for the preemptor while its victims terminate"""


@dataclass(frozen=True, slots=True)
class VolcanoSettings:
    """Pods that Volcano schedules."""

    schedulers: tuple[str, ...] = ("volcano",)
    """names of Volcano schedulers, as in the pods' `schedulerName`"""
    booking: float = 60.0  # seconds
    """how long devices are booked for a pod that Volcano allocated and neither allocates again nor binds"""


@dataclass(frozen=True, slots=True)
class PlacingSettings:
    """How filter and prioritize answer."""

    breadth: int = 16
    """nodes of equal score that filter returns for a pod with preferences of its own, so that the scheduler's own scores
    choose among them; every other pod gets one node"""
    pending: float = 2.0  # seconds
    """how long devices are reserved for a pod on the node that filter named, until the pod is bound"""
    rounds: int = 3
    """after this number of offers without a bind all nodes that fit are returned; 0 always returns all"""
    budget: int = 20_000
    """node shapes evaluated per filter call; beyond it the answer has only the nodes evaluated so far"""
    every_pod: bool = False
    """whether pods that request no devices are bound too, for a scheduler that sends every pod"""
    inventory_grace: float = 600.0  # seconds
    """how long the last known devices of a node are used after the object that lists them was deleted"""
    rank_tables: bool = False
    """whether the rank tables of Ascend jobs are written into their ConfigMaps, rings-config-JOB"""
    nic: bool = False
    """whether devices with an RDMA device under their own PCIe switch are preferred"""
    policies: dict[str, str] = field(default_factory=dict)
    """the policy by resource name, if it is not the default"""
    share: ShareSettings = field(default_factory=ShareSettings)
    bandwidth: BandwidthSettings = field(default_factory=BandwidthSettings)
    claims: ClaimSettings = field(default_factory=ClaimSettings)
    group: GroupSettings = field(default_factory=GroupSettings)
    reservation: ReservationSettings = field(default_factory=ReservationSettings)
    preemption: PreemptionSettings = field(default_factory=PreemptionSettings)
    volcano: VolcanoSettings = field(default_factory=VolcanoSettings)
    job_shape: JobShape = "strict"

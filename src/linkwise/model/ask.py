"""Asks: the devices that a pod requests, its group, and its demand for everything else that a node provides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from linkwise.model.node import AskMode  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.requirement import Requirement  # noqa: TC001 - same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import HostPort, NodeTerm, PodTerm, Toleration

__all__ = ["Ask", "Capacity", "ContainerAsk", "Demand", "Group", "Load", "MatchPolicy", "NetworkWish"]

MatchPolicy = Literal["once-satisfied", "only-waiting", "waiting-and-running"]
"""the members that count for the minimum: all that ever ran, pending ones only, or pending and running ones"""
K = TypeVar("K")


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


@dataclass(frozen=True, slots=True)
class Demand:
    """One pod's requests as numbers, and its other constraints as its view has them."""

    cpu: int = 0  # thousandths of a core
    memory: int = 0  # bytes
    ephemeral: int = 0  # bytes of the node's own storage
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    together: tuple[PodTerm, ...] = ()
    crowd: tuple[tuple[PodTerm, int], ...] = ()
    """by term, how many of the pods that it selects one node may have with this pod on it"""
    only: frozenset[str] | None = None
    """names of the nodes that passed the scheduler's own filters; None if that is not known"""


@dataclass(frozen=True, slots=True)
class Load:
    """The sum of the demands on one node; pods that have ended are not added."""

    cpu: int = 0
    memory: int = 0
    ephemeral: int = 0
    pods: int = 0
    ports: Mapping[HostPort, int] = field(default_factory=dict)
    """the number of pods that use each"""
    apart: Mapping[PodTerm, int] = field(default_factory=dict)
    """the number of pods with each anti-affinity term"""

    def plus(self, demand: Demand) -> Load:
        """The load with one pod more."""
        return self._changed(demand, 1)

    def minus(self, demand: Demand) -> Load:
        """The load with one pod less: undoes `plus` exactly, in any order of pods."""
        return self._changed(demand, -1)

    def _changed(self, demand: Demand, step: int) -> Load:
        return Load(
            self.cpu + step * demand.cpu,
            self.memory + step * demand.memory,
            self.ephemeral + step * demand.ephemeral,
            self.pods + step,
            _add_counts(self.ports, demand.ports, step),
            _add_counts(self.apart, demand.apart, step),
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """A node's allocatable, in the units of a demand; None where the node reports nothing, which is no limit."""

    cpu: int | None = None
    memory: int | None = None
    ephemeral: int | None = None
    pods: int | None = None


def _add_counts(counts: Mapping[K, int], keys: tuple[K, ...], step: int) -> Mapping[K, int]:
    """New counts without zeros, so that equal loads compare equal; the same object if there are no keys."""
    if not keys:
        return counts
    changed = dict(counts)
    for key in keys:
        changed[key] = changed.get(key, 0) + step
    return {key: count for key, count in changed.items() if count}

"""Dialect: the resource names, annotations and objects of one system, and how a grant is written for its users.

A dialect is a class in its own file or folder, and one line in `registry.py` or an entry point of the group
`linkwise.dialects`. Its class attributes hold what other layers need to know about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeFacts
    from linkwise.model.verdict import Decision, Grant, Problem
    from linkwise.model.views import NodeView, PodView

__all__ = ["Advertised", "DefaultPolicies", "Dialect", "Held", "SourcePriority", "Writing", "where_node", "where_pod"]


@dataclass(frozen=True, slots=True)
class Held:
    """Devices that a pod has by its annotations."""

    grant: Grant | None
    """None if there is no record, or none that can be trusted"""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Writing:
    """A grant to be written, with what its annotations need."""

    pod: PodView
    grant: Grant
    devices: Mapping[str, Device]
    """all devices of the node by id: other systems' keys hold indices"""
    now: int  # nanoseconds since the epoch, unique and increasing for each node
    siblings: tuple[str, ...] = ()
    """devices of the other members of its group on this node"""
    decision: Decision | None = None
    """why these devices, for the record"""


class DefaultPolicies(NamedTuple):
    """Policies by name, for requests in the dialect where nothing else is chosen."""

    whole: str = "whole-device"
    member: str = "whole-device"
    """for whole devices of a member of a group"""
    part: str = "memory-share"
    """for a part of one device"""


class SourcePriority(IntEnum):
    """Which source of inventory wins where several describe the devices of one node: the highest."""

    COUNTED = 10
    """the number of devices, and facts that all of them share"""
    SHARED = 20
    """equal shares of a node's total"""
    LISTED = 30
    """lists of healthy and unhealthy devices"""
    OBJECT = 40
    """an object with an entry per device"""
    INVENTORY = 50
    """Linkwise's own DeviceInventory"""


class Advertised(NamedTuple):
    """Resources and labels that a vendor's device plugin and labeller put on a node."""

    resources: Mapping[str, str]
    labels: Mapping[str, str]


class Dialect(ABC):
    """One system's API. It imports no policy and no other dialect."""

    name: ClassVar[str]
    vendor: ClassVar[str] = ""
    """whose devices its resources are: the name of a vendor; dialects of one vendor describe the same devices"""
    resources: ClassVar[tuple[str, ...]] = ()
    """resources that pods request in it: kube-scheduler sends pods with one of them to the extender"""
    renamed: ClassVar[Mapping[str, str]] = {}
    """those of them that Kubernetes refuses today, with the names to request instead"""
    whole_devices: ClassVar[frozenset[str]] = frozenset()
    """those of them that count whole devices"""
    domains: ClassVar[frozenset[str]]
    """prefixes (before the slash) of keys, and kinds of objects, by which it describes nodes; without one of them on a
    node, `node` is not called"""
    inventories: ClassVar[tuple[str, ...]] = ()
    """how the kinds of objects, and the annotations of nodes, begin that identify devices: if one vanishes, the devices
    are taken to be the same for a while"""
    priority: ClassVar[SourcePriority] = SourcePriority.COUNTED
    policies: ClassVar[DefaultPolicies] = DefaultPolicies()
    by_resource: ClassVar[bool] = True
    """whether a node must have the very resource that is requested; if not, any of the dialect's will do"""
    resource_pattern: ClassVar[str] = ""
    """a regular expression (RE2) for the complete name of further resources that it owns; empty for none"""
    records: ClassVar[tuple[str, ...]] = ()
    """annotations of pods that tell its tools which devices a pod has; users must not set them"""
    record_pattern: ClassVar[str] = ""
    """the same where there are too many to list: a regular expression (RE2) for the complete key; empty for none"""
    plugin_maps_ids: ClassVar[bool] = False
    """whether the vendor's own device plugin mounts other devices than those whose ids the kubelet allocates"""
    scheduler_note: ClassVar[str] = ""
    """a comment on its resources in the file that `linkwise config scheduler` prints"""

    def owns(self, resource: str) -> bool:
        """Whether a request for this resource is a request in this dialect."""
        return resource in self.resources

    @abstractmethod
    def ask(self, pod: PodView) -> Ask | Problem | None:
        """The pod's request in this dialect; a problem if it is invalid; None if there is none."""

    def share_defaults(self, pod: PodView, percent: int) -> dict[str, dict[str, str]]:
        """By container, the resources to add where a request for a part of a device omits the amount of memory."""
        del pod, percent
        return {}

    @abstractmethod
    def held(self, pod: PodView) -> Held:
        """The devices that this dialect's annotations on the pod record."""

    @abstractmethod
    def write(self, writing: Writing) -> dict[str, str]:
        """The annotations that show a grant to this dialect's users and tools."""

    def cleared(self, pod: PodView) -> dict[str, str]:
        """The pod's annotations that this dialect's tools read as allocated devices, with values that they read as none.

        A pod may carry such a record from its template. A Binding can't delete annotations, only overwrite them.
        """
        del pod
        return {}

    @abstractmethod
    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """The node by this dialect's labels, annotations and objects; None if it has none of them."""

    def resource_for(self, names: Collection[str]) -> str:
        """The resource under which a node agent serves whole devices with these ids."""
        del names
        return min(self.whole_devices)

    def advertised(self, count: int, model: str, hardware: str) -> Advertised:
        """What a node with that number of devices would advertise, for sample nodes; `hardware` as of MachineProfile."""
        del model, hardware
        return Advertised({min(self.whole_devices): str(count)}, {})


def where_pod(pod: PodView) -> str:
    """A pod as problems name it."""
    return f"pod {pod.namespace}/{pod.name}"


def where_node(view: NodeView) -> str:
    """A node as problems name it."""
    return f"node {view.name}"

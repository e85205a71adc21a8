"""The few fields of Kubernetes pods and nodes that Linkwise reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "FINISHED",
    "ContainerView",
    "HostPort",
    "NodeTerm",
    "NodeView",
    "Owner",
    "PodTerm",
    "PodView",
    "Requirement",
    "Taint",
    "Toleration",
]

FINISHED: Final = ("Succeeded", "Failed")
"""phases in which no container of a pod runs or will run"""


@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container's name and amounts, as the quantities stand in the spec."""

    name: str
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    init: bool = False
    sidecar: bool = False
    """an init container that is restarted always, so that it runs beside the others"""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that made a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label, or one field, must be."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, and of nodes Gt and Lt"""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Nodes that meet every requirement; a term without any means none."""

    expressions: tuple[Requirement, ...] = ()
    """on labels"""
    fields: tuple[Requirement, ...] = ()
    """on `metadata.name`, the only field that Kubernetes knows here"""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that another pod must, or must not, share a place with."""

    topology_key: str
    """the label of nodes that says what one place is"""
    match_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    expressions: tuple[Requirement, ...] = ()
    namespaces: tuple[str, ...] = ()
    """that these pods are in, the pod's own where its spec names none"""
    all_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node itself."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 - how Kubernetes writes all addresses; nothing is bound here


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod, as far as placing it goes."""

    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerView, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    phase: str = "Pending"
    created: float = 0.0  # seconds since the epoch
    deleting: bool = False
    priority: int = 0
    scheduler: str = ""
    gates: tuple[str, ...] = ()
    scheduling_group: str = ""
    """the name of a PodGroup that the spec itself points to"""
    owner: Owner | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[str, ...] = ()
    """resource claims; a pod that has any is another allocator's"""
    overhead: Mapping[str, str] = field(default_factory=dict)
    """what its runtime class adds"""
    hosted_by_claims: tuple[str, ...] = ()
    """resources that a claim serves in the place of a device plugin"""
    requests: Mapping[str, str] = field(default_factory=dict)
    """what the pod as a whole asks for, in the place of its containers' sum"""
    affinity: tuple[NodeTerm, ...] | None = None
    """required of nodes: one term is enough, an empty tuple means no node, None any"""
    ports: tuple[HostPort, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    """required pod anti-affinity"""
    together: tuple[PodTerm, ...] = ()
    """required pod affinity"""
    version: int = 0  # of the object; 0 if it is told none, or none that is a number
    stopped: bool = False
    """being deleted, and its containers have ended"""
    nominated: str = ""
    """the node where room is being made for it"""
    begun: bool = False
    """whether a container of it has run"""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, as far as placing pods on it goes."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    version: int = 0  # of the object; 0 if it is told none, or none that is a number

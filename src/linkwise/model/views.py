"""The few fields of Kubernetes pods and nodes that Linkwise reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ContainerView", "NodeView", "Owner", "PodView", "Taint", "Toleration"]


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

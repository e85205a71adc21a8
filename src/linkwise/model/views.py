"""Views: the fields of Kubernetes pods, nodes and disruption budgets that Linkwise reads."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - a field of a dataclass
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "FINISHED",
    "SCHEDULABLE",
    "ContainerView",
    "DisruptionBudget",
    "HostPort",
    "NodeTerm",
    "NodeView",
    "Owner",
    "PodCondition",
    "PodTerm",
    "PodView",
    "SelectorRequirement",
    "SpreadConstraint",
    "Taint",
    "Toleration",
]

SCHEDULABLE: Final = "linkwise.dev/Schedulable"
"""type of the condition in which Linkwise publishes why a pod is pending"""
FINISHED: Final = ("Succeeded", "Failed")
"""phases in which no container of a pod runs or will run"""


@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container's name and resources, with quantities as in the spec."""

    name: str
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    init: bool = False
    sidecar: bool = False
    """an init container with restartPolicy Always"""
    variables: Mapping[str, str] = field(default_factory=dict)
    """environment variables whose names contain REQUIRE, if the spec has their values"""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that a pod tolerates."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Owner:
    """The controlling owner reference of a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class SelectorRequirement:
    """A requirement on one label or field."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, and for nodes Gt and Lt"""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A node selector term: nodes that meet every requirement; an empty term selects none."""

    expressions: tuple[SelectorRequirement, ...] = ()
    """on labels"""
    fields: tuple[SelectorRequirement, ...] = ()
    """on `metadata.name`, the only field that Kubernetes supports here"""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A pod affinity or anti-affinity term."""

    topology_key: str
    """the node label that defines the topology domain"""
    match_labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[SelectorRequirement, ...] = ()
    namespaces: tuple[str, ...] = ()
    """of the selected pods; the pod's own if the spec names none"""
    all_namespaces: bool = False

    def __hash__(self) -> int:
        # With the labels: a pod may have thousands of terms that differ in nothing else, and they are counted by term.
        labels = frozenset(self.match_labels.items())
        return hash((self.topology_key, labels, self.expressions, self.namespaces, self.all_namespaces))


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A required topology spread constraint."""

    topology_key: str
    """the node label that defines the topology domain"""
    max_skew: int
    term: PodTerm
    """the pods that are counted"""
    min_domains: int = 1
    affinity_honored: bool = True
    """whether only nodes that the pod's selector and node affinity match are domains"""
    taints_honored: bool = False
    """whether only nodes whose taints the pod tolerates are domains"""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port of a container."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 - how Kubernetes writes all addresses; nothing is bound here


@dataclass(frozen=True, slots=True)
class PodCondition:
    """The condition in which Linkwise publishes why a pod is pending."""

    status: bool
    """False while it is pending"""
    reason: str
    """the code"""
    message: str
    since: float  # seconds since the epoch
    """its last transition; 0 if that can't be read"""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod, as far as scheduling needs it."""

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
    """the PodGroup that the spec names"""
    owner: Owner | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[str, ...] = ()
    """resource claims; they have devices beside those that its containers request as extended resources"""
    overhead: Mapping[str, str] = field(default_factory=dict)
    """of its runtime class"""
    hosted_by_claims: tuple[str, ...] = ()
    """extended resources that a claim of kube-scheduler's serves instead of a device plugin"""
    requests: Mapping[str, str] = field(default_factory=dict)
    """pod-level requests, which replace the sum of the containers"""
    affinity: tuple[NodeTerm, ...] | None = None
    """required node affinity: one term must match; an empty tuple matches no node, None any"""
    ports: tuple[HostPort, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    """required pod anti-affinity"""
    together: tuple[PodTerm, ...] = ()
    """required pod affinity"""
    version: int = 0  # resourceVersion; 0 if missing or not a number
    stopped: bool = False
    """being deleted, and its containers have ended"""
    nominated: str = ""
    """the nominated node, on which pods are being preempted for it"""
    begun: bool = False
    """whether any of its containers has run"""
    has_preferences: bool = False
    """whether it has preferred affinity or anti-affinity, or topology spread constraints with ScheduleAnyway"""
    unschedulable_since: float = 0.0  # seconds since the epoch
    """when its scheduler first reported it as unschedulable; 0 if it did not, or the pod is bound"""
    preempts: bool = True
    """whether its preemptionPolicy lets pods of lower priority be evicted for it"""
    condition: PodCondition | None = None
    """what is published about it; nothing is decided by it"""
    service_account: str = ""
    """as which it runs; empty if the spec names none, which is `default`"""
    unschedulable_message: str = ""
    """why its scheduler reported it as unschedulable, shortened; empty if it did not, or the pod is bound"""
    spread: tuple[SpreadConstraint, ...] = ()
    """topology spread constraints with DoNotSchedule"""
    volume_claims: tuple[str, ...] = ()
    """PersistentVolumeClaims of its volumes, those of ephemeral volumes included"""
    rejection: str = ""
    """the kubelet's message, shortened, if it rejected the pod for its devices; empty otherwise. Nothing is decided by it"""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, as far as scheduling needs it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    version: int = 0  # resourceVersion; 0 if missing or not a number
    runtime: str = ""
    """container runtime and its version, as in `containerd://2.1.4`"""
    address: str = ""
    """its first InternalIP; nothing is decided by it"""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """How many pods of a selection may be disrupted now."""

    namespace: str
    name: str
    allowed: int = 0
    """`status.disruptionsAllowed`; 0 if the controller has not set it"""
    match_labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[SelectorRequirement, ...] = ()
    disrupted: frozenset[str] = frozenset()
    """names of pods whose eviction the API server has counted already"""

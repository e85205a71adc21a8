"""Pod objects, with the fields that Linkwise reads."""

from __future__ import annotations

import msgspec

from linkwise.wire.kubernetes.metadata import Amounts, Fixed, Meta, Struct

__all__ = [
    "Affinity",
    "Container",
    "ContainerStatus",
    "Expression",
    "LabelSelector",
    "NodeSelectorTerm",
    "PodAffinityTerm",
    "PodObject",
    "PodSpec",
    "PodSpreadConstraint",
    "PodStatus",
    "PodToleration",
]


class Resources(Struct):
    """Resource requirements of a container or a pod."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class Port(Struct):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Variable(Struct):
    """An environment variable."""

    name: str = ""
    value: str | None = None


class Container(Struct):
    """A container, or an init container."""

    name: str = ""
    env: list[Variable] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[Port] | None = None


class Named(Struct):
    """A reference by name, such as a resource claim."""

    name: str = ""


class Gate(Struct):
    """A scheduling gate."""

    name: str


class SchedulingGroup(Struct):
    """Reference to a pod group."""

    pod_group_name: str = ""


class WorkloadRef(Struct):
    """Reference to a pod group in Kubernetes 1.35; later versions have schedulingGroup."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodToleration(Fixed, frozen=True):
    """A toleration."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Expression(Fixed, frozen=True):
    """A requirement on a label or a field."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(Fixed, frozen=True):
    """Requirements on one node."""

    match_expressions: tuple[Expression, ...] | None = None
    match_fields: tuple[Expression, ...] | None = None


class NodeSelector(Fixed, frozen=True):
    """Terms, of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class Present(Struct):
    """An object of which only the presence matters."""


class NodeAffinity(Struct):
    """Node affinity; of the preferred terms only the presence matters."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[Present] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class LabelSelector(Struct):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Expression, ...] | None = None


class PodAffinityTerm(Struct):
    """A term of pod affinity or anti-affinity."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class PodAffinity(Struct):
    """Pod affinity or anti-affinity; of the preferred terms only the presence matters."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[Present] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodSpreadConstraint(Struct):
    """A topology spread constraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Affinity(Struct):
    """Affinity and anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class ClaimReference(Struct):
    """A reference to a PersistentVolumeClaim."""

    claim_name: str = ""


class Volume(Struct):
    """A volume, as far as it has a PersistentVolumeClaim."""

    name: str = ""
    persistent_volume_claim: ClaimReference | None = None
    ephemeral: Present | None = None
    """its claim has the names of the pod and the volume"""


class PodSpec(Struct):
    """Spec of a pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    service_account_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[Gate] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[PodToleration, ...] | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: list[PodSpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    host_network: bool | None = None
    resources: Resources | None = None
    resource_claims: list[Named] | None = None
    overhead: Amounts | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None


class ExtendedClaimMapping(Struct):
    """An extended resource that a resource claim provides."""

    resource_name: str = ""


class ExtendedClaims(Struct):
    """The claim that provides extended resources in place of a device plugin."""

    request_mappings: list[ExtendedClaimMapping] | None = None


class ContainerState(Struct):
    """State of a container; waiting if it is neither of these."""

    running: Present | None = None
    terminated: Present | None = None


class ContainerStatus(Struct):
    """Status of a container."""

    state: ContainerState | None = None
    last_state: ContainerState | None = None
    restart_count: int = 0


class PodCondition(Struct):
    """Condition of a pod."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class PodStatus(Struct):
    """Status of a pod."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    nominated_node_name: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    extended_resource_claim_status: ExtendedClaims | None = None


class PodObject(Struct):
    """A pod or a pod template."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

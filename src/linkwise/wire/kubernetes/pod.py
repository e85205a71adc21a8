"""A Kubernetes pod as its JSON tells it, as far as Linkwise reads it."""

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
    "PodStatus",
    "PodToleration",
]


class Resources(Struct):
    """Amounts of a container, or of a pod as a whole."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class Port(Struct):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(Struct):
    """A container, or an init container."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[Port] | None = None


class Named(Struct):
    """A gate or a claim."""

    name: str = ""


class Gate(Struct):
    """What holds a pod back from scheduling."""

    name: str


class SchedulingGroup(Struct):
    """The group that a spec points to."""

    pod_group_name: str = ""


class WorkloadRef(Struct):
    """How Kubernetes 1.35 points to a group; later versions have schedulingGroup."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodToleration(Fixed, frozen=True):
    """A taint that a pod puts up with."""

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
    """Terms of which one is enough."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeAffinity(Struct):
    """What is required of nodes; what is only preferred is not read."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class LabelSelector(Struct):
    """Which labels are meant."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Expression, ...] | None = None


class PodAffinityTerm(Struct):
    """Which pods are meant, and what one place is."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class PodAffinity(Struct):
    """What is required of pods beside it."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct):
    """All that is required of places."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PodSpec(Struct):
    """What a pod asks for."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    scheduling_gates: list[Gate] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[PodToleration, ...] | None = None
    affinity: Affinity | None = None
    host_network: bool | None = None
    resources: Resources | None = None
    resource_claims: list[Named] | None = None
    overhead: Amounts | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None


class ExtendedClaimMapping(Struct):
    """A resource that a claim serves."""

    resource_name: str = ""


class ExtendedClaims(Struct):
    """The claim that stands in the place of device plugins."""

    request_mappings: list[ExtendedClaimMapping] | None = None


class Seen(Struct):
    """Something of which only its being there counts."""


class ContainerState(Struct):
    """What a container does; neither of them means that it waits."""

    running: Seen | None = None
    terminated: Seen | None = None


class ContainerStatus(Struct):
    """What a container does now, and what it did before."""

    state: ContainerState | None = None
    last_state: ContainerState | None = None
    restart_count: int = 0


class PodStatus(Struct):
    """What became of a pod."""

    phase: str | None = None
    nominated_node_name: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    extended_resource_claim_status: ExtendedClaims | None = None


class PodObject(Struct):
    """A pod, or a pod template."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

"""Kubernetes objects as JSON or YAML readers give them, turned into the views that Linkwise reads."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import msgspec

from linkwise.errors import InputError
from linkwise.model.views import ContainerView, NodeView, Owner, PodView, Taint, Toleration
from linkwise.wire.words import plain_words

__all__ = ["node_view", "pod_view"]

T = TypeVar("T")


class _Struct(msgspec.Struct, rename="camel"):
    """Fields that are not listed are not read."""


class _OwnerReference(_Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class _Meta(_Struct):
    name: str = ""
    generate_name: str = ""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_OwnerReference] | None = None


class _Resources(_Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(_Struct):
    name: str = ""
    resources: _Resources | None = None
    restart_policy: str | None = None


class _Gate(_Struct):
    name: str


class _Claim(_Struct):
    name: str = ""


class _SchedulingGroup(_Struct):
    pod_group_name: str = ""


class _WorkloadRef(_Struct):
    """How Kubernetes 1.35 points to a group; later versions have schedulingGroup."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class _Toleration(_Struct):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _PodSpec(_Struct):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    scheduling_gates: list[_Gate] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[_Toleration] | None = None
    resource_claims: list[_Claim] | None = None
    overhead: dict[str, str | int | float] | None = None
    scheduling_group: _SchedulingGroup | None = None
    workload_ref: _WorkloadRef | None = None


class _ExtendedClaimMapping(_Struct):
    resource_name: str = ""


class _ExtendedClaims(_Struct):
    request_mappings: list[_ExtendedClaimMapping] | None = None


class _PodStatus(_Struct):
    phase: str | None = None
    extended_resource_claim_status: _ExtendedClaims | None = None


class _Pod(_Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _Taint(_Struct):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class _NodeSpec(_Struct):
    unschedulable: bool = False
    taints: list[_Taint] | None = None


class _Condition(_Struct):
    type: str = ""
    status: str = ""


class _NodeStatus(_Struct):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[_Condition] | None = None


class _Node(_Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


def pod_view(document: object) -> PodView:
    """The view of a pod, or of a pod template; InputError names the field that is wrong."""
    pod = _convert(document, _Pod)
    meta, spec = pod.metadata, pod.spec
    claims = pod.status.extended_resource_claim_status
    return PodView(
        namespace=meta.namespace,
        name=meta.name or meta.generate_name,
        uid=meta.uid,
        containers=_containers(spec),
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        node=spec.node_name or "",
        phase=pod.status.phase or "Pending",
        created=_seconds(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
        priority=spec.priority or 0,
        scheduler=spec.scheduler_name or "",
        gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        scheduling_group=_scheduling_group(spec),
        owner=_owner(meta),
        node_selector=spec.node_selector or {},
        tolerations=tuple(Toleration(t.key, t.operator, t.value, t.effect) for t in spec.tolerations or ()),
        claims=tuple(claim.name for claim in spec.resource_claims or ()),
        overhead=_texts(spec.overhead),
        hosted_by_claims=tuple(found.resource_name for found in (claims.request_mappings if claims else None) or ()),
    )


def node_view(document: object) -> NodeView:
    """The view of a node; InputError names the field that is wrong."""
    node = _convert(document, _Node)
    ready = [condition.status for condition in node.status.conditions or () if condition.type == "Ready"]
    return NodeView(
        name=node.metadata.name,
        labels=node.metadata.labels or {},
        annotations=node.metadata.annotations or {},
        capacity=_texts(node.status.capacity),
        allocatable=_texts(node.status.allocatable),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in node.spec.taints or ()),
        unschedulable=node.spec.unschedulable,
        ready=ready not in (["False"], ["Unknown"]),
    )


def _convert(document: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise InputError(plain_words(error)) from error


def _containers(spec: _PodSpec) -> tuple[ContainerView, ...]:
    """Init containers first, as they run."""
    init = [_container(found, init=True) for found in spec.init_containers or ()]
    return (*init, *(_container(found, init=False) for found in spec.containers or ()))


def _container(found: _Container, *, init: bool) -> ContainerView:
    resources = found.resources or _Resources()
    sidecar = init and found.restart_policy == "Always"
    return ContainerView(found.name, _texts(resources.requests), _texts(resources.limits), init, sidecar)


def _texts(amounts: dict[str, str | int | float] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (amounts or {}).items()}


def _scheduling_group(spec: _PodSpec) -> str:
    if spec.scheduling_group:
        return spec.scheduling_group.pod_group_name
    found = spec.workload_ref or _WorkloadRef()
    return ".".join(filter(None, (found.name, found.pod_group, found.pod_group_replica_key)))


def _owner(meta: _Meta) -> Owner | None:
    references = meta.owner_references or []
    found = next((reference for reference in references if reference.controller), references[0] if references else None)
    return Owner(found.kind, found.name, found.uid) if found else None


def _seconds(timestamp: str | None) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
    except ValueError as error:
        raise InputError(f"metadata.creationTimestamp: {timestamp!r} is no time") from error

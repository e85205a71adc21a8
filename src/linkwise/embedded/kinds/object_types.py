"""Typed views of the fields that the server itself reads; a value of the wrong type is rejected before any write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.api_errors import bad_request

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "Container",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodSpec",
    "Resources",
    "decode_typed",
    "meta_of",
    "without_nulls",
]

StringMap = dict[str, str]


class ApiType(msgspec.Struct, rename="camel", frozen=True):
    """Fields named as in JSON; unlisted fields are ignored."""


class OwnerReference(ApiType, frozen=True):
    """metadata.ownerReferences."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiType, frozen=True):
    """metadata."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: StringMap = {}
    annotations: StringMap = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    generation: int = 0


class Resources(ApiType, frozen=True):
    """Resource requests and limits of a container."""

    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class Port(ApiType, frozen=True):
    """A container port."""

    container_port: int = 0
    host_port: int = 0
    name: str = ""
    protocol: str = ""


class Container(ApiType, frozen=True):
    """A container."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: list[Port] = []
    env: list[dict[str, Any]] = []


class NamedItem(ApiType, frozen=True):
    """Any list item with a name."""

    name: str = ""


class Toleration(ApiType, frozen=True):
    """A toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(ApiType, frozen=True):
    """The spec of a pod."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    volumes: list[NamedItem] = []
    node_name: str = ""
    node_selector: StringMap = {}
    scheduling_gates: list[NamedItem] = []
    restart_policy: str = ""
    scheduler_name: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    tolerations: list[Toleration] = []
    priority: int | None = None
    priority_class_name: str = ""
    affinity: dict[str, Any] = {}


class PodStatus(ApiType, frozen=True):
    """The status of a pod."""

    phase: str = ""
    conditions: list[dict[str, Any]] = []
    container_statuses: list[dict[str, Any]] = []


class Pod(ApiType, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplate(ApiType, frozen=True):
    """A pod template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class LabelSelector(ApiType, frozen=True):
    """A label selector."""

    match_labels: StringMap = {}
    match_expressions: list[dict[str, Any]] = []


class WorkloadSpec(ApiType, frozen=True):
    """The spec of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class Workload(ApiType, frozen=True):
    """An object with a pod template."""

    spec: WorkloadSpec = WorkloadSpec()


class NodeSpec(ApiType, frozen=True):
    """The spec of a node."""

    taints: list[dict[str, Any]] = []
    unschedulable: bool = False


class NodeStatus(ApiType, frozen=True):
    """The status of a node."""

    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    conditions: list[dict[str, Any]] = []
    addresses: list[dict[str, Any]] = []
    node_info: dict[str, Any] = {}


class Node(ApiType, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ConfigMap(ApiType, frozen=True):
    """A ConfigMap."""

    data: StringMap = {}


class ObjectReference(ApiType, frozen=True):
    """The involved object of an event."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Event(ApiType, frozen=True):
    """An event."""

    involved_object: ObjectReference
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0


class Lease(ApiType, frozen=True):
    """A lease."""

    spec: dict[str, Any] = {}


class _Object(ApiType, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None


_TYPES: Final[dict[str, type[ApiType]]] = {
    "pods": Pod,
    "nodes": Node,
    "configmaps": ConfigMap,
    "events": Event,
    "leases.coordination.k8s.io": Lease,
    "deployments.apps": Workload,
    "replicasets.apps": Workload,
    "statefulsets.apps": Workload,
    "daemonsets.apps": Workload,
    "jobs.batch": Workload,
}


def meta_of(document: Raw) -> ObjectMeta:
    """The metadata of an object; ApiError 400 if it is malformed."""
    try:
        return msgspec.convert(document, _Object).metadata
    except msgspec.ValidationError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def decode_typed(resource: Resource, document: Raw) -> Any:  # noqa: ANN401 - each kind has its own
    """The typed view of an object, None for kinds without one; ApiError 400 if a field has the wrong type."""
    expected = _TYPES.get(resource.group_resource)
    if expected is None:
        return None
    try:
        return msgspec.convert(document, expected)
    except msgspec.ValidationError as error:
        prefix = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise bad_request(f"{prefix}: {error}") from error


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The value without null fields; Kubernetes treats null as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value if item is not None] if isinstance(value, list) else value

"""What the server itself reads in objects, as types: whatever has another type there is refused before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.api_errors import bad_request

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw

__all__ = ["Container", "Meta", "Owner", "Pod", "PodSpec", "Resources", "check_shape", "meta_of", "without_nulls"]

Texts = dict[str, str]


class Shape(msgspec.Struct, rename="camel", frozen=True):
    """Fields are as in JSON; what is not named here is not looked at."""


class Owner(Shape, frozen=True):
    """Whose an object is."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Meta(Shape, frozen=True):
    """What all objects have."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Texts = {}
    annotations: Texts = {}
    finalizers: list[str] = []
    owner_references: list[Owner] = []
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    generation: int = 0


class Resources(Shape, frozen=True):
    """How much a container asks for."""

    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class Port(Shape, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    name: str = ""
    protocol: str = ""


class Container(Shape, frozen=True):
    """What runs."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: list[Port] = []
    env: list[dict[str, Any]] = []


class Named(Shape, frozen=True):
    """Something with a name."""

    name: str = ""


class Toleration(Shape, frozen=True):
    """A taint that does not matter."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(Shape, frozen=True):
    """What a pod wishes for."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    volumes: list[Named] = []
    node_name: str = ""
    node_selector: Texts = {}
    scheduling_gates: list[Named] = []
    restart_policy: str = ""
    scheduler_name: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    tolerations: list[Toleration] = []
    priority: int | None = None
    priority_class_name: str = ""
    affinity: dict[str, Any] = {}


class PodStatus(Shape, frozen=True):
    """What is known of a pod."""

    phase: str = ""
    conditions: list[dict[str, Any]] = []
    container_statuses: list[dict[str, Any]] = []


class Pod(Shape, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Template(Shape, frozen=True):
    """What pods are made from."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()


class LabelSelector(Shape, frozen=True):
    """Which pods are meant."""

    match_labels: Texts = {}
    match_expressions: list[dict[str, Any]] = []


class WorkloadSpec(Shape, frozen=True):
    """What Deployments and their like wish for."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    selector: LabelSelector | None = None
    template: Template = Template()


class Workload(Shape, frozen=True):
    """Something that makes pods."""

    spec: WorkloadSpec = WorkloadSpec()


class NodeSpec(Shape, frozen=True):
    """What is decided about a node."""

    taints: list[dict[str, Any]] = []
    unschedulable: bool = False


class NodeStatus(Shape, frozen=True):
    """What is known of a node."""

    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    conditions: list[dict[str, Any]] = []
    addresses: list[dict[str, Any]] = []
    node_info: dict[str, Any] = {}


class Node(Shape, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ConfigMap(Shape, frozen=True):
    """Texts."""

    data: Texts = {}


class Involved(Shape, frozen=True):
    """What an event is about."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Event(Shape, frozen=True):
    """Something that happened."""

    involved_object: Involved
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0


class Lease(Shape, frozen=True):
    """Who leads."""

    spec: dict[str, Any] = {}


class _Object(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Any = None
    status: Any = None


_SHAPES: Final[dict[str, type[Shape]]] = {
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


def meta_of(document: Raw) -> Meta:
    """The metadata; RefusedError if there is none."""
    try:
        return msgspec.convert(document, _Object).metadata
    except msgspec.ValidationError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def check_shape(resource: Resource, document: Raw) -> Any:  # noqa: ANN401 - each kind has its own
    """The object as its kind has it, where the server knows it; RefusedError if something has another type."""
    shape = _SHAPES.get(resource.full)
    if shape is None:
        return None
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        what = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise bad_request(f"{what}: {error}") from error


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same without fields that say nothing: to Kubernetes a null is an absent field."""
    if isinstance(value, dict):
        return {key: without_nulls(found) for key, found in value.items() if found is not None}
    return [without_nulls(found) for found in value if found is not None] if isinstance(value, list) else value

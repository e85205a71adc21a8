"""Typed views of the fields that the server itself reads; a wrong type is rejected before any write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from linkwise.embedded.api_errors import Cause, bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw


__all__ = [
    "GROUP",
    "MUTATING",
    "VALIDATING",
    "ClientConfig",
    "Container",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodSpec",
    "Resources",
    "Rule",
    "WebhookFields",
    "check_webhooks",
    "decode_typed",
    "meta_of",
    "without_nulls",
]

StringMap = dict[str, str]
GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = f"mutatingwebhookconfigurations.{GROUP}"
VALIDATING: Final = f"validatingwebhookconfigurations.{GROUP}"
_MAX_TIMEOUT: Final = 30  # seconds
_URL_FORMAT: Final = "desired format: https://host[/path]"


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


class ClaimReference(ApiType, frozen=True):
    """A claim of the pod that a container uses, or one request of it."""

    name: str = ""
    request: str = ""


class Resources(ApiType, frozen=True):
    """Resource requests and limits of a container."""

    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}
    claims: list[ClaimReference] = []


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


class PodClaim(ApiType, frozen=True):
    """A ResourceClaim of a pod, or the template of one."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


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
    resource_claims: list[PodClaim] = []


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


class Rule(ApiType, frozen=True):
    """Operations on resources that a webhook applies to."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class ServiceReference(ApiType, frozen=True):
    """The Service of a webhook."""

    namespace: str = ""
    name: str = ""
    path: str = ""
    port: int = 443


class ClientConfig(ApiType, frozen=True):
    """The address of a webhook."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: str = ""


class WebhookFields(ApiType, frozen=True):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()
    rules: tuple[Rule, ...] = ()
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: dict[str, Any] = msgspec.field(default_factory=dict)
    object_selector: dict[str, Any] = msgspec.field(default_factory=dict)
    side_effects: str = ""
    timeout_seconds: int = 10
    reinvocation_policy: str = "Never"
    admission_review_versions: tuple[str, ...] = ()


class _Configuration(ApiType, frozen=True):
    webhooks: tuple[WebhookFields, ...] = ()


def check_webhooks(document: Raw) -> Iterator[Cause]:
    """Validate a webhook configuration."""
    try:
        configuration = msgspec.convert(document, _Configuration)
    except msgspec.ValidationError as error:
        yield Cause("webhooks", f"Invalid value: {error}")
        return
    names = set()
    for number, webhook in enumerate(configuration.webhooks):
        path = f"webhooks[{number}]"
        if webhook.name in names:
            yield Cause(f"{path}.name", f'Duplicate value: "{webhook.name}"')
        names.add(webhook.name)
        yield from _check_webhook(path, webhook)


def _check_webhook(path: str, webhook: WebhookFields) -> Iterator[Cause]:
    if webhook.name.count(".") < 2:
        message = "should be a domain with at least three segments separated by dots"
        yield Cause(f"{path}.name", f'Invalid value: "{webhook.name}": {message}')
    if not webhook.admission_review_versions:
        yield Cause(f"{path}.admissionReviewVersions", "Required value: must specify one of v1, v1beta1")
    if not webhook.side_effects:
        yield Cause(f"{path}.sideEffects", "Required value: must specify one of None, NoneOnDryRun")
    for key, value, supported in (
        ("sideEffects", webhook.side_effects, ("None", "NoneOnDryRun")),
        ("failurePolicy", webhook.failure_policy, ("Fail", "Ignore")),
        ("matchPolicy", webhook.match_policy, ("Equivalent", "Exact")),
        ("reinvocationPolicy", webhook.reinvocation_policy, ("IfNeeded", "Never")),
    ):
        if value and value not in supported:
            choices = ", ".join(f'"{choice}"' for choice in supported)
            yield Cause(f"{path}.{key}", f'Unsupported value: "{value}": supported values: {choices}')
    if not 1 <= webhook.timeout_seconds <= _MAX_TIMEOUT:
        message = f"the timeout value must be between 1 and {_MAX_TIMEOUT} seconds"
        yield Cause(f"{path}.timeoutSeconds", f"Invalid value: {webhook.timeout_seconds}: {message}")
    yield from _check_client_config(f"{path}.clientConfig", webhook.client_config)


def _check_client_config(path: str, config: ClientConfig) -> Iterator[Cause]:
    if bool(config.url) == (config.service is not None):
        yield Cause(path, "Required value: exactly one of url or service is required")
    elif config.url:
        parts = urlsplit(config.url)
        if parts.scheme != "https":
            message = f"'https' is the only allowed URL scheme; {_URL_FORMAT}"
            yield Cause(f"{path}.url", f'Invalid value: "{parts.scheme}": {message}')
        if not parts.netloc:
            yield Cause(f"{path}.url", f'Invalid value: "": host must be specified; {_URL_FORMAT}')

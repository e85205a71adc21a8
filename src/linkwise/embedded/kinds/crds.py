"""CustomResourceDefinitions: validation, the resources they serve, and the CRDs installed at start, Volcano's among them.

Source: volcano-sh/volcano v1.14.1, config/crd. The schema has the types and limits of the fields that controllers read; all
other fields are accepted as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.dialects.kubernetes import pod_templates as workloads
from linkwise.embedded.api_errors import Cause
from linkwise.embedded.kinds.builtin import Resource
from linkwise.embedded.kinds.registry import Column, Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.storage.collection import Raw


__all__ = [
    "CRD_RESOURCE",
    "OPERATOR_JOBS",
    "PREINSTALLED",
    "SCHEMAS",
    "VOLCANO_COLUMNS",
    "WITHOUT_STATUS",
    "check_crd",
    "mark_established",
    "served_by",
]

_JOBS: Final = "jobs.batch.volcano.sh"
_POD_GROUPS: Final = "podgroups.scheduling.volcano.sh"
_QUEUES: Final = "queues.scheduling.volcano.sh"

VOLCANO_COLUMNS: Final = {
    _JOBS: (
        ("STATUS", "string", ".status.state.phase", 0),
        ("minAvailable", "integer", ".status.minAvailable", 0),
        ("RUNNINGS", "integer", ".status.running", 0),
        ("AGE", "date", ".metadata.creationTimestamp", 0),
        ("QUEUE", "string", ".spec.queue", 1),
    ),
    _POD_GROUPS: (
        ("STATUS", "string", ".status.phase", 0),
        ("minMember", "integer", ".spec.minMember", 0),
        ("RUNNINGS", "integer", ".status.running", 0),
        ("AGE", "date", ".metadata.creationTimestamp", 0),
        ("QUEUE", "string", ".spec.queue", 1),
    ),
    _QUEUES: (("PARENT", "string", ".spec.parent", 0),),
}
"""name, type, path and priority of each column, by resource"""
WITHOUT_STATUS: Final = frozenset({_POD_GROUPS})
"""resources whose status is written with the rest of the object"""

_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_EVENTS: Final = (
    *("*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "OutOfSync"),
    *("CommandIssued", "JobUpdated", "TaskFailed"),
)
_TEXT: Final = {"type": "string"}
_OBJECT_NAME: Final = {"type": "string", "maxLength": 253, "pattern": _NAME}
_EVENT: Final = {"type": "string", "enum": list(_EVENTS)}
CRD_RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"
_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")
_CRDS: Final = (
    ("linkwise.dev", "v1alpha1", "DeviceInventory", "deviceinventories", False, ("dinv",)),
    ("linkwise.dev", "v1alpha1", "AcceleratorPolicy", "acceleratorpolicies", False, ("accpol",)),
    ("scheduling.koordinator.sh", "v1alpha1", "Device", "devices", False, ()),
    ("topology.node.k8s.io", "v1alpha2", "NodeResourceTopology", "noderesourcetopologies", False, ("node-res-topo",)),
    ("scheduling.koordinator.sh", "v1alpha1", "ClusterNetworkTopology", "clusternetworktopologies", False, ()),
    ("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", True, ()),
    ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", True, ("pg", "podgroup-v1beta1")),
    ("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup", "podgroups", True, ("pg",)),
    ("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", True, ("pg",)),
    ("scheduling.volcano.sh", "v1beta1", "Queue", "queues", False, ("q", "queue-v1beta1")),
    ("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups", True, ("pg",)),
    ("batch.volcano.sh", "v1alpha1", "Job", "jobs", True, ("vcjob", "vj")),
    ("kueue.x-k8s.io", "v1beta1", "Topology", "topologies", False, ()),
    ("kai.scheduler", "v1alpha1", "Topology", "topologies", False, ()),
    ("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", False, ("hn",)),
)
OPERATOR_JOBS: Final = {f"{job.resource}.{job.group}": job for job in workloads.OPERATOR_JOBS}
"""by resource"""
_INVENTORY_COLUMNS: Final = (
    ("Mode", "string", ".spec.mode", 0),
    ("Devices", "integer", ".spec.deviceCount", 0),
    ("Healthy", "integer", ".spec.healthyCount", 0),
    ("Enforced", "boolean", ".spec.enforced", 0),
    ("Profile", "string", ".spec.profile", 1),
    ("Unit", "string", ".spec.unit", 1),
    ("Agent", "string", ".status.agentVersion", 1),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)
_POLICY_COLUMNS: Final = (
    ("Max", "integer", ".spec.maxDevices", 0),
    ("Sharing", "string", ".spec.sharing.with", 0),
    ("Devices", "integer", ".status.devices", 0),
    ("Pods", "integer", ".status.pods", 0),
    ("Refused", "integer", ".status.refusals", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)
_COLUMNS: Final = {
    "deviceinventories.linkwise.dev": _INVENTORY_COLUMNS,
    "acceleratorpolicies.linkwise.dev": _POLICY_COLUMNS,
    **VOLCANO_COLUMNS,
}


def _count(minimum: int = 0) -> Raw:
    return {"type": "integer", "minimum": minimum}


def _object(**properties: Any) -> Raw:  # noqa: ANN401 - a schema
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": properties}


def _list(items: Raw, **limits: int) -> Raw:
    return {"type": "array", "items": items, **limits}


_POLICIES: Final = _list(_object(event=_EVENT, events=_list(_EVENT), action=_TEXT, exitCode={"type": "integer"}))


_TASK: Final = _object(
    name={"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    replicas=_count(),
    minAvailable=_count(),
    maxRetry=_count(),
    template=_object(metadata=_object(), spec=_object()),
    policies=_POLICIES,
)


_JOB: Final = _object(
    minAvailable=_count(),
    minSuccess=_count(1),
    maxRetry=_count(),
    ttlSecondsAfterFinished=_count(),
    queue=_OBJECT_NAME,
    schedulerName={"type": "string", "maxLength": 63},
    priorityClassName=_OBJECT_NAME,
    plugins={"type": "object", "additionalProperties": _list(_TEXT)},
    policies=_POLICIES,
    tasks=_list(_TASK, minItems=1),
    networkTopology=_object(),
)


SCHEMAS: Final = {_JOBS: _object(spec=_JOB, status=_object())}
"""by resource"""


class _Names(msgspec.Struct, rename="camel"):
    plural: str
    kind: str
    singular: str = ""
    short_names: list[str] = []
    categories: list[str] = []


class _PrinterColumn(msgspec.Struct, rename="camel"):
    name: str
    type: str
    json_path: str
    priority: int = 0


class _Schema(msgspec.Struct, rename={"schema": "openAPIV3Schema"}):
    schema: dict[str, Any] = {}


class _Version(msgspec.Struct, rename="camel"):
    name: str
    served: bool
    storage: bool
    subresources: dict[str, Any] = {}
    additional_printer_columns: list[_PrinterColumn] = []
    schema: _Schema = msgspec.field(default_factory=_Schema)


class _Spec(msgspec.Struct, rename="camel"):
    group: str
    names: _Names
    scope: str
    versions: list[_Version]


def check_crd(document: Raw) -> Iterator[Cause]:
    """Validate a CustomResourceDefinition."""
    try:
        spec = msgspec.convert(document.get("spec"), _Spec)
    except msgspec.ValidationError as error:
        yield Cause("spec", f"Invalid value: {error}")
        return
    name = f"{spec.names.plural}.{spec.group}"
    if document["metadata"].get("name") != name:
        yield Cause("metadata.name", f'Invalid value: "{document["metadata"].get("name")}": must be {name}')
    if spec.scope not in {"Cluster", "Namespaced"}:
        yield Cause("spec.scope", f'Unsupported value: "{spec.scope}": supported values: "Cluster", "Namespaced"')
    if sum(version.storage for version in spec.versions) != 1:
        yield Cause("spec.versions", "Invalid value: must have exactly one version marked as storage version")


def served_by(document: Raw) -> tuple[str, list[Served]]:
    """The resource that a validated CRD serves: its name and its versions, the storage version first."""
    spec = msgspec.convert(document["spec"], _Spec)
    versions = sorted(
        (version for version in spec.versions if version.served), key=lambda candidate: not candidate.storage
    )
    return f"{spec.names.plural}.{spec.group}", [_served(spec, version) for version in versions]


def _served(spec: _Spec, version: _Version) -> Served:
    names = spec.names
    resource = Resource(
        group=spec.group,
        version=version.name,
        plural=names.plural,
        kind=names.kind,
        namespaced=spec.scope == "Namespaced",
        short_names=tuple(names.short_names),
        subresources=tuple(name for name in ("status", "scale") if name in version.subresources),
        has_generation=True,
        custom=True,
        requires_resource_version=True,
        categories=tuple(names.categories),
        singular=names.singular,
    )
    columns = [
        Column(column.name, column.type, column.json_path, column.priority > 0)
        for column in version.additional_printer_columns
    ]
    return Served(resource, tuple(columns) or (_AGE,), version.schema.schema or None)


def mark_established(document: Raw, now: str) -> None:
    """Set the names, the storage versions and the Established condition in the status."""
    spec: Raw = document["spec"]
    spec["names"].setdefault("singular", spec["names"]["kind"].lower())
    spec["names"].setdefault("listKind", f"{spec['names']['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    conditions = {
        "NamesAccepted": ("NoConflicts", "no conflicts found"),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted"),
    }
    document["status"] = {
        "acceptedNames": dict(spec["names"]),
        "storedVersions": [version["name"] for version in spec["versions"] if version["storage"]],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
            for kind, (reason, message) in conditions.items()
        ],
    }


def _crd(group: str, version: str, kind: str, plural: str, namespaced: bool, short: tuple[str, ...], *more: str) -> Raw:  # noqa: FBT001, PLR0913, PLR0917 - a row
    """The CRD of a row; `more` are further versions, which differ in nothing but their name."""
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": list(short)}
    resource = f"{plural}.{group}"
    columns = [
        {"name": name, "type": column_type, "jsonPath": path, "priority": priority}
        for name, column_type, path, priority in _COLUMNS.get(resource, ())
    ]
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served: Raw = {
        "served": True,
        "subresources": {} if resource in WITHOUT_STATUS else {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": SCHEMAS.get(resource, open_schema)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": names,
            "versions": [{**served, "name": name, "storage": name == version} for name in (version, *more)],
        },
    }


PREINSTALLED: Final = (
    *(_crd(*row) for row in _CRDS),
    *(
        _crd(job.group, job.versions[0], job.kind, f"{job.kind.lower()}s", True, job.short, *job.versions[1:])  # noqa: FBT003 - a row
        for job in OPERATOR_JOBS.values()
    ),
)
"""the CRDs that Linkwise reads and those of common manifests; their schemas accept unknown fields"""

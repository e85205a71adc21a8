"""Volcano's CRDs: printer columns of Jobs, PodGroups and Queues, and the schema of Jobs.

Source: volcano-sh/volcano v1.14.1, config/crd. The schema has the types and limits of the fields that controllers read; all
other fields are accepted as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

__all__ = ["COLUMNS", "SCHEMAS", "WITHOUT_STATUS"]

_JOBS: Final = "jobs.batch.volcano.sh"
_POD_GROUPS: Final = "podgroups.scheduling.volcano.sh"
_QUEUES: Final = "queues.scheduling.volcano.sh"

COLUMNS: Final = {
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


def _count(minimum: int = 0) -> Raw:
    return {"type": "integer", "minimum": minimum}


def _object(**properties: Any) -> Raw:  # noqa: ANN401 - a schema
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": properties}


def _list(items: Raw, **limits: int) -> Raw:
    return {"type": "array", "items": items, **limits}


_TEXT: Final = {"type": "string"}
_OBJECT_NAME: Final = {"type": "string", "maxLength": 253, "pattern": _NAME}
_EVENT: Final = {"type": "string", "enum": list(_EVENTS)}
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

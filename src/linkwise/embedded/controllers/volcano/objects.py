"""Typed view of a Volcano Job: the fields of its spec and status that the controller reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from linkwise.embedded.kinds.object_types import ApiType, ObjectMeta

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

__all__ = ["Job", "JobSpec", "JobStatus", "Policy", "Task", "read_job", "section"]


class Policy(ApiType, frozen=True):
    """What happens to the Job upon an event of a pod or task."""

    event: str = ""
    events: tuple[str, ...] = ()
    action: str = ""
    exit_code: int | None = None
    timeout: Any = None


class Task(ApiType, frozen=True):
    """Equal pods of a Job."""

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    policies: tuple[Policy, ...] = ()
    depends_on: Any = None
    partition_policy: Any = None

    @property
    def minimum(self) -> int:
        """The number of its pods that start together with the rest of the Job."""
        return self.replicas if self.min_available is None else self.min_available


class JobSpec(ApiType, frozen=True):
    """The spec of a Job."""

    tasks: tuple[Task, ...] = ()
    min_available: int = 0
    min_success: int | None = None
    max_retry: int = 3
    queue: str = "default"
    scheduler_name: str = "volcano"
    priority_class_name: str = ""
    ttl_seconds_after_finished: int | None = None
    policies: tuple[Policy, ...] = ()
    plugins: dict[str, Any] = msgspec.field(default_factory=dict)
    volumes: Any = None
    network_topology: Any = None

    @property
    def replicas(self) -> int:
        """The number of pods of all tasks."""
        return sum(task.replicas for task in self.tasks)


class _State(ApiType, frozen=True):
    phase: str = ""
    last_transition_time: str = ""


class _TaskStatus(ApiType, frozen=True):
    phase: dict[str, int] = msgspec.field(default_factory=dict)


class JobStatus(ApiType, frozen=True):
    """The part of a Job's status that the controller reads again."""

    state: _State = _State()
    version: int = 0
    """of its pods; all pods of an older version are deleted"""
    retry_count: int = 0
    task_status_count: dict[str, _TaskStatus] = msgspec.field(default_factory=dict)

    def pods(self, task: str) -> int:
        """The number of pods that a task had when the status was written."""
        counted = self.task_status_count.get(task)
        return sum(counted.phase.values()) if counted else 0


class Job(ApiType, frozen=True):
    """A Volcano Job."""

    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


def read_job(document: Raw) -> Job | str:
    """The typed view of a Job; the reason if it can't be read. A status that can't be read counts as empty."""
    try:
        return msgspec.convert(document, Job)
    except msgspec.ValidationError as error:
        without_status = {key: value for key, value in document.items() if key != "status"}
        try:
            return msgspec.convert(without_status, Job)
        except msgspec.ValidationError:
            return str(error)


def section(document: Raw, key: str) -> Raw:
    """A part of an object, such as spec or status; empty if there is none."""
    part = document.get(key)
    return part if isinstance(part, dict) else {}

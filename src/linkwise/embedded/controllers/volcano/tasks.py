"""Pods of a Volcano Job: which exist, which are missing, and the pod of a task and index.

Source: volcano-sh/volcano v1.14.1, pkg/controllers/job and its plugin env.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.controllers.owned import controller_reference, dependents_of
from linkwise.embedded.controllers.volcano.names import (
    FINISHED_POD,
    GROUP_NAME,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    QUEUE_NAME,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.controllers.volcano.objects import Job, Task
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["JobPod", "JobPods", "pod_group_name", "task_pod"]

_INDEX_VARIABLES: Final = ("VK_TASK_INDEX", "VC_TASK_INDEX")
_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod of a Job."""

    stored: Stored
    task: str
    index: int
    version: int
    """of the Job when the pod was created"""

    @property
    def phase(self) -> str:
        """The phase of the pod."""
        return self.stored.fields.get("status.phase", "") or "Pending"

    @property
    def deleting(self) -> bool:
        """Whether the pod is being deleted."""
        return b'"deletionTimestamp"' in self.stored.data

    @property
    def finished(self) -> bool:
        """Whether its containers have ended."""
        return self.phase in FINISHED_POD

    def exit_code(self) -> int:
        """The exit code of its first container; 0 if it has none."""
        statuses = (self.stored.read().get("status") or {}).get("containerStatuses") or ()
        terminated = ((statuses[0].get("state") or {}) if statuses else {}).get("terminated") or {}
        return int(terminated.get("exitCode") or 0)


class JobPods:
    """The pods of a Job as they are."""

    def __init__(self, store: Store, stored: Stored, job: Job) -> None:
        self._replicas = {task.name: task.replicas for task in job.spec.tasks}
        self._job = job
        self.all: Final = [_job_pod(pod) for pod in dependents_of(store, stored, "pods")]

    @cached_property
    def wanted(self) -> list[JobPod]:
        """The pods with an index that their task still has."""
        return [pod for pod in self.all if pod.index < self._replicas.get(pod.task, 0)]

    @cached_property
    def surplus(self) -> list[JobPod]:
        """The pods that the tasks no longer have."""
        return [pod for pod in self.all if pod.index >= self._replicas.get(pod.task, 0)]

    @cached_property
    def current(self) -> list[JobPod]:
        """The wanted pods of the Job's current version."""
        return [pod for pod in self.wanted if pod.version == self._job.status.version]

    def missing(self) -> Iterator[tuple[Task, int]]:
        """Tasks and indexes without a pod; a pod that is being deleted still has its name."""
        existing = {(pod.task, pod.index) for pod in self.all}
        for task in self._job.spec.tasks:
            for index in range(task.replicas):
                if (task.name, index) not in existing:
                    yield task, index

    def counts(self) -> Raw:
        """The numbers of pods, as in the status of a Job: those that are not zero."""
        alive = [pod for pod in self.wanted if not pod.deleting]
        phases = Counter(pod.phase for pod in alive)
        tasks: dict[str, Counter[str]] = {}
        for pod in self.current:
            if not pod.deleting:
                tasks.setdefault(pod.task, Counter())[pod.phase] += 1
        numbers = {phase.lower(): phases[phase] for phase in _PHASES}
        numbers["terminating"] = sum(pod.deleting for pod in self.all)
        by_task = {task: {"phase": dict(sorted(counted.items()))} for task, counted in sorted(tasks.items())}
        return {key: number for key, number in numbers.items() if number} | (
            {"taskStatusCount": by_task} if by_task else {}
        )


def pod_group_name(job: Job) -> str:
    """The name of a Job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def task_pod(document: Raw, job: Job, task: Task, index: int) -> Raw:
    """The pod of a task and index."""
    meta, spec, number = task.template.get("metadata") or {}, job.spec, str(index)
    labels = {
        TASK_INDEX: number,
        JOB_NAME: job.metadata.name,
        TASK_SPEC: task.name,
        JOB_NAMESPACE: job.metadata.namespace,
        QUEUE_NAME: spec.queue,
    }
    annotations = {
        TASK_INDEX: number,
        TASK_SPEC: task.name,
        GROUP_NAME: pod_group_name(job),
        JOB_NAME: job.metadata.name,
        QUEUE_NAME: spec.queue,
        JOB_VERSION: str(job.status.version),
        TEMPLATE: f"{job.metadata.name}-{task.name}",
        JOB_RETRY_COUNT: str(job.status.retry_count),
    }
    return {
        "metadata": {
            "name": f"{job.metadata.name}-{task.name}-{index}",
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {**(meta.get("annotations") or {}), **annotations},
            "ownerReferences": [controller_reference(document)],
        },
        "spec": _pod_spec(job, task, number),
    }


def _pod_spec(job: Job, task: Task, index: str) -> Raw:
    spec: dict[str, Any] = {**(task.template.get("spec") or {})}
    spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name
    if job.spec.priority_class_name:
        spec["priorityClassName"] = spec.get("priorityClassName") or job.spec.priority_class_name
    if "env" in job.spec.plugins:
        variables = [{"name": name, "value": index} for name in _INDEX_VARIABLES]
        for key in ("containers", "initContainers"):
            if spec.get(key):
                spec[key] = [
                    {**container, "env": [*(container.get("env") or ()), *variables]} for container in spec[key]
                ]
    return spec


def _job_pod(stored: Stored) -> JobPod:
    annotations = stored.read()["metadata"].get("annotations") or {}
    return JobPod(
        stored,
        str(annotations.get(TASK_SPEC, "")),
        _number(annotations.get(TASK_INDEX)),
        _number(annotations.get(JOB_VERSION)),
    )


def _number(text: object) -> int:
    """A number that this controller wrote; 0 if it was changed into something else."""
    return int(text) if isinstance(text, str) and text.isdecimal() else 0

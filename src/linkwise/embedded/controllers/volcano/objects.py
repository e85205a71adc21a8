"""Objects of Volcano: typed views of a Job and of the pods of its tasks, and the names that the controllers use.

Source: volcano-sh/apis v1.14.0, batch/v1alpha1 and scheduling/v1beta1.

Source: volcano-sh/volcano v1.14.1, pkg/controllers/job and its plugin env.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.controllers.owned import controller_reference, dependents_of
from linkwise.embedded.kinds.object_types import ApiType, ObjectMeta
from linkwise.embedded.users import service_account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = [
    "CONTROLLERS",
    "DEFAULT_QUEUE",
    "FINISHED_JOB",
    "FINISHED_POD",
    "GROUP_MIN_MEMBER",
    "GROUP_NAME",
    "GROUP_PREFIX",
    "JOBS",
    "JOB_NAME",
    "JOB_NAMESPACE",
    "JOB_RETRY_COUNT",
    "JOB_VERSION",
    "POD_GROUPS",
    "POD_QUEUE",
    "QUEUES",
    "QUEUE_NAME",
    "ROOT_QUEUE",
    "SCHEDULER",
    "SCHEDULER_USER",
    "TASK_INDEX",
    "TASK_SPEC",
    "TEMPLATE",
    "Job",
    "JobPod",
    "JobPods",
    "JobSpec",
    "JobStatus",
    "Policy",
    "Task",
    "pod_group_name",
    "read_job",
    "section",
    "task_pod",
]

JOBS: Final = "jobs.batch.volcano.sh"
POD_GROUPS: Final = "podgroups.scheduling.volcano.sh"
QUEUES: Final = "queues.scheduling.volcano.sh"
SCHEDULER: Final = "volcano"
CONTROLLERS: Final = service_account("volcano-system", "volcano-controllers")
"""the user of Volcano's controllers, which webhooks know from other users"""
SCHEDULER_USER: Final = service_account("volcano-system", "volcano-scheduler")
DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"
FINISHED_JOB: Final = ("Completed", "Failed", "Terminated", "Aborted")
FINISHED_POD: Final = ("Succeeded", "Failed")
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
QUEUE_NAME: Final = "volcano.sh/queue-name"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE: Final = "volcano.sh/template-uid"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
POD_QUEUE: Final = "scheduling.volcano.sh/queue-name"
GROUP_PREFIX: Final = "podgroup-"
"""of PodGroups that are made for pods without one; the UID of the pod or of its controller follows"""
_INDEX_VARIABLES: Final = ("VK_TASK_INDEX", "VC_TASK_INDEX")
_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")


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

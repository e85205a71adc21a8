"""Volcano Job controller: PodGroup, pods, lifecycle policies and status of each Job.

    Pending ⇄ Running ─> Completed | Failed
       │         │
       └────┬────┘  (policies)
            ├─> Restarting ─> Pending, or Failed after maxRetry
            └─> Aborting | Completing | Terminating ─> Aborted | Completed | Terminated

The phase is written before pods are deleted: a controller that starts again in between goes on deleting, and does not take
these pods for evicted ones. Pods carry the version of the Job for which they were created, and a restart begins a new one.
Source: volcano-sh/volcano v1.14.1, pkg/controllers/job.

Events are read from the pods and the last status, not from watch events, so that none is missed while the controller is away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.controllers.owned import controller_reference, delete_pod
from linkwise.embedded.controllers.volcano.objects import (
    FINISHED_JOB,
    JOBS,
    POD_GROUPS,
    JobPods,
    pod_group_name,
    read_job,
    section,
    task_pod,
)
from linkwise.embedded.controllers.volcano.pod_groups import job_min_resources, queue_problem
from linkwise.embedded.kubectl.tables import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.controllers.owned import Client
    from linkwise.embedded.controllers.volcano.objects import Job, Policy
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = [
    "ACTIONS",
    "LifecycleEvent",
    "difference",
    "job_status",
    "lifecycle_events",
    "next_phase",
    "policy_action",
    "sync_volcano_job",
    "unsupported_parts",
]

_ENDING: Final = {"Aborting": "Aborted", "Completing": "Completed", "Terminating": "Terminated"}
_EXPIRING: Final = ("Completed", "Failed", "Terminated")
"""phases after which ttlSecondsAfterFinished counts"""
ACTIONS: Final = {
    "RestartJob": "Restarting",
    "AbortJob": "Aborting",
    "TerminateJob": "Terminating",
    "CompleteJob": "Completing",
}
"""the supported actions, and the phase that follows each"""
_EVENTS: Final = ("*", "PodFailed", "PodEvicted", "TaskCompleted")
_PLUGINS: Final = ("env",)
_KEPT: Final = ("state", "version", "retryCount", "conditions", "controlledResources")
_MAX_CONDITIONS: Final = 20


async def sync_volcano_job(client: Client, stored: Stored) -> float | None:
    """Take a Job one step further; returns the seconds until it is to be looked at again, if it is."""
    document = stored.read()
    job = read_job(document)
    if isinstance(job, str):
        client.recorder.record(document, "Warning", "InvalidJob", f"The Job can't be read: {job}")
        return None
    return await _JobSync(client, stored, document, job).step()


class _JobSync:
    """One step of a Job."""

    def __init__(self, client: Client, stored: Stored, document: Raw, job: Job) -> None:
        self._client, self._stored, self._document, self._job = client, stored, document, job
        self._pods = JobPods(client.store, stored, job)
        self._key: Final = (pod_group_name(job), job.metadata.namespace)
        """name and namespace of the PodGroup"""

    async def step(self) -> float | None:
        """Do what is due in the phase of the Job."""
        phase = self._job.status.state.phase
        if phase in FINISHED_JOB:
            await self._stop()
            await self._write()
            return await self._expire()
        if not phase:
            await self._begin()
        elif phase in _ENDING:
            await self._stop()
            ended = all(pod.finished and not pod.deleting for pod in self._pods.all)
            await self._write(_ENDING[phase] if ended else "")
        elif phase == "Restarting":
            await self._restart()
        else:
            await self._run()
        return None

    async def _begin(self) -> None:
        if ignored := unsupported_parts(self._job):
            self._record("Warning", "Ignored", f"The embedded cluster ignores {', '.join(ignored)}")
        controlled = {"plugin-env": "env"} if "env" in self._job.spec.plugins else None
        await self._write("Pending", controlledResources=controlled)

    async def _run(self) -> None:
        for event in lifecycle_events(self._job, self._pods):
            if action := policy_action(self._job, event):
                await self._execute(action, event)
                return
        if await self._is_enqueued():
            await self._create_missing()
            for pod in self._pods.surplus:
                if not pod.deleting:
                    await delete_pod(self._client, pod.stored)
        elif problem := queue_problem(self._client.store, self._job.spec.queue):
            self._record("Warning", "PodGroupPending", f"The Job stays Pending: {problem}")
        self._pods = JobPods(self._client.store, self._stored, self._job)
        await self._write(next_phase(self._job, self._pods))

    async def _execute(self, action: str, event: LifecycleEvent) -> None:
        """Begin an action of a policy: the pods are of an older version from now on."""
        message = f"Start to execute action {action}: {event.name} of {event.subject}"
        self._record("Normal", "ExecuteAction", message)
        status = self._job.status
        retries = status.retry_count + (action == "RestartJob")
        await self._write(ACTIONS[action], version=status.version + 1, retryCount=retries or None, taskStatusCount=None)

    async def _restart(self) -> None:
        if self._job.status.retry_count >= self._job.spec.max_retry:
            await self._write("Failed")
            return
        for pod in self._pods.all:
            if pod.version < self._job.status.version and not pod.deleting:
                await delete_pod(self._client, pod.stored)
        await self._delete_pod_group()
        await self._write("Pending", taskStatusCount=None)

    async def _expire(self) -> float | None:
        """Delete a finished Job when its time has come, or return how long that is."""
        ttl, state = self._job.spec.ttl_seconds_after_finished, self._job.status.state
        if ttl is None or state.phase not in _EXPIRING:
            return None
        remaining = _seconds(state.last_transition_time) + ttl - self._client.store.database.clock()
        if remaining > 0:
            return remaining
        await self._client.delete(JOBS, self._stored.name, self._stored.namespace)
        return None

    async def _stop(self) -> None:
        """Delete the PodGroup, and the pods that have not finished; the others stay for their logs."""
        for pod in self._pods.all:
            if not pod.finished and not pod.deleting:
                await delete_pod(self._client, pod.stored)
        await self._delete_pod_group()

    async def _create_missing(self) -> None:
        """Create all missing pods; the first failure is raised after the others were tried."""
        failure: ApiError | None = None
        for task, index in self._pods.missing():
            try:
                pod = task_pod(self._document, self._job, task, index)
                await self._client.create("pods", pod, self._stored.namespace)
            except ApiError as error:
                failure = failure or error
                self._record("Warning", "FailedCreate", f"Error creating pods: {error.message}")
        if failure:
            raise failure

    async def _is_enqueued(self) -> bool:
        """Create or update the PodGroup; whether the scheduler has admitted it, so that pods may be created."""
        (name, namespace), spec = self._key, _pod_group_spec(self._job)
        stored = self._client.store.find(POD_GROUPS, *self._key)
        if stored is None:
            meta = {"name": name, "ownerReferences": [controller_reference(self._document)]}
            copied = {key: value for key in ("labels", "annotations") if (value := self._document["metadata"].get(key))}
            await self._client.create(POD_GROUPS, {"metadata": meta | copied, "spec": spec}, namespace)
            return False
        group = stored.read()
        old = section(group, "spec")
        if any(old.get(key) != value for key, value in spec.items()):
            await self._client.patch(POD_GROUPS, name, {"spec": difference(old, old | spec)}, namespace)
        return section(group, "status").get("phase") not in {None, "", "Pending"}

    async def _delete_pod_group(self) -> None:
        stored = self._client.store.find(POD_GROUPS, *self._key)
        if stored is not None and b'"deletionTimestamp"' not in stored.data:
            await self._client.delete(POD_GROUPS, *self._key)

    async def _write(self, phase: str = "", **changes: Any) -> None:  # noqa: ANN401 - JSON
        """Write the status if it differs; a change of None removes the field."""
        old, now = section(self._document, "status"), self._client.store.database.now
        new = job_status(now, old, self._job, self._pods, phase) | changes
        new = {key: value for key, value in new.items() if value is not None}
        if new != old:
            patch = {"status": difference(old, new)}
            await self._client.patch(JOBS, self._stored.name, patch, self._stored.namespace, "status")

    def _record(self, event_type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._client.recorder.record(self._document, event_type, reason, message)


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """Something that happened to a pod or task, and that policies name."""

    name: str
    task: str
    subject: str
    """the pod or task, for messages"""
    exit_code: int = 0


def lifecycle_events(job: Job, pods: JobPods) -> Iterator[LifecycleEvent]:
    """What has happened to the pods of the current version."""
    for pod in pods.current:
        if pod.deleting:
            yield LifecycleEvent("PodEvicted", pod.task, f"pod {pod.stored.name}")
        elif pod.phase == "Failed":
            yield LifecycleEvent("PodFailed", pod.task, f"pod {pod.stored.name}", pod.exit_code())
    for task in job.spec.tasks:
        existing = [pod for pod in pods.current if pod.task == task.name]
        if len(existing) < min(job.status.pods(task.name), task.replicas):
            yield LifecycleEvent("PodEvicted", task.name, f"a pod of task {task.name}")
        if 0 < task.replicas <= sum(pod.phase == "Succeeded" and not pod.deleting for pod in existing):
            yield LifecycleEvent("TaskCompleted", task.name, f"task {task.name}")


def policy_action(job: Job, event: LifecycleEvent) -> str:
    """The action of the first policy that matches, of the task and then of the Job; empty if there is none."""
    of_task = next((task.policies for task in job.spec.tasks if task.name == event.task), ())
    for policy in (*of_task, *job.spec.policies):
        if _matches(policy, event):
            return policy.action if policy.action in ACTIONS else ""
    return ""


def unsupported_parts(job: Job) -> list[str]:
    """The fields of a Job that have no effect here."""
    spec = job.spec
    parts = [f"spec.plugins.{name}" for name in sorted(spec.plugins) if name not in _PLUGINS]
    parts += ["spec.volumes"] if spec.volumes else []
    parts += _unsupported_policies("spec.policies", spec.policies)
    for index, task in enumerate(spec.tasks):
        path = f"spec.tasks[{index}]"
        parts += [f"{path}.dependsOn"] if task.depends_on else []
        parts += [f"{path}.partitionPolicy"] if task.partition_policy else []
        parts += _unsupported_policies(f"{path}.policies", task.policies)
    return parts


def next_phase(job: Job, pods: JobPods) -> str:
    """The phase of a Job that is Pending or Running."""
    phase, spec, counts = job.status.state.phase, job.spec, pods.counts()
    pending, running, succeeded, failed = (counts.get(key, 0) for key in ("pending", "running", "succeeded", "failed"))
    if not spec.replicas:
        return phase  # scaled to zero
    if phase == "Pending":
        return "Running" if spec.min_available <= running + succeeded + failed else phase
    if spec.min_success is not None and succeeded >= spec.min_success:
        return "Completed"
    if succeeded + failed == spec.replicas:
        return "Completed" if _has_succeeded(job, pods, succeeded) else "Failed"
    return "Pending" if pending > spec.replicas - spec.min_available else phase


def job_status(now: str, old: Raw, job: Job, pods: JobPods, phase: str) -> Raw:
    """The status of a Job with the numbers of its pods and its phase; empty if the phase stays."""
    new = {key: old[key] for key in _KEPT if key in old} | pods.counts() | {"minAvailable": job.spec.min_available}
    if phase and phase != job.status.state.phase:
        new["state"] = {"phase": phase, "lastTransitionTime": now}
        earlier = old.get("conditions")
        condition = {"status": phase, "lastTransitionTime": now}
        new["conditions"] = [*(earlier if isinstance(earlier, list) else ()), condition][-_MAX_CONDITIONS:]
    return new


def difference(old: Raw, new: Raw) -> Raw:
    """The JSON merge patch that turns one object into another."""
    patch: Raw = dict.fromkeys(key for key in old if key not in new)
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            patch[key] = difference(before, value)
        elif value != before:
            patch[key] = value
    return patch


def _seconds(timestamp: str) -> float:
    try:
        return parse_time(timestamp)
    except ValueError:
        return 0.0


def _pod_group_spec(job: Job) -> Raw:
    spec = job.spec
    group: Raw = {
        "minMember": spec.min_available,
        "minTaskMember": {task.name: task.minimum for task in spec.tasks},
        "queue": spec.queue,
        "minResources": job_min_resources(spec),
    }
    if spec.priority_class_name:
        group["priorityClassName"] = spec.priority_class_name
    if isinstance(spec.network_topology, dict):
        group["networkTopology"] = spec.network_topology
    return group


def _matches(policy: Policy, event: LifecycleEvent) -> bool:
    events = _events(policy)
    by_event = event.name in events or "*" in events
    by_code = policy.exit_code is not None and event.exit_code == policy.exit_code
    return by_event or (event.name == "PodFailed" and by_code)


def _events(policy: Policy) -> tuple[str, ...]:
    return (*policy.events, policy.event) if policy.event else policy.events


def _unsupported_policies(path: str, policies: tuple[Policy, ...]) -> Iterator[str]:
    for index, policy in enumerate(policies):
        if policy.action not in ACTIONS:
            yield f"{path}[{index}].action {policy.action}"
        elif unknown := [name for name in _events(policy) if name not in _EVENTS]:
            yield f"{path}[{index}].event {', '.join(unknown)}"
        if policy.timeout is not None:
            yield f"{path}[{index}].timeout"


def _has_succeeded(job: Job, pods: JobPods, succeeded: int) -> bool:
    """Whether enough pods have succeeded, of the Job and, if it needs all that its tasks need, of each task."""
    spec = job.spec
    if spec.min_available >= sum(task.minimum for task in spec.tasks):
        for task in spec.tasks:
            if sum(pod.phase == "Succeeded" for pod in pods.wanted if pod.task == task.name) < task.minimum:
                return False
    return succeeded >= (spec.min_available if spec.min_success is None else spec.min_success)

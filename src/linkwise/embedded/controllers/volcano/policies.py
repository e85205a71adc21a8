"""Lifecycle policies of a Volcano Job: what has happened to its pods, and the action that a policy asks for.

Events are read from the pods and the last status, not from watch events, so that none is missed while the controller is away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.controllers.volcano.objects import Job, Policy
    from linkwise.embedded.controllers.volcano.tasks import JobPods

__all__ = ["ACTIONS", "LifecycleEvent", "lifecycle_events", "policy_action", "unsupported_parts"]

ACTIONS: Final = {
    "RestartJob": "Restarting",
    "AbortJob": "Aborting",
    "TerminateJob": "Terminating",
    "CompleteJob": "Completing",
}
"""the supported actions, and the phase that follows each"""
_EVENTS: Final = ("*", "PodFailed", "PodEvicted", "TaskCompleted")
_PLUGINS: Final = ("env",)


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


def _unsupported_policies(path: str, policies: tuple[Policy, ...]) -> Iterator[str]:
    for index, policy in enumerate(policies):
        if policy.action not in ACTIONS:
            yield f"{path}[{index}].action {policy.action}"
        elif unknown := [name for name in _events(policy) if name not in _EVENTS]:
            yield f"{path}[{index}].event {', '.join(unknown)}"
        if policy.timeout is not None:
            yield f"{path}[{index}].timeout"


def _matches(policy: Policy, event: LifecycleEvent) -> bool:
    events = _events(policy)
    by_event = event.name in events or "*" in events
    by_code = policy.exit_code is not None and event.exit_code == policy.exit_code
    return by_event or (event.name == "PodFailed" and by_code)


def _events(policy: Policy) -> tuple[str, ...]:
    return (*policy.events, policy.event) if policy.event else policy.events

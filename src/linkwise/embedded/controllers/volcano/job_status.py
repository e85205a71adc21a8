"""Status of a Volcano Job: the numbers of its pods, and the phase that follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.embedded.controllers.volcano.objects import Job
    from linkwise.embedded.controllers.volcano.tasks import JobPods
    from linkwise.embedded.storage.collection import Raw

__all__ = ["difference", "job_status", "next_phase"]

_KEPT: Final = ("state", "version", "retryCount", "conditions", "controlledResources")
_MAX_CONDITIONS: Final = 20


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


def _has_succeeded(job: Job, pods: JobPods, succeeded: int) -> bool:
    """Whether enough pods have succeeded, of the Job and, if it needs all that its tasks need, of each task."""
    spec = job.spec
    if spec.min_available >= sum(task.minimum for task in spec.tasks):
        for task in spec.tasks:
            if sum(pod.phase == "Succeeded" for pod in pods.wanted if pod.task == task.name) < task.minimum:
                return False
    return succeeded >= (spec.min_available if spec.min_success is None else spec.min_success)


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

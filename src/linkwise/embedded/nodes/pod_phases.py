"""Pod status of a simulated kubelet: running, crashing, finished, killed and rejected pods.

Annotations control the lifecycle: `sim.linkwise.dev/seconds` is how long the containers run,
`sim.linkwise.dev/exit-code` their exit code, and `sim.linkwise.dev/stop-seconds` how long they take to terminate.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.embedded.writes.field_rules import with_condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "EXIT_CODE",
    "SECONDS",
    "STOP_SECONDS",
    "Lifecycle",
    "crashing_status",
    "finished_status",
    "killed_status",
    "lifecycle_of",
    "rejected_status",
    "running_status",
]

SECONDS: Final = "sim.linkwise.dev/seconds"
EXIT_CODE: Final = "sim.linkwise.dev/exit-code"
STOP_SECONDS: Final = "sim.linkwise.dev/stop-seconds"


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The simulated lifecycle of a pod."""

    run_seconds: float | None
    """None: until deleted"""
    exit_code: int
    stop_seconds: float | None
    """None: the default of the simulation"""


def lifecycle_of(pod: Raw, job_seconds: float) -> Lifecycle:
    """Read the annotations; by default pods of Jobs complete and others run until deleted. Invalid numbers are ignored."""
    annotations = pod["metadata"].get("annotations") or {}
    owned_by_job = any(owner.get("kind") == "Job" for owner in pod["metadata"].get("ownerReferences") or ())
    seconds = _number(annotations, SECONDS)
    if seconds is None and owned_by_job:
        seconds = job_seconds
    return Lifecycle(seconds, int(_number(annotations, EXIT_CODE) or 0), _number(annotations, STOP_SECONDS))


def running_status(pod: Raw, now: str, restarts: int = 0) -> Raw:
    """Status with running containers."""
    status = pod.get("status") or {}
    number = zlib.crc32(pod["metadata"]["uid"].encode())
    address = f"10.{244 + (number >> 16 & 7)}.{number >> 8 & 255}.{number & 255}"
    conditions = status.get("conditions")
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        conditions = with_condition(conditions, {"type": kind, "status": "True", "lastTransitionTime": now})
    return {
        "phase": "Running",
        "conditions": conditions,
        "startTime": status.get("startTime", now),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": _container_statuses(pod, {"running": {"startedAt": now}}, restarts, ready=True),
    }


def crashing_status(pod: Raw, now: str, restarts: int) -> Raw:
    """Status with containers in CrashLoopBackOff."""
    conditions = (pod.get("status") or {}).get("conditions")
    for kind in ("Ready", "ContainersReady"):
        condition = {"type": kind, "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": now}
        conditions = with_condition(conditions, condition)
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    return {"conditions": conditions, "containerStatuses": _container_statuses(pod, state, restarts, ready=False)}


def finished_status(pod: Raw, now: str, code: int) -> Raw:
    """Status with containers that exited by themselves."""
    return _terminated_status(pod, now, "Succeeded" if code == 0 else "Failed", code)


def killed_status(pod: Raw, now: str) -> Raw:
    """Status with containers that were killed because the pod is being deleted."""
    return _terminated_status(pod, now, "Failed", 137)


def rejected_status(message: str) -> Raw:
    """Status of a pod that kubelet admission rejected."""
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": f"Pod was rejected: {message}"}


def _terminated_status(pod: Raw, now: str, phase: str, code: int) -> Raw:
    container_reason = "Completed" if code == 0 else "Error"
    state = {"terminated": {"exitCode": code, "reason": container_reason, "finishedAt": now}}
    conditions = (pod.get("status") or {}).get("conditions")
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    for kind in ("Ready", "ContainersReady"):
        condition = {"type": kind, "status": "False", "reason": reason, "lastTransitionTime": now}
        conditions = with_condition(conditions, condition)
    return {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": _container_statuses(pod, state, None, ready=False),
    }


def _container_statuses(pod: Raw, state: Raw, restarts: int | None, *, ready: bool) -> list[Raw]:
    before = {status["name"]: status for status in (pod.get("status") or {}).get("containerStatuses") or ()}
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": container.get("image", ""),
            "containerID": f"simulated://{pod['metadata']['uid']}/{container['name']}",
            "ready": ready,
            "started": ready,
            "restartCount": before.get(container["name"], {}).get("restartCount", 0) if restarts is None else restarts,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _number(annotations: Mapping[str, str], key: str) -> float | None:
    try:
        return max(0.0, float(annotations[key]))
    except (KeyError, ValueError):
        return None

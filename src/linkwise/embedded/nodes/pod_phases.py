"""How a pod that runs, ends or stops looks to everybody, and how long it does each, as its annotations say.

`sim.linkwise.dev/seconds` is how long its containers run; `sim.linkwise.dev/exit-code` how they end;
`sim.linkwise.dev/stop-seconds` how long they take to stop when they are asked to.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.embedded.writes.pod_rules import with_condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "EXIT_CODE",
    "SECONDS",
    "STOP_SECONDS",
    "Life",
    "crashing",
    "ended",
    "life_of",
    "rejected",
    "running",
    "stopped",
]

SECONDS: Final = "sim.linkwise.dev/seconds"
EXIT_CODE: Final = "sim.linkwise.dev/exit-code"
STOP_SECONDS: Final = "sim.linkwise.dev/stop-seconds"


@dataclass(frozen=True, slots=True)
class Life:
    """What becomes of a pod."""

    seconds: float | None
    """how long its containers run; None for ever"""
    code: int
    stop: float | None
    """how long they take to stop; None for as long as all do"""


def life_of(pod: Raw, job_seconds: float) -> Life:
    """As the annotations say; pods of Jobs end by themselves, others run for ever. What is no number says nothing."""
    notes = pod["metadata"].get("annotations") or {}
    of_a_job = any(owner.get("kind") == "Job" for owner in pod["metadata"].get("ownerReferences") or ())
    seconds = _number(notes, SECONDS)
    if seconds is None and of_a_job:
        seconds = job_seconds
    return Life(seconds, int(_number(notes, EXIT_CODE) or 0), _number(notes, STOP_SECONDS))


def running(pod: Raw, now: str, restarts: int = 0) -> Raw:
    """The status of a pod whose containers run."""
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
        "containerStatuses": _containers(pod, {"running": {"startedAt": now}}, restarts, ready=True),
    }


def crashing(pod: Raw, now: str, restarts: int) -> Raw:
    """The status of a pod whose containers end as soon as they are started."""
    conditions = (pod.get("status") or {}).get("conditions")
    for kind in ("Ready", "ContainersReady"):
        told = {"type": kind, "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": now}
        conditions = with_condition(conditions, told)
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    return {"conditions": conditions, "containerStatuses": _containers(pod, state, restarts, ready=False)}


def ended(pod: Raw, now: str, code: int) -> Raw:
    """The status of a pod whose containers have ended by themselves."""
    return _over(pod, now, "Succeeded" if code == 0 else "Failed", code)


def stopped(pod: Raw, now: str) -> Raw:
    """The status of a pod whose containers were stopped because it is deleted."""
    return _over(pod, now, "Failed", 137)


def rejected(sentence: str) -> Raw:
    """The status of a pod that a kubelet does not start."""
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": f"Pod was rejected: {sentence}"}


def _over(pod: Raw, now: str, phase: str, code: int) -> Raw:
    word = "Completed" if code == 0 else "Error"
    state = {"terminated": {"exitCode": code, "reason": word, "finishedAt": now}}
    conditions = (pod.get("status") or {}).get("conditions")
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    for kind in ("Ready", "ContainersReady"):
        told = {"type": kind, "status": "False", "reason": reason, "lastTransitionTime": now}
        conditions = with_condition(conditions, told)
    return {"phase": phase, "conditions": conditions, "containerStatuses": _containers(pod, state, None, ready=False)}


def _containers(pod: Raw, state: Raw, restarts: int | None, *, ready: bool) -> list[Raw]:
    before = {found["name"]: found for found in (pod.get("status") or {}).get("containerStatuses") or ()}
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


def _number(notes: Mapping[str, str], key: str) -> float | None:
    try:
        return max(0.0, float(notes[key]))
    except (KeyError, ValueError):
        return None

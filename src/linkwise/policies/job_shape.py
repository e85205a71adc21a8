"""Job shape rules for ring-linked devices: the number of pods, and of devices per pod.

Source: seed 003, "Resource Application Constraints"; `per-pod` is what the vendor's later releases allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.device import HardwareProfile
    from linkwise.model.settings import JobShape

__all__ = ["Task", "job_refused", "total_refused"]


@dataclass(frozen=True, slots=True)
class Task:
    """Equal pods of a job."""

    name: str
    pods: int
    devices: int  # per pod


def job_refused(tasks: Sequence[Task], profile: HardwareProfile, shape: JobShape = "strict") -> Reason | None:
    """The reason why a job can't have this shape; None if it can, or if it requests no devices."""
    asking = [task for task in tasks if task.devices and task.pods > 0]  # pods without devices are ignored
    total = sum(task.pods * task.devices for task in asking)
    if shape == "per-pod" or not profile.one_pod_up_to:
        return _each_pod(asking, profile)
    return _one_pod(asking, profile, total) if total <= profile.one_pod_up_to else _full_pods(asking, profile, total)


def total_refused(devices: int, profile: HardwareProfile, shape: JobShape = "strict") -> Reason | None:
    """The reason why no job can request that many devices in total, however many pods it has; None if one can."""
    whole = profile.one_pod_up_to
    if shape == "per-pod" or not whole or devices <= 0:
        return None
    if devices <= whole:
        return _each_pod([Task("", 1, devices)], profile)
    return Reason("003.count", asked=devices, found=whole, kind="multiple") if devices % whole else None


def _one_pod(tasks: Sequence[Task], profile: HardwareProfile, total: int) -> Reason | None:
    # rule 003.one-pod: a job of up to eight devices is one pod.
    pods = sum(task.pods for task in tasks)
    if pods > 1:
        return Reason("003.one-pod", asked=(total, pods), found=profile.one_pod_up_to, kind="one pod")
    return _each_pod(tasks, profile)


def _full_pods(tasks: Sequence[Task], profile: HardwareProfile, total: int) -> Reason | None:
    whole = profile.one_pod_up_to
    # rule 003.count: a larger job has 8xN devices.
    if total % whole:
        return Reason("003.count", asked=total, found=whole, kind="multiple")
    # rule 003.one-pod: and eight per pod.
    uneven = next((task for task in tasks if task.devices != whole), None)
    if uneven:
        return Reason("003.one-pod", asked=uneven.devices, found=whole, kind="full pods", noun=uneven.name)
    return None


def _each_pod(tasks: Sequence[Task], profile: HardwareProfile) -> Reason | None:
    bad = next((task.devices for task in tasks if profile.span(task.devices) is None), None)
    return None if bad is None else Reason("003.count", asked=bad, found=profile.counts(), noun=profile.name)

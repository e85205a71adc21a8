"""Job requests: whether the hardware supports the shape of a job, for admission and for groups alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.policies.job_shape import Task, job_refused, total_refused
from linkwise.policies.ring_profiles import known_profile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.model.settings import JobShape
    from linkwise.model.verdict import Reason

__all__ = ["job_refusal", "total_refusal"]

RINGS: Final = "ring-affinity"


def job_refusal(pods: Iterable[tuple[str, int, PodRequest]], shape: JobShape) -> Reason | None:
    """Return why the hardware does not support the shape of a job; None if it does.

    Args:
        pods: name of the task, number of its pods, and the request of each
        shape: the administrator's choice of rules
    """
    # rule 003.valid-job: one validator for the webhook, the filter of a group and Volcano.
    tasks: Counter[tuple[str, int]] = Counter()
    profile = None
    for name, count, request in pods:
        if request.ask is not None and request.policy == RINGS:
            profile = profile or known_profile(request.ask.profile)
            tasks[name, request.ask.devices] += max(0, count)
    listed = [Task(name, count, devices) for (name, devices), count in tasks.items()]
    return job_refused(listed, profile, shape) if profile else None


def total_refusal(request: PodRequest, devices: int, shape: JobShape) -> Reason | None:
    """Return why the hardware supports no job with that many devices in total; None if it does.

    Args:
        request: of any pod of the job that requests such devices
        devices: of all its pods together, whose number is not known
        shape: the administrator's choice of rules
    """
    # rule 003.valid-job: the same rules, where only the sum is known.
    profile = known_profile(request.ask.profile) if request.ask and request.policy == RINGS else None
    return total_refused(devices, profile, shape) if profile else None

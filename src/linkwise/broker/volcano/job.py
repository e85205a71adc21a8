"""Jobs that Volcano is about to enqueue: whether their shape is valid for the devices that they request.

Volcano asks before the pods of a job are created, so the sums of the PodGroup are usually all that is known. What they do
not show is found when the pods are there: by the plan of the group, and by predicate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkwise.broker.cluster.job_request import job_refusal, total_refusal
from linkwise.dialects.pod_resources import whole_quantity
from linkwise.dialects.registry import counts_whole_devices
from linkwise.engine.reasons.catalog import refusal
from linkwise.errors import InputError
from linkwise.model.views import ContainerView, PodView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.state import State
    from linkwise.model.verdict import Reason

__all__ = ["Job", "invalid_job"]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as Volcano sends it: its pods, and what its PodGroup requires at least."""

    namespace: str
    name: str
    """of the PodGroup"""
    pods: tuple[tuple[str, PodView], ...] = ()
    """by the name of the task; empty while the PodGroup is pending"""
    resources: Mapping[str, str] = field(default_factory=dict)
    """minResources of the PodGroup: of all pods that must start together"""
    members: Mapping[str, int] = field(default_factory=dict)
    """by task, the pods that must start together; empty if the PodGroup does not list tasks"""


def invalid_job(state: State, job: Job) -> str:
    """Return why a job can't be scheduled as it is; empty if it can, or if that is not known yet."""
    # rule 003.valid-job: the shape is checked again when the job is enqueued.
    if job.pods:
        return _invalid_pods(state, job)
    sums = {
        name: count for name, text in job.resources.items() if counts_whole_devices(name) and (count := _count(text))
    }
    return next((wrong for name, devices in sums.items() if (wrong := _invalid_sum(state, job, name, devices))), "")


def _invalid_pods(state: State, job: Job) -> str:
    requests = [(task, state.request(state.pod(view.uid) or view)) for task, view in job.pods]
    for _, request in requests:
        if request.broken:
            return str(request.broken)
        if request.ask and (reason := state.policies[request.policy].admit(request.ask)):
            return refusal(reason)
    misshapen = job_refusal(((task, 1, request) for task, request in requests), state.settings.job_shape)
    return refusal(misshapen) if misshapen else ""


def _invalid_sum(state: State, job: Job, resource: str, devices: int) -> str:
    """Return why no node of the cluster supports a job whose pods request that many devices together."""
    shape = state.settings.job_shape
    task, pods = next(iter(job.members.items())) if len(job.members) == 1 else ("", 0)
    equal = pods > 0 and devices % pods == 0  # pods of one task are equal
    reasons: list[Reason | None] = []
    for request in _by_profile(state, job, resource, devices // pods if equal else devices):
        if request.ask is None or not equal:
            reasons.append(total_refusal(request, devices, shape))
        else:
            invalid = state.policies[request.policy].admit(request.ask)
            reasons.append(invalid or job_refusal([(task, pods, request)], shape))
    return refusal(reasons[0]) if reasons and reasons[0] and all(reasons) else ""


def _by_profile(state: State, job: Job, resource: str, devices: int) -> list[PodRequest]:
    """Return the request of a pod with so many devices, for each kind of hardware that it may be meant for.

    Which one that is depends on the node selector of the pods, of which a PodGroup has nothing.
    """
    container = ContainerView("main", limits={resource: str(devices)})
    request = state.request(PodView(job.namespace, job.name, "", (container,)))
    cluster = state.cluster
    profiles = {
        inventory.profile
        for name, inventory in cluster.inventories.items()
        if inventory.profile and name in cluster.nodes and resource in cluster.nodes[name].allocatable
    }
    if request.ask is None or not profiles:
        return [request]
    return [replace(request, ask=replace(request.ask, profile=profile)) for profile in sorted(profiles)]


def _count(text: str) -> int:
    try:
        return whole_quantity(text)
    except InputError:
        return 0

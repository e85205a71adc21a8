"""Volcano jobs of ring-linked devices whose shape no hardware of that kind serves: they are refused as a whole."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.policies.job_shape import Task, job_refused
from linkwise.policies.ring_profiles import known_profile

if TYPE_CHECKING:
    from linkwise.broker.groups.registry import Gathered
    from linkwise.broker.state import State
    from linkwise.model.verdict import Reason

__all__ = ["misshapen"]

JOBS: Final = "volcano"
RINGS: Final = "ring-affinity"


def misshapen(state: State, found: Gathered) -> Reason | None:
    """Why a job may not have as many pods, or pods of such counts; None if it may."""
    if found.group.source != JOBS:
        return None
    pods: Counter[tuple[str, int]] = Counter()
    profile = None
    for pod in (*found.bound, *found.waiting):
        wish = state.wish(pod)
        if wish.ask is not None and wish.policy == RINGS:
            profile = profile or known_profile(wish.ask.profile)
            pods[wish.group.role if wish.group else "", wish.ask.devices] += 1
    # rule 003.one-pod: looked at when the pods are there; the job itself is for admission.
    tasks = [Task(name, count, devices) for (name, devices), count in pods.items()]
    return job_refused(tasks, profile, state.settings.job_shape) if profile else None

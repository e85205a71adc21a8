"""What a group waits for before it is planned at all; nothing is held meanwhile.

Volcano jobs of ring-linked devices whose shape no hardware of that kind serves: they are refused as a whole.
"""
# Joined from group_readiness, job_shapes: one docstring for all.

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.broker.groups.bundles import bundled
from linkwise.model.verdict import Reason
from linkwise.policies.job_shape import Task, job_refused
from linkwise.policies.ring_profiles import known_profile

if TYPE_CHECKING:
    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State

__all__ = ["incomplete", "misshapen", "mixed_schedulers", "schedulers_of", "unready"]


def unready(state: State, found: GroupView, now: float) -> Reason | None:
    """Why a group is not planned yet; None if it can be."""
    return (
        mixed_schedulers(found) or incomplete(state, found, now) or misshapen(state, found) or _alone(state, found, now)
    )


def incomplete(state: State, found: GroupView, now: float) -> Reason | None:
    """What a group waits for before it is planned at all; nothing is held meanwhile."""
    group = found.group
    gated = sum(1 for pod in found.waiting if pod.gates)
    if gated:
        return Reason("001.members", asked=found.seen, found=gated, kind="gated")
    waited = abs(now - state.groups.first_seen.get(group.key, now))  # a clock that is set back makes nobody wait longer
    least = 0 if group.minimum is None or group.key in state.groups.satisfied else group.minimum
    there = len(found.waiting) if group.match_policy == "only-waiting" and least else found.seen
    # rule 001.gang: all or nothing; while members are missing nobody starts and nothing is held.
    if there < least:
        return Reason("001.gang", asked=least, found=there, kind="missing")
    if group.total is not None and found.seen < group.total and waited < state.settings.group.window:
        return Reason("001.members", asked=group.total, found=found.seen, kind="missing")
    return None


def _alone(state: State, found: GroupView, now: float) -> Reason | None:
    """A gang that starts together with this one and is not complete."""
    for name, other in bundled(state, found.group):
        if other is None or mixed_schedulers(other) or incomplete(state, other, now):
            return Reason("001.gang", asked=name, kind="bundle")
    return None


def mixed_schedulers(found: GroupView) -> Reason | None:
    """Members that wait for different schedulers can't be planned: each knows only its own."""
    names = schedulers_of(found)
    return Reason("001.group", found=names, kind="schedulers") if len(names) > 1 else None


def schedulers_of(found: GroupView) -> tuple[str, ...]:
    """The schedulers that members wait for."""
    return tuple(sorted({pod.scheduler for pod in found.waiting if pod.scheduler}))


JOBS: Final = "volcano"
RINGS: Final = "ring-affinity"


def misshapen(state: State, found: GroupView) -> Reason | None:
    """Why a job may not have as many pods, or pods of such counts; None if it may."""
    if found.group.source != JOBS:
        return None
    pods: Counter[tuple[str, int]] = Counter()
    profile = None
    for pod in (*found.bound, *found.waiting):
        wish = state.request(pod)
        if wish.ask is not None and wish.policy == RINGS:
            profile = profile or known_profile(wish.ask.profile)
            pods[wish.group.role if wish.group else "", wish.ask.devices] += 1
    # rule 003.one-pod: looked at when the pods are there; the job itself is for admission.
    tasks = [Task(name, count, devices) for (name, devices), count in pods.items()]
    return job_refused(tasks, profile, state.settings.job_shape) if profile else None

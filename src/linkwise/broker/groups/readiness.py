"""Reasons for which a group is not planned yet: missing or gated members, mixed schedulers, an unsupported job shape.

Nothing is reserved meanwhile. Volcano jobs whose shape the ring hardware does not support are refused as a whole.
"""

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

__all__ = ["incomplete", "misshapen", "mixed_schedulers", "pending_reason", "schedulers_of"]


def pending_reason(state: State, view: GroupView, now: float) -> Reason | None:
    """Return why a group is not planned yet; None if it can be."""
    return (
        mixed_schedulers(view)
        or incomplete(state, view, now)
        or misshapen(state, view)
        or _bundle_incomplete(state, view, now)
    )


def incomplete(state: State, view: GroupView, now: float) -> Reason | None:
    """Return which members a group lacks; None if it is complete."""
    group = view.group
    gated = sum(1 for pod in view.waiting if pod.gates)
    if gated:
        return Reason("001.members", asked=view.seen, found=gated, kind="gated")
    waited = abs(now - state.groups.first_seen.get(group.key, now))  # a clock set back does not prolong the wait
    least = 0 if group.minimum is None or group.key in state.groups.satisfied else group.minimum
    present = len(view.waiting) if group.match_policy == "only-waiting" and least else view.seen
    # rule 001.gang: all or nothing; while members are missing none starts and nothing is reserved.
    if present < least:
        return Reason("001.gang", asked=least, found=present, kind="missing")
    if group.total is not None and view.seen < group.total and waited < state.settings.group.window:
        return Reason("001.members", asked=group.total, found=view.seen, kind="missing")
    return None


def _bundle_incomplete(state: State, view: GroupView, now: float) -> Reason | None:
    """Return a refusal if another gang of the bundle is incomplete."""
    for name, other in bundled(state, view.group):
        if other is None or mixed_schedulers(other) or incomplete(state, other, now):
            return Reason("001.gang", asked=name, kind="bundle")
    return None


def mixed_schedulers(view: GroupView) -> Reason | None:
    """Return a refusal if members use different schedulers, each of which sees only its own."""
    names = schedulers_of(view)
    return Reason("001.group", found=names, kind="schedulers") if len(names) > 1 else None


def schedulers_of(view: GroupView) -> tuple[str, ...]:
    """Return the schedulers of the pending members."""
    return tuple(sorted({pod.scheduler for pod in view.waiting if pod.scheduler}))


JOBS: Final = "volcano"
RINGS: Final = "ring-affinity"


def misshapen(state: State, view: GroupView) -> Reason | None:
    """Return why the hardware does not support the shape of a Volcano job; None if it does."""
    if view.group.source != JOBS:
        return None
    pods: Counter[tuple[str, int]] = Counter()
    profile = None
    for pod in (*view.bound, *view.waiting):
        request = state.request(pod)
        if request.ask is not None and request.policy == RINGS:
            profile = profile or known_profile(request.ask.profile)
            pods[request.group.role if request.group else "", request.ask.devices] += 1
    # rule 003.one-pod: looked at when the pods are there; the job itself is for admission.
    tasks = [Task(name, count, devices) for (name, devices), count in pods.items()]
    return job_refused(tasks, profile, state.settings.job_shape) if profile else None

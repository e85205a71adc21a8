"""Reasons for which a group is not planned yet: missing or gated members, a missing PodGroup, mixed schedulers, an unsupported job shape.

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
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["may_start_alone", "missing_pod_group", "pending_reason", "schedulers_of", "waits_until"]

JOBS: Final = "volcano"
RINGS: Final = "ring-affinity"
NATIVE: Final = "kubernetes"
"""source of groups that Kubernetes itself defines: without the object nothing is known of them"""
_WITHIN_WINDOW: Final = {("001.members", "missing"), ("001.group", "object")}
"""reasons that hold for a limited time"""


def pending_reason(state: State, view: GroupView, now: float) -> Reason | None:
    """Return why a group is not planned yet; None if it can be."""
    return (
        _mixed_schedulers(view)
        or _incomplete(state, view, now)
        or _misshapen(state, view)
        or _bundle_incomplete(state, view, now)
    )


def waits_until(state: State, view: GroupView, reason: Reason) -> float | None:
    """Return when the group is planned in spite of the reason; None if it never is."""
    since = state.groups[view.key].since
    limited = (reason.rule, reason.kind) in _WITHIN_WINDOW and not (reason.kind == "object" and reason.found == NATIVE)
    return since + state.settings.group.window if limited and since is not None else None


def may_start_alone(state: State, pod: PodView) -> bool:
    """Return whether a member may start before the others: it requests no devices, and its group is not a gang."""
    view = state.groups.view(state.groups.key_of(pod.uid))
    return view is not None and view.group.minimum is None and state.query(pod) is None


def missing_pod_group(state: State, view: GroupView) -> str:
    """Return the name of the PodGroup that the group's pods point to and that is not observed; empty if there is none."""
    record = state.groups.get(view.key)
    if record is None or view.group.minimum is not None:
        return ""
    pod, declared = record.members.first()
    return state.cluster.shared.missing_pod_group(pod, declared)


def _incomplete(state: State, view: GroupView, now: float) -> Reason | None:
    """Return what a group lacks; None if it is complete."""
    group, record = view.group, state.groups.get(view.key)
    gated = sum(1 for pod in view.waiting if pod.gates)
    if gated:
        return Reason("001.members", asked=view.seen, found=gated, kind="gated")
    since = record.since if record else None
    waited = 0.0 if since is None else abs(now - since)  # a clock set back does not prolong the wait
    in_window = waited < state.settings.group.window
    pod_group = missing_pod_group(state, view)
    if pod_group and (in_window or group.source == NATIVE):
        return Reason("001.group", asked=pod_group, found=group.source, kind="object")
    present = len(view.waiting) if group.match_policy == "only-waiting" and view.least else view.seen
    # rule 001.gang: all or nothing; while members are missing none starts and nothing is reserved.
    if present < view.least:
        return Reason("001.gang", asked=view.least, found=present, kind="missing")
    if group.total is not None and view.seen < group.total and in_window:
        return Reason("001.members", asked=group.total, found=view.seen, kind="missing")
    return None


def _bundle_incomplete(state: State, view: GroupView, now: float) -> Reason | None:
    """Return a refusal if another gang of the bundle is incomplete."""
    for name, other in bundled(state, view.group):
        if other is None or _mixed_schedulers(other) or _incomplete(state, other, now):
            return Reason("001.gang", asked=name, kind="bundle")
    return None


def _mixed_schedulers(view: GroupView) -> Reason | None:
    """Return a refusal if members use different schedulers, each of which sees only its own."""
    names = schedulers_of(view)
    return Reason("001.group", found=names, kind="schedulers") if len(names) > 1 else None


def schedulers_of(view: GroupView) -> tuple[str, ...]:
    """Return the schedulers of the pending members."""
    return tuple(sorted({pod.scheduler for pod in view.waiting if pod.scheduler}))


def _misshapen(state: State, view: GroupView) -> Reason | None:
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

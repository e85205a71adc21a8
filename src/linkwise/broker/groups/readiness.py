"""Readiness: the reasons for which a group, or a bundle of gangs that must start together, is not planned yet.

Nothing is reserved meanwhile. Volcano jobs whose shape the ring hardware does not support are refused as a whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import group_reason
from linkwise.broker.cluster.pod_request import asks_for_devices, is_volcano, job_refusal
from linkwise.broker.groups.planning.input import minimum_of
from linkwise.broker.records.members import Idle, Waiting
from linkwise.broker.state import pod_name
from linkwise.dialects.groups.conventions import VOLCANO_SOURCE
from linkwise.dialects.groups.owners import OWNER
from linkwise.dialects.groups.pod_group_objects import is_made_for_pods
from linkwise.dialects.linkwise.group_plan import has_other_gates, is_gated
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.broker.records.groups import Groups
    from linkwise.broker.records.members import GroupView, Stage
    from linkwise.broker.state import State
    from linkwise.model.ask import Group
    from linkwise.model.views import PodView

__all__ = [
    "alternatives",
    "bundle",
    "bundle_keys",
    "bundled",
    "claim_reason",
    "joined",
    "longest_wait",
    "may_start_alone",
    "missing_pod_group",
    "pending_reason",
    "schedulers_of",
    "unlinked",
    "waits_for_volumes",
    "waits_until",
]

NATIVE: Final = "kubernetes"
"""source of groups that Kubernetes itself defines: without the object nothing is known of them"""
SETTLING: Final = "settling"
_CLAIM: Final = "claim"
"""begins the kinds of reasons about PersistentVolumeClaims"""
_WITHIN_WINDOW: Final = {("001.members", "missing"), ("001.group", "object")}
"""reasons that hold for a limited time"""


def pending_reason(state: State, view: GroupView, now: float) -> Reason | None:
    """Return why a group is not planned yet; None if it can be."""
    return (
        _mixed_schedulers(view)
        or _incomplete(state, view, now)
        or _misshapen(state, view)
        or (group_reason(state, view, minimum_of(view)) if state.access else None)
        or _bundle_incomplete(state, view, now)
        or _unsettled(state, view, now)
    )


def waits_until(state: State, view: GroupView, reason: Reason, now: float) -> float | None:
    """Return when the group is planned in spite of the reason; None if it never is."""
    since = state.groups[view.key].since
    if reason.kind == SETTLING:
        settings = state.settings.group
        until = _settles_at(state, view)
        return min(now + settings.settle, now if since is None else since + settings.window) if until is None else until
    limited = (reason.rule, reason.kind) in _WITHIN_WINDOW
    if reason.kind == "object" and _needs_pod_group(state, view):
        limited = False
    return since + state.settings.group.window if limited and since is not None else None


def longest_wait(state: State, reason: Reason) -> float:
    """Return how long a group waits at most, in spite of a clock that is set back."""
    settings = state.settings.group
    return settings.settle if reason.kind == SETTLING else settings.window


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


def waits_for_volumes(stage: Stage) -> bool:
    """Return whether a group waits for PersistentVolumeClaims of its members."""
    return isinstance(stage, Waiting) and stage.reason.kind.startswith(_CLAIM)


def claim_reason(state: State, pod: PodView) -> Reason | None:
    """Return the first of the pod's PersistentVolumeClaims that keeps it from being scheduled, as a reason."""
    shared = state.cluster.shared
    reasons = (shared.claim_reason(pod.namespace, name) for name in pod.volume_claims)
    found = next(filter(None, reasons), None)
    return replace(found, asked=(str(found.asked), pod_name(pod))) if found else None


def schedulers_of(view: GroupView) -> tuple[str, ...]:
    """Return the schedulers of the pending members.

    In a group that its pods do not declare, those without devices do not count: any scheduler may place them.
    """
    declared = view.group.source != OWNER
    return tuple(
        sorted({pod.scheduler for pod in view.waiting if pod.scheduler and (declared or asks_for_devices(pod))})
    )


def bundle(state: State, key: str) -> list[GroupView]:
    """Return the groups that are planned together with a group: the gangs of its bundle that have not started, or itself."""
    return [view for each in bundle_keys(state, key) if (view := state.groups.view(each))]


def bundle_keys(state: State, key: str) -> tuple[str, ...]:
    """Return the keys of these groups, sorted."""
    groups = state.groups
    names = groups.bundle_of(key)
    if not names or _is_satisfied(groups, key):
        return (key,)
    others = {other for name in names for other in groups.named(name) if not _is_satisfied(groups, other)}
    return tuple(sorted(other for other in others | {key} if other == key or _are_linked(groups, key, other, names)))


def bundled(state: State, group: Group) -> Iterator[tuple[str, GroupView | None]]:
    """Yield the other gangs that a group lists and that have not started, by name; None for one without members."""
    for name in group.bundle if not _is_satisfied(state.groups, group.key) else ():
        keys = state.groups.named(name)
        if not keys:
            yield name, None
        for key in keys:
            if key != group.key and not _is_satisfied(state.groups, key):
                yield name, state.groups.view(key)


def unlinked(state: State, group: Group) -> list[str]:
    """Return gangs that a group lists and that do not list the same bundle: they are planned separately."""
    names = state.groups.bundle_of(group.key)
    others = ((name, other) for name, other in bundled(state, group) if other)
    return sorted({name for name, other in others if state.groups.bundle_of(other.key) != names})


def joined(views: Sequence[GroupView]) -> GroupView:
    """Join several gangs into one view of which all members must be placed; a single group stays as it is."""
    if len(views) == 1:
        return views[0]
    waiting = tuple(pod for each in views for pod in each.waiting)
    bound = tuple(pod for each in views for pod in each.bound)
    group = replace(
        views[0].group,
        total=None,
        minimum=len(waiting) + len(bound),
        match_policy="once-satisfied",
        network=tuple(dict.fromkeys(wish for each in views for wish in each.group.network)),
    )
    return replace(views[0], group=group, waiting=waiting, bound=bound, extra=(), satisfied=False)


def alternatives(views: Sequence[GroupView]) -> Iterator[tuple[GroupView, tuple[str, ...]]]:
    """Yield the views by which a bundle may be planned, the best first, with the UIDs of members left out."""
    whole = joined(views)
    yield whole, ()
    if len(views) > 1:
        least = joined([_required_only(view) for view in views])
        if left := tuple(pod.uid for pod in whole.waiting if pod not in least.waiting):
            yield least, left


def _mixed_schedulers(view: GroupView) -> Reason | None:
    """Return a refusal if members use different schedulers, each of which sees only its own."""
    names = schedulers_of(view)
    return Reason("001.group", found=names, kind="schedulers") if len(names) > 1 else None


def _incomplete(state: State, view: GroupView, now: float) -> Reason | None:
    """Return what a group lacks; None if it is complete."""
    group, record = view.group, state.groups.get(view.key)
    # A gate of ours is removed when the group is planned; others are for their owners to remove.
    gated = sum(1 for pod in view.waiting if (has_other_gates(pod) if state.settings.group.gates else pod.gates))
    if gated:
        return Reason("001.members", asked=view.seen, found=gated, kind="gated")
    since = record.since if record else None
    waited = 0.0 if since is None else abs(now - since)  # a clock set back does not prolong the wait
    in_window = waited < state.settings.group.window
    pod_group = missing_pod_group(state, view)
    if pod_group and (in_window or _needs_pod_group(state, view)):
        return Reason("001.group", asked=pod_group, found=group.source, kind="object")
    present = len(view.waiting) if group.match_policy == "only-waiting" and view.least else view.seen
    # rule 001.gang: all or nothing; while members are missing none starts and nothing is reserved.
    if present < view.least:
        return Reason("001.gang", asked=view.least, found=present, kind="missing")
    if view.least and (without := _without_volumes(state, view, view.least - (present - len(view.waiting)))):
        return without
    if group.total is not None and view.seen < group.total and in_window:
        return Reason("001.members", asked=group.total, found=view.seen, kind="missing")
    return None


def _needs_pod_group(state: State, view: GroupView) -> bool:
    """Return whether the group is not planned without its PodGroup: nothing else defines it, or Volcano would not bind it."""
    return view.group.source == NATIVE or any(is_gated(pod) and is_volcano(state.settings, pod) for pod in view.waiting)


def _without_volumes(state: State, view: GroupView, least: int) -> Reason | None:
    """Return what keeps so many pending members of a gang from their volumes that fewer than `least` can start."""
    reasons = (claim_reason(state, pod) for pod in view.waiting if pod.volume_claims)
    lacking = [reason for reason in reasons if reason]
    return lacking[0] if len(view.waiting) - len(lacking) < least else None


def _misshapen(state: State, view: GroupView) -> Reason | None:
    """Return why the hardware does not support the shape of a Volcano job; None if it does, or if it is not a job."""
    if view.group.source != VOLCANO_SOURCE or is_made_for_pods(view.key):
        return None
    # rule 003.one-pod: looked at when the pods are there, since a job may have been created past the webhook.
    requests = (state.request(pod) for pod in (*view.bound, *view.waiting))
    tasks = ((request.group.role if request.group else "", 1, request) for request in requests)
    return job_refusal(tasks, state.settings.job_shape)


def _bundle_incomplete(state: State, view: GroupView, now: float) -> Reason | None:
    """Return a refusal if another gang of the bundle is incomplete."""
    for name, other in bundled(state, view.group):
        if other is None or _mixed_schedulers(other) or _incomplete(state, other, now):
            return Reason("001.gang", asked=name, kind="bundle")
    return None


def _unsettled(state: State, view: GroupView, now: float) -> Reason | None:
    """Return a refusal while pods of a job may follow: their number is unknown, and controllers create them one by one.

    The time counts from the last pod on, up to the window. Pods that follow bound ones, as after a failure, do not wait.
    """
    record, settings = state.groups.get(view.key), state.settings.group
    if not view.group.settles or view.bound or record is None or record.since is None or not settings.settle:
        return None
    if not 0 <= now - record.since < settings.window:
        return None
    until = _settles_at(state, view)
    settled = (
        not isinstance(record.stage, Idle | Waiting) if until is None else not now < until <= now + settings.settle
    )
    return None if settled else Reason("001.members", found=view.seen, kind=SETTLING)


def _settles_at(state: State, view: GroupView) -> float | None:
    """Return when the wait for more pods of a job ends; None if it does not wait, or pods were added since it did."""
    match state.groups.stage(view.key):
        case Waiting(reason=Reason(kind=kind, found=int(seen)), until=until) if kind == SETTLING and view.seen <= seen:
            return until
    return None


def _is_satisfied(groups: Groups, key: str) -> bool:
    record = groups.get(key)
    return record is not None and record.satisfied


def _are_linked(groups: Groups, key: str, other: str, names: tuple[str, ...]) -> bool:
    """Return whether two gangs list the same bundle, and the other has no plan without this one."""
    plan = groups.plan_of(other)
    apart = plan is not None and not (groups.plan_of(key) and key in plan.bundle)
    return not apart and groups.bundle_of(other) == names


def _required_only(view: GroupView) -> GroupView:
    """Reduce a gang to the members that must start, by rank."""
    minimum = view.group.minimum
    need = len(view.waiting) if minimum is None else max(0, minimum - len(view.bound))
    return replace(view, waiting=view.waiting[:need])

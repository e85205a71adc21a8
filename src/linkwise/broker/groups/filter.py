"""Filter for members of groups: the node that the group's plan assigns; the first member that is tried triggers planning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.effects import FilterAnswer
from linkwise.broker.groups.gates import is_being_steered, was_steered
from linkwise.broker.groups.lifecycle import answer_now, replan, resume
from linkwise.broker.groups.native_domains import (
    domain_level,
    is_other_domain,
    note_other_domain,
    note_planned_domain,
    within_offered,
)
from linkwise.broker.groups.planning.priority import trial_plan
from linkwise.broker.groups.planning.runs import begin, plan_now, requested_of
from linkwise.broker.groups.readiness import bundle, may_start_alone, pending_reason
from linkwise.broker.groups.reservations import is_over
from linkwise.broker.records.groups import Answer
from linkwise.broker.records.members import BackingOff, Idle, Reserved, Unschedulable, Waiting
from linkwise.broker.unobserved import is_unobserved_member
from linkwise.engine.index.node_index import choices
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.broker.records.members import GroupView, Limits
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.views import PodView

__all__ = ["filter_member"]

_ELSEWHERE = Reason("001.steer", kind="elsewhere")
_LEFT_OUT = Reason("001.tolerant", kind="left out")
_PLANNING = Reason("001.members", kind="planning")
_UNOBSERVED = Reason("001.members", kind="missing")
_PLANNED_WITHOUT_SUCCESS = {"short", "never", "left out"}
"""kinds of refusals that result from planning"""


def filter_member(  # noqa: PLR0913 - two switches for schedulers that ask in other ways
    state: State, pod: PodView, names: Sequence[str], now: float, *, keep: bool = True, one_by_one: bool = False
) -> FilterAnswer | None:
    """Return the planned node, or a refusal; None if the pod is placed alone.

    Without `keep` nothing is reserved or remembered. `one_by_one` is for a scheduler that asks about one node after the
    other: a planned node that is not named is no reason to plan again.
    """
    if keep and is_unobserved_member(state, pod):
        return _refuse(state, pod, names, _UNOBSERVED)
    view = state.groups.view(state.groups.key_of(pod.uid))
    if view is None or pod.uid in view.extra:
        return None
    if not keep:
        return _dry_answer(state, view, pod, names, now)
    record = state.groups[view.key]
    record.answers[pod.uid] = Answer(Idle)  # its earlier answers do not count any more
    steering = _prepare_plan(state, view, pod, names, now, one_by_one=one_by_one)
    answer = _answer(state, view.key, pod, names)
    if not steering:  # or it is woken when the plan is on all members
        record.answers[pod.uid] = answer_now(state, record, pod)
    return answer


def _prepare_plan(  # noqa: PLR0913 - the arguments of `filter_member`, and the group
    state: State, view: GroupView, pod: PodView, names: Sequence[str], now: float, *, one_by_one: bool
) -> bool:
    """Plan the group of a member that is tried, unless its stage has the answer already.

    Return whether the planned node is not named and the plan is still being written on the members.
    """
    key = view.key
    # With a single name, kube-scheduler tries the nominated node first; if that fails, it asks again with all names.
    nominated = one_by_one or (len(names) == 1 and names[0] == pod.nominated)
    match state.groups.stage(key):
        case Unschedulable(requested=requested, until=until, limits=limits):
            views, known = bundle(state, key), limits.allowed.get(pod.uid)
            if known is not None and known != frozenset(names) and not nominated:
                everywhere = known.union(names) if domain_level(view.group) else frozenset(names)
                if everywhere != known:
                    replan(state, views, _limited(limits, pod.uid, everywhere), now)
            elif requested != requested_of(views) or is_over(until, now, state.settings.group.window):
                begin(state, views, limits)
        case Idle() | Waiting():
            # rule 001.members: all members that are not bound are planned when the first is tried.
            resume(state, key, now)
    plan_now(state, key, now)
    steering = _fit_to_names(state, view, pod, () if nominated else names, now)
    plan_now(state, key, now)
    return steering


def _fit_to_names(state: State, view: GroupView, pod: PodView, names: Sequence[str], now: float) -> bool:
    """Plan again if the plan has no place for a member, or one that the scheduler does not name; without names, any will do.

    Return whether the planned node is not named because the plan is still being written on the members.
    """
    key, stage = view.key, state.groups.plan_of(view.key)
    if stage is None or state.request(pod).ask is None or pod.uid in stage.plan.missing:
        return False
    # rule 001.siblings: later members take their part of the plan without planning again.
    placement = stage.plan.placements.get(pod.uid)
    if placement is None:
        begin(state, bundle(state, key), stage.limits)  # it joined the group after it was planned
    elif placement.node in names:
        if domain_level(view.group):
            note_planned_domain(state, key, now)
    elif is_other_domain(state, view.group, placement.node, names):
        if note_other_domain(state, key, pod.uid, names, now):
            replan(state, bundle(state, key), within_offered(stage.limits), now)
    elif is_being_steered(state.groups[key]) and was_steered(state.groups[key], pod):
        return bool(names)  # the node may be full of members that are still nominated by an earlier plan
    elif names:
        # The scheduler names all nodes that pass its own filters: for volumes or topology spread, which are not known
        # here, this one did not. The same may be true of the other members, each of which is planned again then.
        replan(state, bundle(state, key), _limited(stage.limits, pod.uid, names), now)
    return False


def _limited(limits: Limits, uid: str, names: Iterable[str]) -> Limits:
    """Return the limits with a member on one of these nodes."""
    return replace(limits, allowed={**limits.allowed, uid: frozenset(names)})


def _answer(state: State, key: str, pod: PodView, names: Sequence[str]) -> FilterAnswer | None:
    """Return the answer that follows from the stage."""
    match state.groups.stage(key):
        case Reserved(plan=plan):
            return _answer_from_plan(state, pod, plan, names)
        case Waiting(reason=reason) | Unschedulable(reason=reason) | BackingOff(reason=reason):
            return _refuse(state, pod, names, reason)
    return _refuse(state, pod, names, _PLANNING)


def _dry_answer(state: State, view: GroupView, pod: PodView, names: Sequence[str], now: float) -> FilterAnswer | None:
    """Return the answer that the member would get now."""
    held = state.groups.plan_of(view.key)
    refused = None if held else pending_reason(state, view, now)
    if refused:
        return _refuse(state, pod, names, refused)
    plan = held.plan if held else trial_plan(state, bundle(state, view.key), state.settings.group.steps)
    if plan is None:
        return _refuse(state, pod, names, Reason("001.fewest-nodes", len(view.waiting), kind="short"))
    return _answer_from_plan(state, pod, plan, names)


def _answer_from_plan(state: State, pod: PodView, plan: Plan, names: Sequence[str]) -> FilterAnswer | None:
    """Return the member's node; None for a member without devices whose node was not offered: any will do."""
    placement = plan.placements.get(pod.uid)
    if placement is not None and placement.node in names:
        # rule 001.steer: each member goes to its planned node.
        return FilterAnswer([placement.node])
    if state.request(pod).ask is None:
        return None
    return _refuse(state, pod, names, _LEFT_OUT if placement is None else _ELSEWHERE)


def _refuse(state: State, pod: PodView, names: Sequence[str], reason: Reason) -> FilterAnswer | None:
    text = short_refusal(reason)
    query = state.query(pod)
    if reason.kind in {"short", "never"} and may_start_alone(state, pod):
        return None
    if query is None or reason.kind not in _PLANNED_WITHOUT_SUCCESS:
        return FilterAnswer([], {}, dict.fromkeys(names, text))
    alone = choices(state.cluster.index, query, state.settings.budget)
    fits = set(alone.all(names))
    failed, final = alone.why([name for name in names if name not in fits])
    if reason.kind == "never":
        return FilterAnswer([], failed, {**final, **dict.fromkeys(fits, text)})
    return FilterAnswer([], {**failed, **dict.fromkeys(fits, text)}, final)

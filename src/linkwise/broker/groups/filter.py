"""Filter for members of groups: the node that the group's plan assigns; the first member that is tried triggers planning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.answers import FilterAnswer
from linkwise.broker.cluster.host_fit import misfit, needed_by
from linkwise.broker.groups.bundles import bundle_keys
from linkwise.broker.groups.notices import clear_notice, note_pending, unfit_events
from linkwise.broker.groups.plan_annotations import give_up
from linkwise.broker.groups.planning import current_view
from linkwise.broker.groups.planning_runs import try_now, wakes
from linkwise.broker.groups.priority import trial_plan
from linkwise.broker.groups.readiness import pending_reason
from linkwise.broker.unobserved import is_unobserved_member
from linkwise.engine.index.lookup import choices
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.group_registry import GroupView, HeldPlan
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.views import PodView

__all__ = ["filter_member"]

_ELSEWHERE = Reason("001.steer", kind="elsewhere")
_LEFT_OUT = Reason("001.tolerant", kind="left out")
_UNOBSERVED = Reason("001.members", kind="missing")
_PLANNED_WITHOUT_SUCCESS = {"short", "never", "left out"}
"""kinds of refusals that result from planning"""


def filter_member(
    state: State, pod: PodView, names: Sequence[str], now: float, *, keep: bool = True
) -> FilterAnswer | None:
    """Return the planned node, or a refusal; None if the pod is placed alone.

    Without `keep` nothing is reserved or remembered.
    """
    if keep and is_unobserved_member(state, pod):
        return _refuse(state, pod, names, _UNOBSERVED)
    key = state.groups.key_of(pod.uid)
    view = current_view(state, key) if key else None
    if view is None or pod.uid in view.extra:
        return None
    held = state.groups.plans.get(key)
    if not keep:
        return _dry_answer(state, view, pod, names, now)
    clear_notice(state, key, pod.uid)
    # rule 001.siblings: later members take their part of the plan without planning again.
    if held and _keeps_plan(state, view, pod, held, names):
        return _answer_from_plan(state, pod, held.plan, names)
    state.groups.first_seen.setdefault(key, now)
    refused = pending_reason(state, view, now)
    if refused:
        note_pending(state, key, pod.uid, refused)
    if refused and (refused.rule, refused.kind) == ("001.members", "missing"):
        state.groups.alarms[key] = state.groups.first_seen[key] + state.settings.group.window
    # rule 001.members: all members that are not bound are planned when the first is tried.
    refused = refused or try_now(state, key, view, now)
    if refused and refused.kind == "resting":
        first = bundle_keys(state, key)[0]
        state.groups.alarms[first] = state.groups.rests[first][1]  # it may be over already, if the clock was set back
    if refused and refused.kind in _PLANNED_WITHOUT_SUCCESS:
        state.outbox.add(unfit_events(state, key, refused))
    if refused:
        return _refuse(state, pod, names, refused)
    answer = _answer_from_plan(state, pod, state.groups.plans[key].plan, names) if key in state.groups.plans else None
    others = tuple(wake for wake in wakes(state, key) if wake.uid != pod.uid and wake.uid in state.queue)
    return replace(answer, effects=others) if answer else None


def _dry_answer(state: State, view: GroupView, pod: PodView, names: Sequence[str], now: float) -> FilterAnswer | None:
    """Return the answer that the member would get now."""
    held = state.groups.plans.get(view.group.key)
    refused = None if held else pending_reason(state, view, now)
    if refused:
        return _refuse(state, pod, names, refused)
    parts = [peer for key in bundle_keys(state, view.group.key) if (peer := current_view(state, key))]
    plan = held.plan if held else trial_plan(state, parts, state.settings.group.steps)
    if plan is None:
        return _refuse(state, pod, names, Reason("001.fewest-nodes", len(view.waiting), kind="short"))
    return _answer_from_plan(state, pod, plan, names)


def _keeps_plan(state: State, view: GroupView, pod: PodView, held: HeldPlan, names: Sequence[str]) -> bool:
    """Return whether the current plan suits this member; if not, drop it so that it is made again."""
    placement = held.plan.placements.get(pod.uid)
    if placement is None:
        if state.request(pod).ask is None or pod.uid in held.plan.missing:
            return True
    elif placement.offer is None or placement.node in names or _may_still_come(state, pod, placement.node):
        return True
    else:
        state.groups.avoided.setdefault(view.group.key, set()).add(placement.node)
    give_up(state, view.group.key)
    return False


def _may_still_come(state: State, pod: PodView, node: str) -> bool:
    """Return whether to wait for a node that the scheduler did not offer: it samples nodes."""
    tries = state.groups.refused[pod.uid] = state.groups.refused.get(pod.uid, 0) + 1
    return tries < state.settings.rounds and misfit(state.cluster, pod, needed_by(state.cluster, pod), node) is None


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
    view = state.groups.gather(state.groups.key_of(pod.uid))
    if query is None and reason.kind in {"short", "never"} and view and view.group.minimum is None:
        return None  # it requests no devices and may start before the others
    if query is None or reason.kind not in _PLANNED_WITHOUT_SUCCESS:
        return FilterAnswer([], {}, dict.fromkeys(names, text))
    alone = choices(state.cluster.index, query, state.settings.budget)
    fits = set(alone.all(names))
    failed, final = alone.why([name for name in names if name not in fits])
    if reason.kind == "never":
        return FilterAnswer([], failed, {**final, **dict.fromkeys(fits, text)})
    return FilterAnswer([], {**failed, **dict.fromkeys(fits, text)}, final)

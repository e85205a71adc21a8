"""Where a member of a group may go: to its place in the group's plan, which the first member that is tried brings about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.answers import FilterAnswer
from linkwise.broker.cluster.host_fit import misfit, needed_by
from linkwise.broker.groups.bundles import mates_of
from linkwise.broker.groups.notices import answered, in_vain, not_ready
from linkwise.broker.groups.plan_annotations import give_up
from linkwise.broker.groups.planning import gathered
from linkwise.broker.groups.planning_runs import try_now, wakes
from linkwise.broker.groups.priority import imagined
from linkwise.broker.groups.readiness import unready
from linkwise.broker.unobserved import unseen_member
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
_UNSEEN = Reason("001.members", kind="missing")
_IN_VAIN = {"short", "never", "left out"}
"""kinds of refusals that a plan comes to"""


def filter_member(
    state: State, pod: PodView, names: Sequence[str], now: float, *, keep: bool = True
) -> FilterAnswer | None:
    """The planned node, or why there is none yet; None if the pod is to be placed alone.

    Without `keep` nothing is held, and nothing remembered.
    """
    if keep and unseen_member(state, pod):
        return _refused(state, pod, names, _UNSEEN)
    key = state.groups.key_of(pod.uid)
    found = gathered(state, key) if key else None
    if found is None or pod.uid in found.extra:
        return None
    held = state.groups.plans.get(key)
    if not keep:
        return _imagined(state, found, pod, names, now)
    answered(state, key, pod.uid)
    # rule 001.siblings: later members take their part of the plan without planning again.
    if held and _kept(state, found, pod, held, names):
        return _planned(state, pod, held.plan, names)
    state.groups.first_seen.setdefault(key, now)
    refused = unready(state, found, now)
    if refused:
        not_ready(state, key, pod.uid, refused)
    if refused and (refused.rule, refused.kind) == ("001.members", "missing"):
        state.groups.alarms[key] = state.groups.first_seen[key] + state.settings.group.window
    # rule 001.members: all members that are not bound are planned when the first is tried.
    refused = refused or try_now(state, key, found, now)
    if refused and refused.kind == "resting":
        first = mates_of(state, key)[0]
        state.groups.alarms[first] = state.groups.rests[first][1]  # it may be over already, if the clock was set back
    if refused and refused.kind in _IN_VAIN:
        state.outbox.add(in_vain(state, key, refused))
    if refused:
        return _refused(state, pod, names, refused)
    answer = _planned(state, pod, state.groups.plans[key].plan, names) if key in state.groups.plans else None
    others = tuple(wake for wake in wakes(state, key) if wake.uid != pod.uid and wake.uid in state.asked)
    return replace(answer, effects=others) if answer else None


def _imagined(state: State, found: GroupView, pod: PodView, names: Sequence[str], now: float) -> FilterAnswer | None:
    """What the answer would be now."""
    held = state.groups.plans.get(found.group.key)
    refused = None if held else unready(state, found, now)
    if refused:
        return _refused(state, pod, names, refused)
    parts = [mate for key in mates_of(state, found.group.key) if (mate := gathered(state, key))]
    plan = held.plan if held else imagined(state, parts, state.settings.group.steps)
    if plan is None:
        return _refused(state, pod, names, Reason("001.fewest-nodes", len(found.waiting), kind="short"))
    return _planned(state, pod, plan, names)


def _kept(state: State, found: GroupView, pod: PodView, held: HeldPlan, names: Sequence[str]) -> bool:
    """Whether the plan that holds is good for this member; if not, it is let go, to be made anew."""
    placement = held.plan.placements.get(pod.uid)
    if placement is None:
        if state.request(pod).ask is None or pod.uid in held.plan.missing:
            return True
    elif placement.offer is None or placement.node in names or _patient(state, pod, placement.node):
        return True
    else:
        state.groups.avoided.setdefault(found.group.key, set()).add(placement.node)
    give_up(state, found.group.key)
    return False


def _patient(state: State, pod: PodView, node: str) -> bool:
    """Whether a node that the scheduler did not name may still be the right one: it looks at some nodes only."""
    tries = state.groups.refused[pod.uid] = state.groups.refused.get(pod.uid, 0) + 1
    return tries < state.settings.rounds and misfit(state.cluster, pod, needed_by(state.cluster, pod), node) is None


def _planned(state: State, pod: PodView, plan: Plan, names: Sequence[str]) -> FilterAnswer | None:
    """The member's node; None for a member without devices whose node is not to be had: any other will do."""
    placement = plan.placements.get(pod.uid)
    if placement is not None and placement.node in names:
        # rule 001.steer: each member goes to its planned node.
        return FilterAnswer([placement.node])
    if state.request(pod).ask is None:
        return None
    return _refused(state, pod, names, _LEFT_OUT if placement is None else _ELSEWHERE)


def _refused(state: State, pod: PodView, names: Sequence[str], reason: Reason) -> FilterAnswer | None:
    text = short_refusal(reason)
    wanted = state.query(pod)
    found = state.groups.gather(state.groups.key_of(pod.uid))
    if wanted is None and reason.kind in {"short", "never"} and found and found.group.minimum is None:
        return None  # it needs no room among devices, and may start before the others
    if wanted is None or reason.kind not in _IN_VAIN:
        return FilterAnswer([], {}, dict.fromkeys(names, text))
    alone = choices(state.cluster.index, wanted, state.settings.budget)
    fits = set(alone.all(names))
    failed, final = alone.why([name for name in names if name not in fits])
    if reason.kind == "never":
        return FilterAnswer([], failed, {**final, **dict.fromkeys(fits, text)})
    return FilterAnswer([], {**failed, **dict.fromkeys(fits, text)}, final)

"""Why a pod waits, or why it has these devices: worked out from the cluster as it is now, and nothing is changed.

What is said of a pod because it is a member of a group: how far that has come, and in short what it lacks.

Resources that a pod waits for and no node has: mostly names that are written wrongly.
"""
# Joined from explaining, explaining_member, unknown_resources: one docstring for all.

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import demand_of
from linkwise.broker.groups.planning import gathered
from linkwise.broker.groups.stale_gangs import stuck_text
from linkwise.broker.scheduling.bind import pick_on
from linkwise.broker.state import pod_name
from linkwise.broker.unobserved import unseen_member
from linkwise.engine.queue.contention import is_contended
from linkwise.engine.reasons.catalog import refusal
from linkwise.explain.choice import why_chosen
from linkwise.explain.group import group_explanation, group_stage
from linkwise.explain.placement import explain_placed, given, other_node, rank_of, terms_of
from linkwise.explain.remedies import fewer_devices, remedies
from linkwise.explain.reports.pod import Asked, Explanation, Offered
from linkwise.explain.survey import against_all, survey
from linkwise.explain.text.group import brief_lines, heading
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.verdict import Offer
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.broker import Broker
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.explain.reports.group import GroupExplanation, GroupStage
    from linkwise.explain.survey import Survey
    from linkwise.model.ask import Ask
    from linkwise.model.verdict import Problem
    from linkwise.model.views import PodView

__all__ = ["as_member", "explain_pod", "explanation_lines", "unknown_resource", "with_outlook"]


def explain_pod(broker: Broker, uid: str, now: float, *, plan: bool = True) -> Explanation | None:
    """Why the pod is pending, or has these devices; None if it is unknown. With `plan` its group is planned if needed."""
    state = broker.state_at(now)
    pod = state.pod(uid)
    return as_member(state, _alone(state, pod), now, plan=plan) if pod else None


def _alone(state: State, pod: PodView) -> Explanation:
    """What is to say of the pod whatever group it is in."""
    uid = pod.uid
    wish, entry = state.request(pod), state.cluster.ledger.get(uid)
    told = Explanation(uid, pod_name(pod), "no devices", len(state.cluster.nodes), policy=wish.policy, node=pod.node)
    problems = state.cluster.problems.get(uid, wish.problems)
    told = replace(told, asked=_asked(state, wish.ask, entry.node if entry else ""), notes=_sentences(problems))
    if pod.phase in FINISHED or pod.stopped:
        return replace(told, state="ended")
    if entry is not None:
        return explain_placed(state, pod, wish, entry, told)
    if wish.ask is None:
        return _without_ask(wish, told, unknown_resource(state, pod))
    return told if pod.node else _unplaced(state, pod, wish, told)


def _without_ask(wish: PodRequest, told: Explanation, unknown: str) -> Explanation:
    broken = wish.broken
    if broken is None:
        return replace(told, state="invalid", sentence=unknown) if unknown else told
    others = [problem for problem in wish.problems if problem is not broken]
    return replace(told, state="invalid", sentence=f"{broken.key}: {broken.sentence}", notes=_sentences(others))


def _unplaced(state: State, pod: PodView, wish: PodRequest, told: Explanation) -> Explanation:
    wanted = state.query_of(wish)
    if wanted is None:
        return told
    told = replace(told, notes=(*told.notes, *_holding_back(pod)))
    refused = wanted.policy.admit(wanted.ask)
    if refused:
        less = fewer_devices(state, pod, wanted, demand_of(pod)[0])
        return replace(told, state="invalid", sentence=refusal(refused), remedies=less)
    found = survey(state, pod, wanted)
    offered = _offered(state, pod)
    if found.fitting:
        return _fits(state, wanted, found, replace(told, offered=offered))
    return replace(
        told,
        state="unschedulable",
        offered=offered,
        against=against_all(state, wanted, found),
        remedies=remedies(state, pod, wanted, found),
    )


def _fits(state: State, wanted: Query, found: Survey, told: Explanation) -> Explanation:
    """Where it would go; nodes that other pods were offered a moment ago come last, as they do when it asks."""
    nodes = state.cluster.index.nodes
    names = [name for name, _ in found.fitting[: state.settings.breadth or None]]
    open_ones = [name for name in names if not _crowded(state, wanted, told.uid, name)]
    best = (open_ones or names)[0]
    offer = pick_on(state, wanted, best)
    own = dict(found.fitting)[best]
    if not isinstance(offer, Offer) or told.offered is None:
        return told
    return replace(
        told,
        state="schedulable",
        fitting=len(found.fitting),
        node=best,
        devices=given(offer.parts, nodes[best].devices),
        unit=state.cluster.inventories[best].unit,
        terms=terms_of(wanted, own),
        rank=rank_of(own, found.fitting),
        choice=why_chosen(wanted, nodes[best], offer.devices),
        other=other_node(wanted, own, [entry for entry in found.fitting if entry[0] != best]),
        against=against_all(state, wanted, found),
        offered=replace(told.offered, crowded=not open_ones),
    )


def _crowded(state: State, wanted: Query, uid: str, name: str) -> bool:
    others, nodes = state.offers.on(name, uid), state.cluster.index.nodes
    return bool(others) and is_contended(nodes[name], wanted, others, nodes.get)


def _offered(state: State, pod: PodView) -> Offered:
    tries, last = state.offers.attempts(pod.uid), state.offers.offered().get(pod.uid, ())
    waiting = any(entry.pod == pod.uid for entry in state.offers.entries())
    rounds = tries.rounds + (bool(last) and not waiting)
    return Offered(rounds, tuple(sorted({*tries.nodes, *last})), waiting, pod.uid in state.asked)


def _asked(state: State, ask: Ask | None, node: str) -> Asked | None:
    if ask is None:
        return None
    unit = "bytes" if ask.in_bytes else "" if ask.devices else _unit(state, ask, node)
    return Asked(ask.resource, ask.mode, ask.devices, ask.share, ask.core, unit, ask.profile, ask.containers)


def _unit(state: State, ask: Ask, node: str) -> str:
    """What shares are counted in: on the pod's node, or on all nodes that share."""
    stocks = state.cluster.inventories
    if ask.mode == "percent":
        return "%"
    if node in stocks:
        return stocks[node].unit
    units = {stock.unit for stock in stocks.values() if stock.mode == ask.mode}
    return units.pop() if len(units) == 1 else ""


def _holding_back(pod: PodView) -> list[str]:
    gates = [f"it has scheduling gates: {', '.join(pod.gates)}"] if pod.gates else []
    return [
        *gates,
        *([f"preemption is in progress on node {pod.nominated}, nominated for it"] if pod.nominated else []),
    ]


def _sentences(problems: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(f"{problem.key}: {problem.sentence}" for problem in problems)


PLANNED_WHEN: Final = "is planned when the scheduler tries one of its members"
UNSEEN: Final = "the scheduler asked about it before it was observed; it is retried once it is"


def as_member(state: State, told: Explanation, now: float, *, plan: bool) -> Explanation:
    """The same with how far the pod's group has come; a pod that is placed alone is left as it is.

    Whether a group fits that has no plan is known when it is planned, which takes a while if it is large: only if `plan`.
    """
    waiting = told.state in {"unschedulable", "schedulable"} or (told.state == "no devices" and not told.node)
    pod, key = state.pod(told.uid), state.groups.key_of(told.uid)
    if pod and waiting and unseen_member(state, pod):
        return replace(told, state="grouped", notes=(*told.notes, UNSEEN))
    found = gathered(state, key) if key else None
    if found is None or told.uid in found.extra:
        return told
    stuck = stuck_text(state, found, now) if told.node else ""
    notes = (*told.notes, stuck) if stuck else told.notes
    stage, reason = group_stage(state, found, now)
    standing = refusal(reason) if reason else _standing(state, stage, key, told)
    told = replace(told, group=key, standing=standing, notes=notes)
    if not waiting or _goes_alone(state, key, told):
        return told
    told = replace(told, state="grouped")
    lacking = stage in {"schedulable", "unschedulable"} or (
        stage == "reserved" and not _has_place(state, key, told.uid)
    )
    outlook = group_explanation(state, key, now, most=1) if plan and lacking else None
    return with_outlook(told, outlook) if outlook else told


def with_outlook(told: Explanation, group: GroupExplanation, *, helped: bool = True) -> Explanation:
    """The same of a member that waits, with what a plan of its group made now would come to, and what would help."""
    left_out = any(member.uid == told.uid and member.state == "left out" for member in group.members)
    match group.stage:
        case "unschedulable":
            told = replace(told, standing=f"its group {heading(group)}")
        case "schedulable":
            rest = "leaves this pod out" if left_out else PLANNED_WHEN
            told = replace(told, standing=f"its group {heading(group)}, and {rest}")
    if group.stage != "unschedulable" and not left_out:
        return told
    return replace(told, lacks=tuple(line for line in brief_lines(group, helped=helped) if not _said(told, line)))


def _said(told: Explanation, line: str) -> bool:
    return any(line.endswith(note) for note in told.notes)


def _goes_alone(state: State, key: str, told: Explanation) -> bool:
    """A member without devices for which the nodes of its group have no room goes wherever it likes."""
    return told.asked is None and key in state.groups.plans and not _has_place(state, key, told.uid)


def _has_place(state: State, key: str, uid: str) -> bool:
    """Whether it is bound, or placed by the plan that holds."""
    pod = state.pod(uid)
    return uid in state.groups.plans[key].plan.placements or bool(pod and pod.node)


def _standing(state: State, stage: GroupStage, key: str, told: Explanation) -> str:
    match stage:
        case "planning":
            return "its group is being planned"
        case "reserved":
            left_out = not _has_place(state, key, told.uid)
            return f"its group is planned{', and this pod is left out' if left_out else ''}"
        case "unschedulable":
            return "its group does not fit now; no devices are reserved for it"
        case "placed":
            return "its group is placed"
        case _:
            return f"its group is complete, and {PLANNED_WHEN}"


def unknown_resource(state: State, pod: PodView) -> str:
    """What is wrong with the first such resource of a pod that is not bound; empty if there is none."""
    asked = [name for found in pod.containers for names in (found.limits, found.requests) for name in names]
    extended = [name for name in dict.fromkeys(asked) if "/" in name]
    if not extended or pod.node or pod.claims or pod.hosted_by_claims:
        return ""
    there = {name for view in state.cluster.nodes.values() for name in view.allocatable or view.capacity}
    unknown = next((name for name in extended if name not in there), "")
    if not unknown:
        return ""
    near = get_close_matches(unknown, sorted(name for name in there if "/" in name), 1)
    return f"no node provides {unknown}" + (f"; did you mean {near[0]}?" if near else "")

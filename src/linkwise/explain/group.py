"""Where a group of pods stands, and why: worked out from the cluster as it is now, and nothing is changed.

Each member of a group with its place, and the nodes that they share.
"""
# Joined from explaining_group, group_members: one docstring for all.

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.recorded_grants import parts_held
from linkwise.broker.groups.bundles import alternatives, apart, bundle_view, mates_of
from linkwise.broker.groups.notices import apart_text
from linkwise.broker.groups.planning import gathered
from linkwise.broker.groups.readiness import unready
from linkwise.broker.groups.stale_gangs import stuck_text
from linkwise.broker.groups.what_if import Assumption, WhatIf
from linkwise.broker.state import pod_name
from linkwise.engine.planning.seating import slowest_pair
from linkwise.engine.reasons.catalog import refusal
from linkwise.explain.group_shortage import explain_short
from linkwise.explain.placement import given
from linkwise.explain.plan_comparison import best_of, compared
from linkwise.explain.reports.group import GroupExplanation, GroupNode, PlanLevel, RunnerUp, ToldMember
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.engine.planning.planner import Level
    from linkwise.explain.reports.group import GroupStage
    from linkwise.model.verdict import Part
    from linkwise.model.views import PodView

__all__ = ["explain_group", "group_explanation", "group_stage", "hosts_of", "told_members"]

TRIED: Final = 8
"""nodes of a plan that are left out, one at a time, to find the second best"""
TOO_LONG: Final = "not all alternatives were searched, as there are too many"


def explain_group(broker: Broker, key: str, now: float, *, most: int | None = None) -> GroupExplanation | None:
    """The stage of a group, found by its key or by the UID of a member, and its plan; None if there is no such group.

    `most` limits the number of remedies and leaves out the runner-up, which is faster.
    """
    return group_explanation(broker.state_at(now), key, now, most=most)


def group_explanation(state: State, key: str, now: float, *, most: int | None = None) -> GroupExplanation | None:
    """The same for a caller that has the state already."""
    key = state.groups.key_of(key) or key
    found = gathered(state, key)
    if found is None:
        return None
    stage, reason = group_stage(state, found, now)
    told = _begun(state, found, stage, now)
    held = state.groups.plans.get(key)
    if reason:
        told = _waiting(state, told, reason)
    if held:
        told = replace(told, held=max(0.0, held.expires - now))
    if stage not in {"schedulable", "reserved", "unschedulable"}:
        return _with_members(state, found, told, None)
    return _planned(state, found, told, held.plan if held else None, most)


def group_stage(state: State, found: GroupView, now: float) -> tuple[GroupStage, Reason | None]:
    """How far the group has come, as far as that is known without planning it, and what it waits for."""
    key = found.group.key
    if key in state.groups.plans:
        return "reserved", None
    if not found.waiting:
        return "placed", None
    reason = unready(state, found, now)
    if reason:
        return "gated" if reason.kind == "gated" else "pending", reason
    first = mates_of(state, key)[0]
    if now < state.groups.rests.get(first, (0, now))[1]:
        return "pending", Reason("001.hold", kind="resting")
    if first in state.runs:
        return "planning", None
    return "unschedulable" if first in state.groups.short else "schedulable", None


def _begun(state: State, found: GroupView, stage: GroupStage, now: float) -> GroupExplanation:
    group = found.group
    odd = filter(None, [stuck_text(state, found, now), apart_text(apart(state, group))])
    return GroupExplanation(
        group.key,
        group.source,
        stage,
        group.total,
        group.minimum,
        mates=tuple(mate for mate in mates_of(state, group.key) if mate != group.key),
        policy=_policy(state, found),
        nodes=len(state.cluster.nodes),
        notes=(*_notes(state, found), *odd),
    )


def _waiting(state: State, told: GroupExplanation, reason: Reason) -> GroupExplanation:
    asked, there = (fact if isinstance(fact, int) else 0 for fact in (reason.asked, reason.found))
    match reason.kind:
        case "gated":
            return replace(told, lacking=there)
        case "missing":
            window = state.settings.group.window if reason.rule == "001.members" else 0.0
            return replace(told, lacking=asked - there, window=window)
        case _:
            return replace(told, sentence=refusal(reason))


def _planned(
    state: State, found: GroupView, told: GroupExplanation, plan: Plan | None, most: int | None
) -> GroupExplanation:
    """The plan that holds, or the one that would be made now; and what is lacking if that has not room for all."""
    whole = bundle_view(state, found.group.key) or found
    trying = WhatIf(state, whole)
    if plan is None:
        plan = trying.plan() or _of_fewer(state, found)
        told = replace(told, stage="schedulable" if plan else "unschedulable")
    told = _with_members(state, found, replace(told, network=trying.network), plan)
    if plan:
        told = _with_plan(told, trying, plan, alone=most is not None or bool(whole.bound))
    if plan is None or told.count("left out"):
        told = explain_short(state, whole, trying, told, most)
    return replace(told, notes=(*told.notes, TOO_LONG)) if trying.cut else told


def _of_fewer(state: State, found: GroupView) -> Plan | None:
    """The plan of gangs that start together and do not fit with all members: with as many of each as must start."""
    parts = [mate for key in mates_of(state, found.group.key) if (mate := gathered(state, key))]
    for fewer, left in list(alternatives(parts))[1:]:
        if plan := WhatIf(state, fewer).plan():
            return replace(plan, missing=(*plan.missing, *left))
    return None


def _policy(state: State, found: GroupView) -> str:
    wishes = (state.request(pod) for pod in (*found.waiting, *found.bound))
    return next((wish.policy for wish in wishes if wish.ask), "")


def _notes(state: State, found: GroupView) -> tuple[str, ...]:
    """What is wrong with what members say, each thing once."""
    said: dict[str, list[str]] = {}
    for pod in found.waiting:
        wish, wanted = state.request(pod), state.query(pod)
        refused = wanted.policy.admit(wanted.ask) if wanted else None
        sentences = [f"{problem.key}: {problem.sentence}" for problem in wish.problems]
        for sentence in (*sentences, *([refusal(refused)] if refused else ())):
            said.setdefault(sentence, []).append(pod.name)
    return tuple(f"{_named(names)}: {sentence}" for sentence, names in said.items())


def _named(names: list[str]) -> str:
    return f"pod {names[0]}" if len(names) == 1 else f"pod {names[0]} and {len(names) - 1} more"


def _with_members(state: State, found: GroupView, told: GroupExplanation, plan: Plan | None) -> GroupExplanation:
    members = told_members(state, found, plan, held=told.stage == "reserved")
    return replace(told, members=members, hosts=hosts_of(state, members))


def _with_plan(told: GroupExplanation, trying: WhatIf, plan: Plan, *, alone: bool) -> GroupExplanation:
    """The plan's levels, and the second best; the rest of a group that is partly bound has no choice to speak of."""
    told = replace(told, levels=tuple(map(_level, plan.levels)), region=plan.region)
    if alone or not plan.levels:
        return told
    others = _others(trying, plan)
    if not others:
        return replace(told, sole=not trying.cut)
    other = others[best_of([found.levels for found in others])]
    result = compared(plan.levels, other.levels, trying.network)
    return replace(told, runner_up=RunnerUp(other.nodes, result.level, result.sentence, result.better))


def _others(trying: WhatIf, plan: Plan) -> list[Plan]:
    """The best plan without each of the nodes, one at a time, by names."""
    held = trying.held
    names = [name for name in plan.nodes if name not in held]
    found = [trying.plan(Assumption(but=frozenset({name}))) for name in _various(names, plan, trying)]
    return sorted((other for other in found if other and other.levels), key=lambda other: sorted(other.nodes))


def _various(names: list[str], plan: Plan, trying: WhatIf) -> list[str]:
    """A few of them that differ; of those that are alike the last, so that what is left is the first by name."""
    homes = Counter(placement.node for placement in plan.placements.values())
    found = {(homes[name], trying.kind(name)): name for name in sorted(names)}
    return list(found.values())[:TRIED]


def _level(level: Level) -> PlanLevel:
    return PlanLevel(level.name, tuple(part if isfinite(part) else None for part in level.value), level.proven)


def told_members(state: State, found: GroupView, plan: Plan | None, *, held: bool) -> tuple[ToldMember, ...]:
    """Bound ones first, then those that wait by rank, then those that leave or are too many."""
    extra = [pod for uid in found.extra if (pod := state.pod(uid))]
    return (
        *(_bound(state, pod) for pod in found.bound),
        *(_waiting_member(state, pod, plan, held=held) for pod in found.waiting),
        *(_bound(state, pod) for pod in found.leaving),
        *(replace(_nowhere(state, pod), state="extra") for pod in extra),
    )


def hosts_of(state: State, members: Iterable[ToldMember]) -> tuple[GroupNode, ...]:
    """The nodes of the members that have a place, in the order of these."""
    homes: dict[str, list[ToldMember]] = {}
    for member in members:
        if member.node:
            homes.setdefault(member.node, []).append(member)
    return tuple(_host(state, name, there) for name, there in homes.items())


def _host(state: State, name: str, members: Sequence[ToldMember]) -> GroupNode:
    node = state.cluster.index.nodes.get(name)
    devices = {device for member in members for part in member.devices for device in part.devices}
    indices = tuple(sorted({index for member in members for index in member.indices}))
    if node is None:
        return GroupNode(name, len(members), indices, 0)
    idle = sum(device.id not in devices for device in node.free()) - node.unattributed
    return GroupNode(name, len(members), indices, max(0, idle), slowest_pair(node, devices))


def _bound(state: State, pod: PodView) -> ToldMember:
    entry = state.cluster.ledger.get(pod.uid)
    stock = state.cluster.inventories.get(entry.node) if entry else None
    parts = parts_held(stock, entry) if stock and entry else entry.grant.offer.parts if entry else ()
    told = _placed(state, _nowhere(state, pod), pod.node, parts)
    under_way = entry is not None and entry.state == "ASSUMED"
    return replace(told, state="terminating" if pod.deleting else "binding" if under_way else "bound")


def _waiting_member(state: State, pod: PodView, plan: Plan | None, *, held: bool) -> ToldMember:
    told = _nowhere(state, pod)
    if pod.gates:
        return replace(told, state="gated")
    if plan is None:
        return told
    placement = plan.placements.get(pod.uid)
    if placement is None:
        return replace(told, state="left out") if told.asks else told
    told = _placed(state, told, placement.node, placement.offer.parts if placement.offer else ())
    return replace(told, state="planned" if held else "schedulable")


def _placed(state: State, told: ToldMember, name: str, parts: tuple[Part, ...]) -> ToldMember:
    node = state.cluster.index.nodes.get(name)
    devices = dict.fromkeys(device for part in parts for device in part.devices)
    return replace(
        told,
        node=name,
        devices=given(parts, node.devices if node else ()),
        bottleneck=slowest_pair(node, list(devices)) if node else None,
    )


def _nowhere(state: State, pod: PodView) -> ToldMember:
    ask = state.request(pod).ask
    return ToldMember(pod.uid, pod_name(pod), "pending", ask.devices if ask else 0)

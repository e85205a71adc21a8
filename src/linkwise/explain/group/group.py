"""Explains a group: its stage, its plan with each member's placement, and why another plan lost.

Computed from the cluster as it is now; nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import isfinite
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pods import allocated_parts
from linkwise.broker.groups.notices import unlinked_text
from linkwise.broker.groups.planning.what_if import Assumption, WhatIf
from linkwise.broker.groups.readiness import alternatives, bundle, bundle_keys, joined, pending_reason, unlinked
from linkwise.broker.groups.stale_gangs import stale_text
from linkwise.broker.holding import evictions as preemption
from linkwise.broker.holding.reserved_devices import drained_for
from linkwise.broker.readers import readable
from linkwise.broker.records.members import BackingOff, Planning, Reserved, Unschedulable
from linkwise.broker.scheduling.queries import views_of_new
from linkwise.broker.state import pod_name
from linkwise.engine.planning.seating import slowest_pair
from linkwise.engine.reasons.catalog import refusal
from linkwise.explain.codes import group_code, stage_code
from linkwise.explain.group.shortage import explain_short
from linkwise.explain.placement import container_devices
from linkwise.explain.reports import GroupExplanation, GroupNode, MemberReport, PlanLevel, RunnerUp
from linkwise.model.topology import NO_LINK_DATA
from linkwise.topology.fabric import NEAR, SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.engine.planning.planner import Level
    from linkwise.explain.reports import GroupStage
    from linkwise.model.verdict import Part, Reason
    from linkwise.model.views import PodView

__all__ = [
    "Compared",
    "best_of",
    "compared",
    "explain_group",
    "explain_new_pods",
    "group_explanation",
    "group_stage",
    "hosts_of",
    "member_reports",
]

TRIED: Final = 8
"""nodes left out one at a time to find the runner-up"""
TOO_LONG: Final = "not all alternatives were searched, as there are too many"
SAME: Final = "tie broken by node name"
SPEEDS: Final = ("bottleneck", "per pod")


def explain_group(
    broker: Broker, key: str, now: float, *, most: int | None = None, readable: frozenset[str] | None = None
) -> GroupExplanation | None:
    """Explain a group, identified by its key or the UID of a member; None if there is no such group.

    `most` limits the number of remedies and leaves out the runner-up, which is faster. Pods and groups are named if they are
    of the `readable` namespaces; None for all.
    """
    return group_explanation(broker.state_at(now, readable), key, now, most=most)


def group_explanation(state: State, key: str, now: float, *, most: int | None = None) -> GroupExplanation | None:
    """The same for a caller that has the state already."""
    key = state.groups.key_of(key) or key
    view = state.groups.view(key)
    if view is None:
        return None
    stage, reason = group_stage(state, view, now)
    report = _initial(state, view, stage, now)
    reserved = state.groups.plan_of(key)
    if reason:
        report = _waiting(state, report, reason)
    if reserved:
        report = replace(report, held=max(0.0, reserved.expires - now))
    if stage not in {"schedulable", "reserved", "unschedulable"}:
        return replace(_with_members(state, view, report, None), code=stage_code(stage, reason))
    report = _planned(state, view, report, reserved.plan if reserved else None, most)
    return replace(report, code=group_code(report) if report.needs else stage_code(report.stage, reason))


def explain_new_pods(
    broker: Broker,
    pods: Sequence[PodView],
    now: float,
    readable: frozenset[str] | None = None,
    but: Collection[str] = (),
) -> list[GroupExplanation]:
    """Explain pods that do not exist, as if they were created now: by the groups that they declare, each beside its bound members.

    Nothing is reserved or recorded. `but` are nodes that are left out.
    """
    state = broker.state_at(now, readable)
    groups = [_new_group(state, view, frozenset(but)) for view in views_of_new(state, pods)]
    for pod in pods:
        state.access.forget(pod.uid)
    return groups


def _new_group(state: State, view: GroupView, but: frozenset[str]) -> GroupExplanation:
    what_if = WhatIf(state, view)
    plan = what_if.plan(Assumption(but=but))
    report = replace(_initial(state, view, "schedulable" if plan else "unschedulable", 0.0), drained="")
    report = _with_members(state, view, replace(report, network=what_if.network), plan)
    if plan:
        report = _with_plan(report, what_if, plan, alone=bool(but) or bool(view.bound))
    if plan is None or report.count("left out"):
        report = explain_short(state, view, what_if, report)
    code = group_code(report) if report.needs else stage_code(report.stage, None)
    return replace(report, code=code, notes=(*report.notes, *([TOO_LONG] if what_if.cut else [])))


def group_stage(state: State, view: GroupView, now: float) -> tuple[GroupStage, Reason | None]:
    """Return the stage of a group as far as it is known without planning it, and the reason it is pending."""
    match state.groups.stage(view.key):
        case Reserved():
            return "reserved", None
        case Planning():
            return "planning", None
        case Unschedulable():
            return "unschedulable", None
        case BackingOff(reason=backoff):
            return "pending", backoff
    if not view.waiting:
        return "placed", None
    reason = pending_reason(state, view, now)
    stage: GroupStage = "schedulable" if reason is None else "gated" if reason.kind == "gated" else "pending"
    return stage, reason


def _initial(state: State, view: GroupView, stage: GroupStage, now: float) -> GroupExplanation:
    group = view.group
    evicting = preemption.of_group(state, view)
    odd = filter(None, [evicting, stale_text(state, view, now), unlinked_text(unlinked(state, group))])
    return GroupExplanation(
        group.key,
        group.source,
        stage,
        group.total,
        group.minimum,
        bundle=tuple(mate for mate in bundle_keys(state, group.key) if mate != group.key),
        policy=_policy(state, view),
        nodes=len(state.cluster.nodes),
        drained=next((text for pod in view.waiting if (text := drained_for(state, pod.uid))), ""),
        notes=(*_notes(state, view), *odd),
    )


def _waiting(state: State, report: GroupExplanation, reason: Reason) -> GroupExplanation:
    asked, there = (fact if isinstance(fact, int) else 0 for fact in (reason.asked, reason.found))
    match reason.kind:
        case "gated":
            return replace(report, lacking=there)
        case "missing":
            window = state.settings.group.window if reason.rule == "001.members" else 0.0
            return replace(report, lacking=asked - there, window=window)
        case _:
            return replace(report, sentence=refusal(readable(state, reason)))


def _planned(
    state: State, view: GroupView, report: GroupExplanation, plan: Plan | None, most: int | None
) -> GroupExplanation:
    """Add the reserved plan, or the plan that would be made now, and what is missing if it leaves members out."""
    whole = joined(bundle(state, view.key))
    what_if = WhatIf(state, whole)
    if plan is None:
        plan = what_if.plan() or _of_fewer(state, view)
        report = replace(report, stage="schedulable" if plan else "unschedulable")
    report = _with_members(state, view, replace(report, network=what_if.network), plan)
    if plan:
        report = _with_plan(report, what_if, plan, alone=most is not None or bool(whole.bound))
    if plan is None or report.count("left out"):
        report = explain_short(state, whole, what_if, report, most)
    return replace(report, notes=(*report.notes, TOO_LONG)) if what_if.cut else report


def _of_fewer(state: State, view: GroupView) -> Plan | None:
    """Plan a bundle that does not fit with all members: only as many of each gang as must start."""
    for fewer, left in list(alternatives(bundle(state, view.key)))[1:]:
        if plan := WhatIf(state, fewer).plan():
            return replace(plan, missing=(*plan.missing, *left))
    return None


def _policy(state: State, view: GroupView) -> str:
    requests = (state.request(pod) for pod in (*view.waiting, *view.bound))
    return next((request.policy for request in requests if request.ask), "")


def _notes(state: State, view: GroupView) -> tuple[str, ...]:
    """Return the problems of the members' annotations and requests, each once."""
    names_by_sentence: dict[str, list[str]] = {}
    for pod in view.waiting:
        request, query = state.request(pod), state.query(pod)
        refused = query.policy.admit(query.ask) if query else None
        sentences = [problem.text for problem in request.problems]
        for sentence in (*sentences, *([refusal(refused)] if refused else ())):
            names_by_sentence.setdefault(sentence, []).append(pod.name)
    return tuple(f"{_pod_names(names)}: {sentence}" for sentence, names in names_by_sentence.items())


def _pod_names(names: list[str]) -> str:
    return f"pod {names[0]}" if len(names) == 1 else f"pod {names[0]} and {len(names) - 1} more"


def _with_members(state: State, view: GroupView, report: GroupExplanation, plan: Plan | None) -> GroupExplanation:
    members = member_reports(state, view, plan, reserved=report.stage == "reserved")
    return replace(report, members=members, hosts=hosts_of(state, members))


def _with_plan(report: GroupExplanation, what_if: WhatIf, plan: Plan, *, alone: bool) -> GroupExplanation:
    """Add the levels of the plan and the runner-up; not for `alone`, as a partly bound group has little choice."""
    report = replace(report, levels=tuple(map(_level, plan.levels)), region=plan.region)
    if alone or not plan.levels:
        return report
    others = _others(what_if, plan)
    if not others:
        return replace(report, sole=not what_if.cut)
    other = others[best_of([plan.levels for plan in others])]
    result = compared(plan.levels, other.levels, what_if.network)
    return replace(report, runner_up=RunnerUp(other.nodes, result.level, result.sentence, result.better))


def _others(what_if: WhatIf, plan: Plan) -> list[Plan]:
    """Return the best plans without one of the nodes each, ordered by node names."""
    held = what_if.held
    names = [name for name in plan.nodes if name not in held]
    plans = [what_if.plan(Assumption(but=frozenset({name}))) for name in _various(names, plan, what_if)]
    return sorted((other for other in plans if other and other.levels), key=lambda other: sorted(other.nodes))


def _various(names: list[str], plan: Plan, what_if: WhatIf) -> list[str]:
    """Return a few nodes of different kinds; of one kind the last, so that the first by name stays in the plan."""
    homes = Counter(placement.node for placement in plan.placements.values())
    kinds = {(homes[name], what_if.kind(name)): name for name in sorted(names)}
    return list(kinds.values())[:TRIED]


def _level(level: Level) -> PlanLevel:
    value = level.shown or level.value
    return PlanLevel(level.name, tuple(part if isfinite(part) else None for part in value), level.proven)


def member_reports(state: State, view: GroupView, plan: Plan | None, *, reserved: bool) -> tuple[MemberReport, ...]:
    """Report members: bound ones first, then pending ones by rank, then terminating and extra ones."""
    extra = [pod for uid in view.extra if (pod := state.pod(uid))]
    return (
        *(_bound_member(state, pod) for pod in view.bound),
        *(_waiting_member(state, pod, plan, reserved=reserved) for pod in view.waiting),
        *(_bound_member(state, pod) for pod in view.leaving),
        *(replace(_unplaced_member(state, pod), state="extra") for pod in extra),
    )


def hosts_of(state: State, members: Iterable[MemberReport]) -> tuple[GroupNode, ...]:
    """Report the nodes of placed members, in member order."""
    homes: dict[str, list[MemberReport]] = {}
    for member in members:
        if member.node:
            homes.setdefault(member.node, []).append(member)
    return tuple(_host(state, name, there) for name, there in homes.items())


def _host(state: State, name: str, members: Sequence[MemberReport]) -> GroupNode:
    node = state.cluster.index.nodes.get(name)
    devices = {device for member in members for part in member.devices for device in part.devices}
    indices = tuple(sorted({index for member in members for index in member.indices}))
    if node is None:
        return GroupNode(name, len(members), indices, 0)
    idle = sum(device.id not in devices for device in node.free()) - node.unattributed
    return GroupNode(name, len(members), indices, max(0, idle), slowest_pair(node, devices))


def _bound_member(state: State, pod: PodView) -> MemberReport:
    entry = state.cluster.ledger.get(pod.uid)
    inventory = state.cluster.inventories.get(entry.node) if entry else None
    parts = allocated_parts(inventory, entry) if inventory and entry else entry.grant.offer.parts if entry else ()
    report = _with_devices(state, _unplaced_member(state, pod), pod.node, parts)
    under_way = entry is not None and (entry.state == "ASSUMED" or entry.booked)
    return replace(report, state="terminating" if pod.deleting else "binding" if under_way else "bound")


def _waiting_member(state: State, pod: PodView, plan: Plan | None, *, reserved: bool) -> MemberReport:
    report = _unplaced_member(state, pod)
    if pod.gates:
        return replace(report, state="gated")
    if plan is None:
        return report
    placement = plan.placements.get(pod.uid)
    if placement is None:
        return replace(report, state="left out") if report.asks else report
    report = _with_devices(state, report, placement.node, placement.offer.parts if placement.offer else ())
    return replace(report, state="planned" if reserved else "schedulable")


def _with_devices(state: State, report: MemberReport, name: str, parts: tuple[Part, ...]) -> MemberReport:
    node = state.cluster.index.nodes.get(name)
    devices = dict.fromkeys(device for part in parts for device in part.devices)
    return replace(
        report,
        node=name,
        devices=container_devices(parts, node.devices if node else ()),
        bottleneck=slowest_pair(node, list(devices)) if node else None,
    )


def _unplaced_member(state: State, pod: PodView) -> MemberReport:
    ask = state.request(pod).ask
    return MemberReport(pod.uid, pod_name(pod), "pending", ask.devices if ask else 0)


@dataclass(frozen=True, slots=True)
class Compared:
    """The first level in which two plans differ; empty if node names break the tie."""

    level: str
    sentence: str
    better: bool = False
    """whether the other plan is better there: the cluster changed, or the search was incomplete"""


def compared(chosen: Sequence[Level], other: Sequence[Level], network: Sequence[str] = ()) -> Compared:
    """Compare a chosen plan with another; `network` names the network levels, the broadest first."""
    values = {level.name: level.value for level in other}
    known = [level for level in chosen if level.name in values]
    for place, level in enumerate(known):
        here, there = level.value, values[level.name]
        step = _step(level.name, here, there)
        if not step:
            continue
        faster = [before for before in known[:place] if before.name in SPEEDS and before.value > values[before.name]]
        if step > 0 and faster and level.proven:
            # It is better here only because its slowest pair was allowed to be slower.
            return Compared(faster[0].name, _too_slow(faster))
        return Compared(level.name, _WORDS[level.name](here, there, network), better=step > 0)
    return Compared("", SAME)


def best_of(plans: Sequence[Sequence[Level]]) -> int:
    """Return the index of the best plan: level by level only the best stay, then the first wins."""
    left = list(range(len(plans)))
    for number, level in enumerate(plans[0]):
        values = {place: plans[place][number].value for place in left}
        best = left[0]
        for place in left[1:]:
            best = place if _order(level.name, values[place]) < _order(level.name, values[best]) else best
        left = [place for place in left if not _step(level.name, values[best], values[place])]
    return left[0]


def _order(name: str, value: tuple[float, ...]) -> tuple[float, ...]:
    """Return a sort key; smaller is better."""
    if name == "placed":
        return (-sum(value),)
    if name == "network" and all(count == 1 for count in value):
        return ()  # plans made before and after levels came or went are in one domain all the same
    return tuple(-part for part in value) if name in SPEEDS else value


def _step(name: str, here: tuple[float, ...], there: tuple[float, ...]) -> int:
    """Return whether the other is worse (-1), better (1) or equal (0)."""
    if name in SPEEDS:
        slower, faster = sorted((here[0], there[0]))
        if slower == faster or slower >= NEAR * faster:
            return 0
    one, other = _order(name, here), _order(name, there)
    return (one > other) - (one < other)


def _network(here: tuple[float, ...], there: tuple[float, ...], network: Sequence[str]) -> str:
    pairs = list(zip_longest(here, there, fillvalue=1.0))
    place = next(number for number, (own, its) in enumerate(pairs) if own != its)
    own, its = pairs[place]
    level = f" of {network[place]}" if place < len(network) else ""
    return f"spans {its:g} domain{'' if its == 1 else 's'}{level} instead of {own:g}"


def _speed(whose: str, here: float, there: float) -> str:
    if not there:
        return NO_LINK_DATA
    if not isfinite(there):
        return "no pair of devices would be a bottleneck"
    return f"{whose} has {there:g} GB/s" + (
        f" instead of {here:g} GB/s" if isfinite(here) else "; the plan has no pairs"
    )


def _residual(here: tuple[float, ...], there: tuple[float, ...], network: Sequence[str]) -> str:
    del network
    size, own, its = next((size, *pair) for size, *pair in zip(SIZES, here, there, strict=True) if pair[0] != pair[1])
    sets = abs(its - own)
    return (
        f"leaves {sets:g} {'fewer' if its > own else 'more'} good set{'' if sets == 1 else 's'} of {size} to other pods"
    )


def _too_slow(faster: Sequence[Level]) -> str:
    if len(faster) > 1:
        return "its slowest pair, or that of a member, is more than 5% slower than the best"
    whose = "its slowest pair" if faster[0].name == "bottleneck" else "the slowest pair of a member"
    return f"{whose} has less than {NEAR * faster[0].value[0]:g} GB/s, more than 5% below the best"


def _counted(verb: str, noun: str, after: str = "") -> Callable[..., str]:
    def sentence(here: tuple[float, ...], there: tuple[float, ...], network: Sequence[str]) -> str:
        del network
        count = sum(there)
        return f"{verb} {count:g} {noun}{'' if count == 1 else 's'}{after} instead of {sum(here):g}"

    return sentence


_WORDS: Final[dict[str, Callable[..., str]]] = {
    "placed": _counted("places", "member"),
    "nodes": _counted("uses", "node"),
    "network": _network,
    "bottleneck": lambda here, there, _: _speed("its slowest pair", here[0], there[0]),
    "per pod": lambda here, there, _: _speed("the slowest pair of a member", here[0], there[0]),
    "residual": _residual,
    "left-over": _counted("leaves", "device", " free on its nodes"),
}

"""Explains why a pod is pending, or why it has its devices; for a member of a group with the stage of the group.

Computed from the cluster as it is now; nothing is changed. A resource that no node provides is reported with the most
similar name, as it is usually a typing error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import not_permitted
from linkwise.broker.candidates import Candidates
from linkwise.broker.cluster.demand import demand_of
from linkwise.broker.cluster.pod_request import is_volcano
from linkwise.broker.groups.claim_obstacles import claim_obstacles, incomplete_pools
from linkwise.broker.groups.stale_gangs import stale_text
from linkwise.broker.holding import evictions as preemption
from linkwise.broker.holding.reserved_devices import drained_for, reserved_nodes
from linkwise.broker.readers import readable
from linkwise.broker.records.members import BackingOff, Unschedulable
from linkwise.broker.state import pod_name
from linkwise.broker.unobserved import is_unobserved_member
from linkwise.broker.volcano.nodes import describe_pod_group, lost_pin, pinned_node
from linkwise.dialects.groups.conventions import VOLCANO
from linkwise.dialects.groups.pod_group_objects import names_no_node
from linkwise.dialects.kubernetes.claims.requests import CLAIM, has_claim_request
from linkwise.dialects.linkwise.group_plan import GATE, GROUP_PLAN, has_other_gates, is_gated
from linkwise.dialects.misspelt_keys import closest_key
from linkwise.engine.reasons.catalog import code_of, refusal
from linkwise.explain.choice.devices import why_chosen
from linkwise.explain.codes import SCHEDULER, nowhere_code, stage_code, state_code
from linkwise.explain.group.group import group_explanation, group_stage
from linkwise.explain.placement import container_devices, explain_placed, other_node, rank_of, terms_of
from linkwise.explain.remedies import fewer_devices, remedies
from linkwise.explain.reports import Explanation, Offered, Requested
from linkwise.explain.survey import against_all, survey
from linkwise.explain.text.group import NOTHING_RESERVED, brief_lines, heading
from linkwise.explain.text.pod import CLAIM_PENDING, HAS_GATES, explanation_lines
from linkwise.model.verdict import Offer
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.broker import Broker
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.reasons.phrases import ReasonCode
    from linkwise.explain.reports import GroupExplanation, GroupStage
    from linkwise.explain.survey import Survey
    from linkwise.model.ask import Ask
    from linkwise.model.verdict import Problem
    from linkwise.model.views import PodView

__all__ = [
    "NO_POD_GROUP",
    "as_member",
    "awaits_pod_group",
    "explain_alone",
    "explain_new_pod",
    "explain_pod",
    "explanation_lines",
    "unknown_resource",
    "volcano_notes",
    "with_outlook",
]

ONLY_BY_CLAIM: Final = (
    "its status names a ResourceClaim of an earlier attempt, so it can run only where claims allocate devices; a new pod can"
    " run on other nodes, too"
)
PLANNED_WHEN: Final = "is planned when the scheduler tries one of its members"
UNSEEN: Final = "the scheduler asked about it before it was observed; it is retried once it is"
NO_POD_GROUP: Final = (
    f"it waits for its PodGroup: Volcano's controllers create one and name it in the annotation {VOLCANO[0]}; if that takes"
    " longer than a few seconds, check that vc-controller-manager runs"
)


def explain_pod(
    broker: Broker, uid: str, now: float, *, plan: bool = True, readable: frozenset[str] | None = None
) -> Explanation | None:
    """Why the pod is pending, or has these devices; None if it is unknown. With `plan` its group is planned if needed.

    Pods and groups are named if they are of the `readable` namespaces; None for all.
    """
    state = broker.state_at(now, readable)
    pod = state.pod(uid)
    return as_member(state, explain_alone(state, pod), now, plan=plan) if pod else None


def explain_new_pod(broker: Broker, pod: PodView, now: float, readable: frozenset[str] | None = None) -> Explanation:
    """Explain a pod that does not exist, as if it were created now; nothing is reserved or recorded."""
    state = broker.state_at(now, readable)
    report = explain_alone(state, pod)
    state.access.forget(pod.uid)
    return replace(report, offered=None, code="Planned" if report.code == "OtherScheduler" else report.code)


def explain_alone(state: State, pod: PodView) -> Explanation:
    """Explain a pod without regard to its group."""
    report = _explain_alone(state, pod)
    return report if report.code else replace(report, code=state_code(report.state) or "")


def as_member(state: State, report: Explanation, now: float, *, plan: bool) -> Explanation:
    """Add the stage of the pod's group; a pod that is placed alone is unchanged.

    Whether a group without a plan fits is known only by planning it, which is slow for large groups: only if `plan`.
    """
    waiting = report.state in {"unschedulable", "schedulable"} or (report.state == "no devices" and not report.node)
    pod, key = state.pod(report.uid), state.groups.key_of(report.uid)
    if pod and waiting and is_unobserved_member(state, pod):
        return replace(report, state="grouped", notes=(*report.notes, UNSEEN), code="Planned")
    if pod and waiting and awaits_pod_group(state, pod):
        return replace(report, state="grouped", standing=NO_POD_GROUP, code="GangIncomplete")
    view = state.groups.view(key) if key else None
    if view is None or report.uid in view.extra or view.group.source == CLAIM:
        return _planned_alone(state, view, report, now) if view else report
    stuck = stale_text(state, view, now) if report.node else ""
    notes = (*report.notes, stuck) if stuck else report.notes
    stage, reason = group_stage(state, view, now)
    standing = refusal(readable(state, reason)) if reason else _standing(state, stage, key, report)
    report = replace(report, group=key, standing=standing, notes=notes)
    if not waiting or _is_placed_alone(state, key, report):
        return report
    if stage == report.state == "unschedulable" and pod and _is_alone(state, pod):
        return report  # the reasons of nodes say more than the group
    left_out = stage == "reserved" and not _has_place(state, key, report.uid)
    known = state.groups.stage(key)
    short = known.reason if isinstance(known, Unschedulable) else None
    code = "NoRoom" if left_out else stage_code(stage, reason or short)
    report = replace(report, state="grouped", code=code)
    lacking = stage in {"schedulable", "unschedulable"} or left_out
    outlook = group_explanation(state, key, now, most=1) if plan and lacking else None
    return with_outlook(report, outlook) if outlook else report


def _planned_alone(state: State, view: GroupView, report: Explanation, now: float) -> Explanation:
    """Add why the plan of a single pod was dropped; to readers, a gang of one is no group."""
    stage, reason = group_stage(state, view, now)
    if view.group.source != CLAIM or reason is None:
        return report
    return replace(report, standing=refusal(readable(state, reason)), code=stage_code(stage, reason))


def with_outlook(report: Explanation, group: GroupExplanation, *, helped: bool = True) -> Explanation:
    """Add the outlook of a pending member: what planning its group now would yield, and the first remedy."""
    left_out = any(member.uid == report.uid and member.state == "left out" for member in group.members)
    if left_out or group.stage == "unschedulable":
        report = replace(report, code=group.code)
    match group.stage:
        case "unschedulable":
            report = replace(report, standing=f"its group {heading(group)}")
        case "schedulable":
            rest = "leaves this pod out" if left_out else PLANNED_WHEN
            report = replace(report, code=report.code if left_out else "Planned")
            report = replace(report, standing=f"its group {heading(group)}, and {rest}")
    if group.stage != "unschedulable" and not left_out:
        return report
    return replace(
        report, lacks=tuple(line for line in brief_lines(group, helped=helped) if not _in_notes(report, line))
    )


def unknown_resource(state: State, pod: PodView) -> str:
    """Return a sentence about the first requested resource that no node provides; empty if there is none."""
    resources = [
        name for container in pod.containers for names in (container.limits, container.requests) for name in names
    ]
    extended = [name for name in dict.fromkeys(resources) if "/" in name]
    if not extended or pod.node:
        return ""
    there = {name for view in state.cluster.nodes.values() for name in view.allocatable or view.capacity}
    there.update(*(inventory.words for inventory in state.cluster.inventories.values() if inventory.by_claims))
    unknown = next((name for name in extended if name not in there), "")
    if not unknown:
        return ""
    near = closest_key(unknown, sorted(name for name in there if "/" in name))
    return f"no node provides {unknown}" + (f"; did you mean {near}?" if near else "")


def awaits_pod_group(state: State, pod: PodView) -> bool:
    """Whether a gated pod of Volcano is in no group yet."""
    return is_gated(pod) and is_volcano(state.settings, pod) and not state.groups.key_of(pod.uid)


def volcano_notes(state: State, pod: PodView) -> tuple[str, ...]:
    """What is expected of Volcano for a pending pod, what it reports, and the nodes that it refused; none for other pods."""
    if pod.node or not is_volcano(state.settings, pod):
        return ()
    return (*_expected(state, pod), *_reported(pod), *_refused_nodes(state, pod))


def _explain_alone(state: State, pod: PodView) -> Explanation:
    uid = pod.uid
    request, entry = state.request(pod), state.cluster.ledger.get(uid)
    report = Explanation(
        uid, pod_name(pod), "no devices", len(state.cluster.nodes), policy=request.policy, node=pod.node
    )
    problems = state.cluster.problems.get(uid, request.problems)
    report = replace(
        report, asked=_requested(state, request.ask, entry.node if entry else ""), notes=_sentences(problems)
    )
    required = _required(request.ask)
    report = replace(
        report,
        notes=(
            *report.notes,
            *required,
            *preemption.of_pod(state, pod),
            *volcano_notes(state, pod),
            *_claim_notes(state, pod),
        ),
    )
    if pod.phase in FINISHED or pod.stopped:
        ended = replace(report, state="ended")
        return replace(ended, sentence=pod.rejection, notes=_after_rejection(pod)) if pod.rejection else ended
    if entry is not None:
        offered = _offered(state, pod) if entry.state == "OFFERED" else None
        return explain_placed(state, pod, request, entry, replace(report, offered=offered))
    if request.ask is None:
        return _without_ask(request, report, unknown_resource(state, pod))
    return report if pod.node else _unplaced(state, pod, request, report)


def _claim_notes(state: State, pod: PodView) -> list[str]:
    return [f"{CLAIM_PENDING}: {obstacle}" for obstacle in claim_obstacles(state, pod)]


def _requested(state: State, ask: Ask | None, node: str) -> Requested | None:
    if ask is None:
        return None
    unit = "bytes" if ask.in_bytes else "" if ask.devices else _unit(state, ask, node)
    return Requested(ask.resource, ask.mode, ask.devices, ask.share, ask.core, unit, ask.profile, ask.containers)


def _unit(state: State, ask: Ask, node: str) -> str:
    """Return the unit of shares on the pod's node, or on all nodes in that mode if they agree."""
    inventories = state.cluster.inventories
    if ask.mode == "percent":
        return "%"
    if node in inventories:
        return inventories[node].unit
    units = {inventory.unit for inventory in inventories.values() if inventory.mode == ask.mode}
    return units.pop() if len(units) == 1 else ""


def _sentences(problems: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(problem.text for problem in problems)


def _required(ask: Ask | None) -> list[str]:
    """Return what the pod requires of its devices, by annotation or variable."""
    requirement = ask.requirement if ask else None
    return [f"it requires {text} ({source})" for source, text in requirement.by_source().items()] if requirement else []


def _after_rejection(pod: PodView) -> tuple[str, ...]:
    """Return what follows for a pod that the kubelet has rejected, and what to do."""
    if pod.owner is None:
        follows = "it has no controller that creates another: delete it and create it again"
    else:
        counted = "; this one counts towards its backoffLimit" if pod.owner.kind == "Job" else ""
        follows = f"{pod.owner.kind} {pod.owner.name} is expected to create another one{counted}"
    agent = (
        f"if pods are rejected again, look at the device plugin of node {pod.node}: linkwise explain node/{pod.node}"
    )
    return f"the kubelet does not start it again; {follows}", agent


def _offered(state: State, pod: PodView) -> Offered:
    """Return the offers that led to no bind, the last one included unless it is still open."""
    queued = state.queue.get(pod.uid)
    if queued is None:
        return Offered(asked=False)
    last = () if state.cluster.ledger.offered(pod.uid) else queued.offered
    return Offered(queued.rounds + bool(last), tuple(sorted(queued.failed.union(last))))


def _without_ask(request: PodRequest, report: Explanation, unknown: str) -> Explanation:
    broken = request.broken
    if broken is None:
        return replace(report, state="invalid", sentence=unknown) if unknown else report
    others = [problem for problem in request.problems if problem is not broken]
    return replace(report, state="invalid", sentence=broken.text, notes=_sentences(others))


def _unplaced(state: State, pod: PodView, request: PodRequest, report: Explanation) -> Explanation:
    query = state.query_of(request, pod)
    if query is None:
        return report
    report = replace(report, notes=(*report.notes, *_holding_back(pod, request)))
    refused = query.policy.admit(query.ask)
    if refused:
        less = fewer_devices(state, pod, query, demand_of(pod)[0])
        return replace(report, state="invalid", sentence=refusal(refused), remedies=less, code=code_of(refused))
    if state.access and (denied := not_permitted(state, pod, query)):
        return replace(report, state="not permitted", sentence=refusal(denied), code=code_of(denied))
    nodes = survey(state, pod, query)
    offered = None if has_claim_request(pod) else _offered(state, pod)  # no scheduler asks about it
    report = replace(report, drained=drained_for(state, pod.uid))
    if not nodes.fitting:
        report = replace(report, notes=(*report.notes, *incomplete_pools(state)))
    if nodes.fitting:
        unasked = offered is not None and not offered.asked and pod.scheduler not in {"", SCHEDULER}
        code: ReasonCode = "GangIncomplete" if pod.gates else "OtherScheduler" if unasked else "Planned"
        return _schedulable(state, pod, query, nodes, replace(report, offered=offered, code=code))
    return replace(
        report,
        state="unschedulable",
        offered=offered,
        code="GangIncomplete" if pod.gates and not _is_alone(state, pod) else nowhere_code(nodes),
        against=against_all(state, query, nodes),
        # What helps a member alone does not help its group, which has remedies of its own.
        remedies=() if _is_member(state, pod.uid) and not _is_alone(state, pod) else remedies(state, pod, query, nodes),
    )


def _holding_back(pod: PodView, request: PodRequest) -> list[str]:
    others = [gate for gate in pod.gates if gate != GATE]
    gates = [f"{HAS_GATES}: {', '.join(others)}"] if others else []
    gates += [f"its scheduling gate {GATE} is removed when its devices are planned"] if is_gated(pod) else []
    return [
        *gates,
        *([ONLY_BY_CLAIM] if request.claimed and not has_claim_request(pod) else []),
        *([f"preemption is in progress on node {pod.nominated}, nominated for it"] if pod.nominated else []),
    ]


def _schedulable(state: State, pod: PodView, query: Query, surveyed: Survey, report: Explanation) -> Explanation:
    """Explain where it would go."""
    nodes = {**state.cluster.index.nodes, **reserved_nodes(state, (pod.uid,))}
    best, own = surveyed.fitting[0]
    offer = Candidates(state, query, pod.uid).pick(best)
    if not isinstance(offer, Offer):
        return report
    return replace(
        report,
        state="schedulable",
        fitting=len(surveyed.fitting),
        node=best,
        devices=container_devices(offer.parts, nodes[best].devices),
        unit=state.cluster.inventories[best].unit,
        terms=terms_of(query, own),
        rank=rank_of(own, surveyed.fitting),
        choice=why_chosen(query, nodes[best], offer.devices),
        other=other_node(query, own, [entry for entry in surveyed.fitting if entry[0] != best]),
        against=against_all(state, query, surveyed),
    )


def _is_alone(state: State, pod: PodView) -> bool:
    """Return whether the pod is all of its group, as the PodGroups are that Volcano makes for single pods."""
    view = state.groups.view(state.groups.key_of(pod.uid))
    alone = view is not None and view.seen == 1 and view.least <= 1 and view.group.total in {None, 1}
    return alone and not has_other_gates(pod)


def _is_member(state: State, uid: str) -> bool:
    view = state.groups.view(state.groups.key_of(uid))
    return view is not None and uid not in view.extra


def _standing(state: State, stage: GroupStage, key: str, report: Explanation) -> str:
    match stage:
        case "planning":
            return "its group is being planned"
        case "reserved":
            left_out = not _has_place(state, key, report.uid)
            return f"its group is planned{', and this pod is left out' if left_out else ''}"
        case "unschedulable":
            return f"its group does not fit now; {drained_for(state, report.uid) or NOTHING_RESERVED}"
        case "placed":
            return "its group is placed"
        case _:
            return f"its group is complete, and {PLANNED_WHEN}"


def _has_place(state: State, key: str, uid: str) -> bool:
    """Return whether it is bound, or placed by the current plan."""
    pod, plan = state.pod(uid), state.groups.plan_of(key)
    return bool(plan and uid in plan.plan.placements) or bool(pod and pod.node)


def _is_placed_alone(state: State, key: str, report: Explanation) -> bool:
    """Return whether the member requests no devices and the plan has no place for it: it may go to any node."""
    return report.asked is None and state.groups.plan_of(key) is not None and not _has_place(state, key, report.uid)


def _in_notes(report: Explanation, line: str) -> bool:
    return any(line.endswith(note) for note in report.notes)


def _expected(state: State, pod: PodView) -> tuple[str, ...]:
    steered = GROUP_PLAN in pod.annotations and not is_gated(pod)
    if not steered:
        return ()
    if gone := lost_pin(state, pod):
        return (gone,)
    entry, stage = state.cluster.ledger.get(pod.uid), state.groups.stage(state.groups.key_of(pod.uid))
    if entry:
        return (f"Volcano is expected to bind it to node {entry.node}; if it does not, run: {describe_pod_group(pod)}",)
    late = f"Volcano did not bind it in time; run: {describe_pod_group(pod)}"
    pinned = (
        f"it was pinned to node {pinned_node(pod)} when its scheduling gate was removed, and is planned again there only; delete it"
        " to let its job create one that may go elsewhere"
    )
    return (late, pinned) if isinstance(stage, BackingOff) and stage.reason.kind == "resting" else (pinned,)


def _reported(pod: PodView) -> tuple[str, ...]:
    """The message of Volcano about a pod whose nodes it tried."""
    message = pod.unschedulable_message
    return (f"Volcano reports: {message}",) if names_no_node(message) else ()


def _refused_nodes(state: State, pod: PodView) -> tuple[str, ...]:
    refused = sorted(state.groups.demoted.get(state.groups.key_of(pod.uid), ()))
    text = f"node {', '.join(refused)} is used only if no other fits: Volcano did not bind a pod of its group there"
    return (text,) if refused else ()

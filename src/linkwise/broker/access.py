"""Access control in scheduling: what policies refuse to pods and groups, and the status of the policies.

A pod is judged again in every filter and bind, by its namespace, its service account and its recorded user, so that one
made before a policy, or past the webhook, does not slip in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from linkwise.broker.effects import PolicyStatus, Wake
from linkwise.broker.records.members import Waiting
from linkwise.dialects.linkwise.accelerator_policy import POLICY, subject_of
from linkwise.engine.access import RULE, Condition, conditions_of, conflicts, devices_of
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.access import AccessRule, AccessRules
    from linkwise.engine.index.node_index import Query
    from linkwise.model.access_policy import AcceleratorPolicy
    from linkwise.model.views import PodView

__all__ = [
    "PolicyReport",
    "barred_nodes",
    "group_reason",
    "has_work",
    "not_permitted",
    "policy_reports",
    "policy_statuses",
    "reconcile_access",
    "refused_on",
    "refused_pod",
    "within_limits",
]

_NONE: Mapping[str, Reason] = {}


def not_permitted(state: State, pod: PodView, query: Query) -> Reason | None:
    """Return why policies permit the request of a pod on no node now; None if they do."""
    rule = state.access.rule_of(pod)
    return None if rule is None else rule.refusal(query.ask) or state.access.limit_reason(pod, query.ask, rule)


def barred_nodes(state: State, pod: PodView, query: Query) -> Mapping[str, Reason]:
    """Return the nodes that policies leave out for a pod; the reason may name another subject of the policy."""
    rule = state.access.rule_of(pod)
    return _NONE if rule is None else state.access.barred(rule, query.ask)


def refused_on(state: State, pod: PodView, query: Query, node: str) -> Reason | None:
    """Return why policies do not permit the request of a pod on a node now; None if they do."""
    rule = state.access.rule_of(pod)
    if rule is None:
        return None
    there = state.cluster.index.nodes.get(node)
    refused = not_permitted(state, pod, query)
    return refused or (rule.node_refusal(query.ask, there) if there else None)


def refused_pod(state: State, pod: PodView, query: Query, reason: Reason, now: float) -> None:
    """Remember a pod that policies refuse: it holds nothing, and is woken when that may have changed."""
    state.queue.refuse(state.asked(pod, query, now))
    state.withdraw(pod.uid)
    state.access.note_refusal(pod.uid, reason)


# groups


def group_reason(state: State, view: GroupView, minimum: int) -> Reason | None:
    """Return why policies do not permit a group: the request of a member, or the number that must start together."""
    if not state.access:
        return None
    judged = list(_governed(state, view))
    for _, query, rule in judged:
        if refused := rule.refusal(query.ask):
            return refused
    # rule 002.access: a gang that would exceed its limit is refused as a whole.
    within, over = within_limits(state, view)
    if len(within.waiting) >= minimum or not over:
        return None
    pod = next(pod for pod in view.waiting if pod.uid == over[0])
    rule = next(rule for other, _, rule in judged if other is pod)
    wanted = sum(devices_of(query.ask) for _, query, _ in judged[:minimum])
    for term, most in rule.limits:
        used = state.access.in_use(term.policy.name, pod.namespace, [each.uid for each in view.waiting])
        if used + wanted > most:
            return Reason(RULE, wanted, (term.who, str(used), str(most)), "group limit", term.policy.name)
    return None


def within_limits(state: State, view: GroupView) -> tuple[GroupView, tuple[str, ...]]:
    """Return the group with those pending members, by rank, that limits permit together, and the UIDs of the others."""
    if not state.access:
        return view, ()
    own = [pod.uid for pod in view.waiting]
    planned: dict[tuple[str, str], int] = {}
    over: list[str] = []
    for pod, query, rule in _governed(state, view):
        wanted, limits = devices_of(query.ask), rule.limits
        keys = [(term.policy.name, pod.namespace) for term, _ in limits]
        totals = [planned.get(key, 0) + state.access.in_use(*key, own) + wanted for key in keys]
        if any(total > most for total, (_, most) in zip(totals, limits, strict=True)):
            over.append(pod.uid)
        else:
            planned |= {key: planned.get(key, 0) + wanted for key in keys}
    if not over:
        return view, ()
    return replace(view, waiting=tuple(pod for pod in view.waiting if pod.uid not in over)), tuple(over)


# changes


def reconcile_access(state: State) -> None:
    """Derive what follows from changed policies, and from devices that were released."""
    if (before := state.cluster.changes.take_access()) is not None:
        _policies_changed(state, before)
    if has_work(state):
        _review_limits(state)


def has_work(state: State) -> bool:
    """Return whether pods or groups that wait for a limit may go on."""
    access = state.access
    if not access and not access.freed:
        return False
    changed = bool(access.freed or state.cluster.ledger.changed_keys)
    return changed and bool(access.limited or state.groups.in_stage(Waiting))


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """A policy, what counts for it, and its conditions."""

    policy: AcceleratorPolicy
    pods: int
    """pods with devices to which it applies"""
    devices: int
    """that these have"""
    conditions: tuple[Condition, ...]


def policy_reports(state: State) -> tuple[PolicyReport, ...]:
    """Return a report per policy, by name."""
    if not state.access:
        return ()
    rules, labels = state.cluster.shared.access, state.cluster.shared.namespaces
    models = {device.model for node in state.cluster.index.nodes.values() for device in node.devices if device.model}
    disagreements = conflicts(rules)
    return tuple(
        PolicyReport(
            policy,
            *state.access.totals(name),
            conditions_of(policy, disagreements[name], labels, models, state.access.by_namespace(name)),
        )
        for name, policy in rules.policies.items()
    )


def policy_statuses(state: State, now: float) -> tuple[PolicyStatus, ...]:
    """Return the statuses to be written."""
    effects = []
    for report in policy_reports(state):
        name, generation = report.policy.name, report.policy.generation
        found = state.cluster.shared.documents.get(POLICY, {}).get(name, {}).get("status")
        observed = found if isinstance(found, dict) else {}
        status = {
            "observedGeneration": generation,
            "pods": report.pods,
            "devices": report.devices,
            "refusals": state.access.all_refusals(name, observed.get("refusals")),
            "conditions": _conditions(report.conditions, observed, generation, now),
        }
        if status != {key: observed.get(key) for key in status}:
            effects.append(PolicyStatus(name, status))
    return tuple(effects)


def _governed(state: State, view: GroupView) -> Iterable[tuple[PodView, Query, AccessRule]]:
    """Yield the pending members that request devices and to which a policy applies."""
    for pod in view.waiting:
        query, rule = state.query(pod), state.access.rule_of(pod)
        if query is not None and rule is not None:
            yield pod, query, rule


def _policies_changed(state: State, before: AccessRules) -> None:
    """Derive what follows from changed policies or labels of namespaces, in both directions."""
    cluster, after = state.cluster, state.cluster.shared.access
    cluster.follow_sharing()
    if before.governs_sharing or after.governs_sharing:
        cluster.ledger.derive_sharing()
    state.access.recount()
    for queued in state.queue.unschedulable():
        subject = subject_of(queued.pod)
        if queued.uid in state.access.limited or state.groups.key_of(queued.uid):
            continue  # woken as far as limits permit, or with its group
        if before.known(subject) != after.rule(subject):
            _wake(state, queued.pod, "an AcceleratorPolicy that applies to it changed")
    # Plans that are not permitted any more are dropped, and groups that were refused are planned.
    cluster.changes.groups |= dict.fromkeys(state.groups.keys())
    cluster.changes.reopened = True


def _wake(state: State, pod: PodView, sentence: str) -> None:
    state.outbox.add([Wake(pod.namespace, pod.name, pod.uid, sentence, pod.priority)])


def _review_limits(state: State) -> None:
    """Wake pods and review groups that waited for a limit, as far as released devices permit, by priority and age."""
    access = state.access
    access.catch_up()
    if not access.freed:
        return
    freed, access.freed = access.freed, {}
    for key, record in state.groups.in_stage(Waiting):
        view = state.groups.view(key)
        if isinstance(record.stage, Waiting) and record.stage.reason.rule == RULE and _is_in(view, freed):
            state.cluster.changes.groups[key] = None
    if not access.limited:
        return
    waiting = [
        queued
        for uid in access.limited
        if (queued := state.queue.get(uid)) and queued.pod.namespace in freed and uid in state.cluster.pods
    ]
    claimed: dict[tuple[str, str], int] = {}
    for queued in sorted(waiting, key=lambda queued: (not access.limited[queued.uid], queued.turn)):  # woken ones first
        rule, query = access.rule_of(queued.pod), queued.query
        if query is None:
            continue
        wanted, limits = devices_of(query.ask), rule.limits if rule else ()
        keys = [(term.policy.name, queued.pod.namespace) for term, _ in limits]
        room = all(
            claimed.get(key, 0) + access.in_use(*key) + wanted <= most
            for key, (_, most) in zip(keys, limits, strict=True)
        )
        if room or access.limited[queued.uid]:
            claimed |= {key: claimed.get(key, 0) + wanted for key in keys}
        if room and not access.limited[queued.uid]:
            access.limited[queued.uid] = True
            _wake(state, queued.pod, f"devices of namespace {queued.pod.namespace} were released")


def _is_in(view: GroupView | None, namespaces: Collection[str]) -> bool:
    return view is not None and any(pod.namespace in namespaces for pod in view.waiting)


def _conditions(
    conditions: tuple[Condition, ...], observed: Mapping[str, Any], generation: int, now: float
) -> list[dict[str, object]]:
    """The conditions in the form of the API; one whose status is the same keeps the time of its last transition."""
    listed = observed.get("conditions")
    before = {
        known.get("type"): known for known in (listed if isinstance(listed, list) else ()) if isinstance(known, dict)
    }
    time = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    made: list[dict[str, object]] = []
    for condition in conditions:
        known, status = before.get(condition.type, {}), condition.status
        since = known.get("lastTransitionTime") if known.get("status") == status else None
        made.append(
            {
                "type": condition.type,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": since or time,
                "reason": condition.reason,
                "message": condition.message,
            }
        )
    return made

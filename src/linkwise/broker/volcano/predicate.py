"""Predicate and prioritize for Volcano: whether a pod fits on one node now, and the order of all nodes that passed.

Volcano asks node by node, before it knows which of them it takes, so that nothing is reserved here. A member of a group is
answered by the plan of its group: the first question plans it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.access.enforcement import not_permitted, refused_on
from linkwise.broker.candidates import Candidates
from linkwise.broker.groups.filter import filter_member
from linkwise.broker.groups.lifecycle import wake_members
from linkwise.broker.readers import refusal_to
from linkwise.broker.records.stages import BackingOff, Planning, Reserved, Unschedulable, Waiting
from linkwise.broker.reservations.devices import reserved_reason
from linkwise.broker.state import pod_name
from linkwise.broker.volcano.carried import carried_devices
from linkwise.broker.volcano.lone import lone_group, lone_reason
from linkwise.broker.volcano.places import member_on
from linkwise.broker.wake_ups import flush
from linkwise.engine.reasons.catalog import refusal
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.answers import FilterAnswer
    from linkwise.broker.effects import Effect
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry
    from linkwise.model.views import PodView

__all__ = ["FITS", "STEP", "UNRESOLVABLE", "UNSCHEDULABLE", "Fit", "predicate", "rank"]

FITS: Final = 0
UNSCHEDULABLE: Final = 2
"""evictions may help"""
UNRESOLVABLE: Final = 3
"""no eviction helps"""
STEP: Final = 10_000
"""between two classes of nodes: nodeorder and binpack add hundreds each, and must not outvote the order of the classes"""
_NOT_READY: Final = Reason("001.filters", kind="not ready")


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a pod fits on a node, by Volcano's status codes."""

    code: int = FITS
    reason: str = ""
    """why not; empty if it fits"""
    effects: tuple[Effect, ...] = ()


def predicate(state: State, pod: PodView, node: str, now: float) -> Fit:
    """Return whether the pod fits on the node now, with the reason in one sentence if it does not."""
    request = state.request(pod)
    if request.broken:
        return Fit(UNRESOLVABLE, str(request.broken))
    query, entry = state.query_of(request, pod), state.cluster.ledger.get(pod.uid)
    if query:
        own = entry if entry and entry.state != "OFFERED" else None
        if unfit := _invalid(state, pod, query, node, own):
            return unfit
    if entry and (entry.booked or not entry.tentative):
        return _by_entry(state, entry, pod, node)
    if query and (view := lone_group(state, pod)):
        reason = lone_reason(state, view, now)
        return Fit(UNRESOLVABLE, refusal(reason)) if reason else _alone(state, pod, query, node)
    if request.group is not None or pod.uid in state.groups.key_by_pod:
        # rule 003.predicate: a member goes to a node of its group's plan, and to no other.
        answer = filter_member(state, pod, (node,), now, one_by_one=True)
        flush(state)
        if state.cluster.changes.answers:
            wake_members(state, now)
        if answer is not None:
            return (
                Fit()
                if answer.nodes or member_on(state, pod, node)
                else _refused_member(state, pod, query, node, answer)
            )
    return _alone(state, pod, query, node) if query else Fit()


def rank(state: State, pod: PodView, names: Sequence[str]) -> dict[str, float]:
    """Return a score for every node: the classes of the policy's order are `STEP` apart, the best highest.

    Among equal nodes other plugins decide; where they do not either, the first name does.
    """
    # rule 003.order: all nodes are ordered in one batch, by all terms of the policy.
    by_name = {name: 1 - place / len(names) for place, name in enumerate(sorted(set(names)))} if names else {}
    entry, query = state.cluster.ledger.get(pod.uid), state.query(pod)
    if entry and entry.state != "OFFERED":
        return {name: by_name[name] + STEP * (name == entry.node) for name in names}
    if query is None:
        return dict.fromkeys(names, 0.0)
    scores = Candidates(state, query, pod.uid, state.settings.budget).scores(names)
    classes = {score: place for place, score in enumerate(sorted(set(scores.values())), start=1)}
    return {name: by_name[name] + STEP * (classes[scores[name]] if name in scores else 0) for name in names}


def _invalid(state: State, pod: PodView, query: Query, node: str, own: Entry | None) -> Fit | None:
    """Return why the pod can't be scheduled on the node whatever is free there; None if it can."""
    if reason := query.policy.admit(query.ask):
        return Fit(UNRESOLVABLE, refusal(reason))
    if state.access and (reason := not_permitted(state, pod, query) or refused_on(state, pod, query, node)):
        return Fit(UNRESOLVABLE, refusal(reason))
    if node not in state.cluster.nodes:
        return Fit(UNRESOLVABLE, f"node {node or 'without a name'} is unknown")
    if node in state.cluster.unready:
        return Fit(UNRESOLVABLE, refusal(_NOT_READY))
    stale = carried_devices(state, pod, node, own)[1] if pod.annotations and not pod.node else ""
    return Fit(UNSCHEDULABLE, stale) if stale else None


def _by_entry(state: State, entry: Entry, pod: PodView, node: str) -> Fit:
    """Answer for a pod that has devices booked or is bound: only its node."""
    if entry.node != node:
        return Fit(UNRESOLVABLE, f"pod {pod_name(pod)} has devices on node {entry.node}")
    if entry.booked and entry.state == "BOOKED" and not state.cluster.has(entry):
        return Fit(UNSCHEDULABLE, f"the devices booked for pod {pod_name(pod)} are no longer available on node {node}")
    return Fit()


def _refused_member(state: State, pod: PodView, query: Query | None, node: str, answer: FilterAnswer) -> Fit:
    """Word the refusal of a member: by the node itself if that does not fit, else by its group."""
    code = UNSCHEDULABLE if node in answer.failed else UNRESOLVABLE
    text = answer.failed.get(node) or answer.unresolvable.get(node) or ""
    match state.groups.stage(state.groups.key_of(pod.uid)):
        case Reserved(plan=plan):
            placement = plan.placements.get(pod.uid)
            return Fit(code, f"pod {pod_name(pod)} is planned on node {placement.node}" if placement else text)
        case Waiting(reason=reason) | BackingOff(reason=reason):
            return Fit(code, refusal_to(state, pod, reason))
        case Unschedulable(reason=reason):
            alone = _alone(state, pod, query, node) if query else Fit()
            return alone if alone.reason else Fit(code, refusal(reason))
        case Planning():
            return Fit(UNRESOLVABLE, text)
    return Fit(code, text)


def _alone(state: State, pod: PodView, query: Query, node: str) -> Fit:
    """Answer for a pod by the devices of one node."""
    rejected = Candidates(state, query, pod.uid).refusal(node)
    if rejected is None:
        return Fit()
    # rule 003.predicate: a node with enough chips and no fitting ring is refused with both rings' numbers.
    kept = reserved_reason(state.within(pod.namespace), query, node, pod.uid) if state.reservations.made else None
    if kept:
        return Fit(UNRESOLVABLE, refusal(kept))
    return Fit(UNRESOLVABLE if rejected.final else UNSCHEDULABLE, refusal_to(state, pod, rejected.reason))

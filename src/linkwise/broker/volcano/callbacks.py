"""Callbacks of Volcano: predicate, prioritize, victims of a pod, and jobs about to be enqueued.

Volcano asks node by node, before it knows which of them it takes, so that nothing is reserved here. A member of a group is
answered by the plan of its group: the first question plans it.

Volcano evicts by counts. Where that would free the wrong devices, only those pods are named whose devices fit together: for
rings those of one ring, or of both.

Jobs are enqueued before their pods are created, so the sums of the PodGroup are usually all that is known. What they do not
show is found when the pods are there: by the plan of the group, and by predicate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import not_permitted, refused_on
from linkwise.broker.candidates import Candidates
from linkwise.broker.cluster.pod_request import job_refusal, total_refusal
from linkwise.broker.groups.filter import filter_member
from linkwise.broker.groups.lifecycle import wake_members
from linkwise.broker.holding.reserved_devices import reserved_reason
from linkwise.broker.holding.victims import Preemptor, harm_in, leaving_on
from linkwise.broker.readers import refusal_to
from linkwise.broker.records.members import BackingOff, Planning, Reserved, Unschedulable, Waiting
from linkwise.broker.state import pod_name
from linkwise.broker.volcano.members import carried_devices, lone_group, lone_reason, member_on
from linkwise.broker.wake_ups import flush
from linkwise.dialects.pod_resources import whole_quantity
from linkwise.dialects.registry import counts_whole_devices
from linkwise.engine.preemption import Search
from linkwise.engine.reasons.catalog import refusal
from linkwise.errors import InputError
from linkwise.model.verdict import Reason
from linkwise.model.views import ContainerView, PodView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.effects import Effect, FilterAnswer
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry

__all__ = [
    "ABSTAIN",
    "FITS",
    "PERMIT",
    "REJECT",
    "STEP",
    "UNRESOLVABLE",
    "UNSCHEDULABLE",
    "Fit",
    "Job",
    "Victims",
    "invalid_job",
    "predicate",
    "rank",
    "victims",
]

FITS: Final = 0
UNSCHEDULABLE: Final = 2
"""evictions may help"""
UNRESOLVABLE: Final = 3
"""no eviction helps"""
STEP: Final = 10_000
"""between two classes of nodes: nodeorder and binpack add hundreds each, and must not outvote the order of the classes"""
_NOT_READY: Final = Reason("001.filters", kind="not ready")
PERMIT: Final = 1
ABSTAIN: Final = 0
"""other plugins decide"""
REJECT: Final = -1
TRIES: Final = 1000
"""sets of victims that are tried per call"""


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


@dataclass(frozen=True, slots=True)
class Victims:
    """The verdict on some candidates, and those that must go."""

    verdict: int
    uids: tuple[str, ...] = ()


def victims(state: State, pod: PodView, uids: Sequence[str]) -> Victims:
    """Return which of these pods must be evicted so that the pod fits, on the first of their nodes where that helps.

    A pod that is not a matter of devices is left to other plugins.
    """
    request = state.request(pod)
    query = state.query_of(request, pod)
    if query is None:
        return Victims(REJECT if request.broken else ABSTAIN)
    if query.policy.admit(query.ask) or (state.access and not_permitted(state, pod, query)):
        return Victims(REJECT)
    own = {pod.uid} if state.cluster.ledger.get(pod.uid) else set()
    preemptor = Preemptor(state, pod, query, frozenset(own))
    views = [view for uid in dict.fromkeys(uids) if (view := state.cluster.pods.get(uid)) and view.node]
    for node in dict.fromkeys(view.node for view in views):
        if not preemptor.serves(node):
            continue
        if preemptor.frees_devices(node, leaving_on(state, node)):
            return Victims(ABSTAIN)  # devices are not what it lacks
        if found := _least_harm(preemptor, node, views):
            return Victims(PERMIT, tuple(sorted(each.uid for each in found)))
    return Victims(REJECT if views else ABSTAIN)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as Volcano sends it: its pods, and what its PodGroup requires at least."""

    namespace: str
    name: str
    """of the PodGroup"""
    pods: tuple[tuple[str, PodView], ...] = ()
    """by the name of the task; empty while the PodGroup is pending"""
    resources: Mapping[str, str] = field(default_factory=dict)
    """minResources of the PodGroup: of all pods that must start together"""
    members: Mapping[str, int] = field(default_factory=dict)
    """by task, the pods that must start together; empty if the PodGroup does not list tasks"""


def invalid_job(state: State, job: Job) -> str:
    """Return why a job can't be scheduled as it is; empty if it can, or if that is not known yet."""
    # rule 003.valid-job: the shape is checked again when the job is enqueued.
    if job.pods:
        return _invalid_pods(state, job)
    sums = {
        name: count for name, text in job.resources.items() if counts_whole_devices(name) and (count := _count(text))
    }
    return next((wrong for name, devices in sums.items() if (wrong := _invalid_sum(state, job, name, devices))), "")


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


def _least_harm(preemptor: Preemptor, node: str, views: Sequence[PodView]) -> Sequence[PodView]:
    """Return the victims on a node that do the least harm; empty if no eviction helps there."""
    state, leaving = preemptor.state, leaving_on(preemptor.state, node)

    def enough(gone: frozenset[str]) -> bool:
        return preemptor.frees_devices(node, gone | leaving)

    search = Search(enough, lambda pods: harm_in(state, pods), TRIES)
    return preemptor.victims(node, search, [view for view in views if view.node == node and not view.deleting])


def _invalid_pods(state: State, job: Job) -> str:
    requests = [(task, state.request(state.pod(view.uid) or view)) for task, view in job.pods]
    for _, request in requests:
        if request.broken:
            return str(request.broken)
        if request.ask and (reason := state.policies[request.policy].admit(request.ask)):
            return refusal(reason)
    misshapen = job_refusal(((task, 1, request) for task, request in requests), state.settings.job_shape)
    return refusal(misshapen) if misshapen else ""


def _count(text: str) -> int:
    try:
        return whole_quantity(text)
    except InputError:
        return 0


def _invalid_sum(state: State, job: Job, resource: str, devices: int) -> str:
    """Return why no node of the cluster supports a job whose pods request that many devices together."""
    shape = state.settings.job_shape
    task, pods = next(iter(job.members.items())) if len(job.members) == 1 else ("", 0)
    equal = pods > 0 and devices % pods == 0  # pods of one task are equal
    reasons: list[Reason | None] = []
    for request in _by_profile(state, job, resource, devices // pods if equal else devices):
        if request.ask is None or not equal:
            reasons.append(total_refusal(request, devices, shape))
        else:
            invalid = state.policies[request.policy].admit(request.ask)
            reasons.append(invalid or job_refusal([(task, pods, request)], shape))
    return refusal(reasons[0]) if reasons and reasons[0] and all(reasons) else ""


def _by_profile(state: State, job: Job, resource: str, devices: int) -> list[PodRequest]:
    """Return the request of a pod with so many devices, for each kind of hardware that it may be meant for.

    Which one that is depends on the node selector of the pods, of which a PodGroup has nothing.
    """
    container = ContainerView("main", limits={resource: str(devices)})
    request = state.request(PodView(job.namespace, job.name, "", (container,)))
    cluster = state.cluster
    profiles = {
        inventory.profile
        for name, inventory in cluster.inventories.items()
        if inventory.profile and name in cluster.nodes and resource in cluster.nodes[name].allocatable
    }
    if request.ask is None or not profiles:
        return [request]
    return [replace(request, ask=replace(request.ask, profile=profile)) for profile in sorted(profiles)]

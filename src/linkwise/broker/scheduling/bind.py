"""Bind: assumes devices for a pod, and records the outcome of the write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.access import refused_on, refused_pod
from linkwise.broker.candidates import decided_by_bind
from linkwise.broker.effects import Bind, BindAnswer, Event
from linkwise.broker.groups.annotations import grant_annotations, plan_annotation, visibility_events
from linkwise.broker.groups.lifecycle import bind_refused, bound_by_plan
from linkwise.broker.groups.readiness import may_start_alone, pending_reason
from linkwise.broker.holding.reserved_devices import release, reserved_entry
from linkwise.broker.readers import refusal_to
from linkwise.broker.reconcile import reconcile
from linkwise.broker.records.members import Idle, Planning, Reserved, Unschedulable
from linkwise.broker.state import pod_name
from linkwise.broker.unobserved import is_unobserved_member
from linkwise.broker.wake_ups import note_gain
from linkwise.engine.ledger import Entry
from linkwise.engine.reasons.catalog import refusal
from linkwise.model.verdict import Grant, Offer, Reject

if TYPE_CHECKING:
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.effects import Effect
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Outcome
    from linkwise.model.ask import Ask
    from linkwise.model.views import PodView

__all__ = ["bind", "outcome", "pick_on"]


def bind(state: State, uid: str, node: str, now: float) -> BindAnswer:
    """Assume devices of the node for the pod; repeated calls return the same bind.

    What follows for groups is derived by the next verb, so that the write is not delayed.
    """
    effects = reconcile(state, now)
    pod = state.pod(uid)
    if pod is None:
        there = "was deleted" if uid in state.cluster.known.gone else "has not been observed yet; retry once it is"
        return BindAnswer(f"pod {uid} {there}", effects)
    entry = state.cluster.ledger.get(uid)
    if pod.node or (entry and not entry.tentative):
        answer = _repeat(state, pod, entry, node, now)
    else:
        answer = _bind_pending(state, pod, entry, node, now)
    if gained := state.cluster.settle():
        note_gain(state, gained)
    return BindAnswer(answer.error, (*effects, *answer.effects, *state.outbox.drain()))


def _bind_pending(state: State, pod: PodView, tentative: Entry | None, node: str, now: float) -> BindAnswer:
    """Bind a pod that has no devices assumed; those that it was offered or that are planned for it come first."""
    request, uid = state.request(pod), pod.uid
    query = state.query_of(request, pod)
    # A member that is not observed yet is known by its own request alone.
    grouped = request.group is not None or uid in state.groups.key_by_pod
    if grouped and (wrong_node := _wrong_node(state, pod, node, now)):
        return BindAnswer(wrong_node)
    if query is None:
        return _without_devices(state, pod, request, node, now)
    if unusable := _unusable(state, node) or (_denied(state, pod, query, node, now) if state.access else ""):
        return BindAnswer(unusable)
    if tentative and tentative.state == "PLANNED":
        # rule 001.hold: the member gets what the plan reserves.
        decision = decided_by_bind(state, pod, query, tentative.grant.offer, tentative)
        member = Entry(tentative.grant, "ASSUMED", pod.namespace, pod.created, decision=decision)
        member = _without_names(state, pod, query.ask, member)
        bound = _assume(state, pod, member, now)
        bound_by_plan(state, uid, now)
        return BindAnswer("", (*visibility_events(state, bound), bound))
    offer = _devices_for(
        state, query, tentative or (state.reservations.made and reserved_entry(state, uid)) or None, node
    )
    if isinstance(offer, Reject) and _is_claimed(state, pod, query.ask, node):
        offer = Offer(node, ())  # kube-scheduler has allocated the devices already
    if isinstance(offer, Reject):
        # rule 004.no-fit: refused at once with the reason, and nothing leaks.
        state.queue.reject(state.asked(pod, query, now), node)
        state.withdraw(uid)
        return BindAnswer(f"node {node}: {refusal_to(state, pod, offer.reason)}")
    if state.reservations.made:
        release(state, (uid,))
    grant = Grant(uid, query.policy.name, offer, mode=query.ask.mode)
    decided = decided_by_bind(state, pod, query, offer, tentative) if offer.parts else None
    entry = Entry(grant, "ASSUMED", pod.namespace, pod.created, decision=decided)
    bound = _assume(state, pod, _without_names(state, pod, query.ask, entry), now)
    state.queue.assume(state.asked(pod, query, now), node)
    return BindAnswer("", (bound,))


def outcome(state: State, bound: Bind, ended: Outcome, now: float) -> tuple[Effect, ...]:
    """Record the outcome of a bind, and report it in an event."""
    if bound.grant is None:
        return reconcile(state, now)
    follows = state.cluster.ledger.outcome(bound.uid, bound.serial, ended)
    if follows and ended == "refused":
        if pod := state.pod(bound.uid):
            state.queue.reject(state.asked(pod, state.query(pod), now), bound.node)
        bind_refused(state, bound, now)
    effects = reconcile(state, now)
    confirmed = ended == "written" and (follows or _observed_first(state, bound))
    return (*effects, _chosen_event(state, bound, bound.grant)) if confirmed else effects


def pick_on(state: State, query: Query, name: str) -> Offer | Reject:
    """Return the devices that the node would allocate now, or a refusal."""
    index = state.cluster.index
    return index.unserved(query, name) or query.pick(index.nodes[name])


def _devices_for(state: State, query: Query, offered: Entry | None, node: str) -> Offer | Reject:
    """Return the devices that the pod was offered, if it was offered this node and they are available; else pick some.

    What is reserved for the pod is as free to it as what it was offered.
    """
    there = state.cluster.node_without(node, {offered.key}) if offered and offered.node == node else None
    if offered is None or there is None:
        return pick_on(state, query, node)
    queued = state.queue.get(offered.pod) if offered.state == "OFFERED" else None
    # Devices were offered for the request of that time: it may have been changed since, and want others.
    same_request = queued is not None and queued.query == query
    if same_request and query.takes(there, offered.grant.offer):
        return offered.grant.offer
    return state.cluster.index.unserved(query, node) or query.pick(there)


def _without_names(state: State, pod: PodView, ask: Ask, entry: Entry) -> Entry:
    """Return the entry with the number of devices alone if a ResourceClaim allocates them: no record may name others."""
    if state.cluster.inventories[entry.node].claims is None and ask.resource not in pod.hosted_by_claims:
        return entry
    return replace(entry, grant=replace(entry.grant, offer=Offer(entry.node, ())), unrecorded_ask=ask)


def _is_claimed(state: State, pod: PodView, ask: Ask, node: str) -> bool:
    """Return whether a ResourceClaim has devices of the node for the pod: kube-scheduler allocates before it binds."""
    inventory = state.cluster.inventories[node]
    claimed = len(inventory.allocations.get(pod.uid, ())) >= ask.devices or ask.resource in pod.hosted_by_claims
    return inventory.by_claims and claimed


def _observed_first(state: State, bound: Bind) -> bool:
    """Return whether the pod was observed on its node before the bind's response; it has no event then."""
    entry = state.cluster.ledger.get(bound.uid)
    return entry is not None and entry.state == "ASSIGNED" and entry.serial == bound.serial


def _repeat(state: State, pod: PodView, entry: Entry | None, node: str, now: float) -> BindAnswer:
    """Answer a repeated bind: the same effects, or an error."""
    there = pod.node or (entry.node if entry else "")
    if there != node:
        word = "bound" if pod.node else "being bound"
        return BindAnswer(f"pod {pod_name(pod)} is already {word} to node {there}")
    if pod.node or entry is None or entry.state != "ASSUMED" or entry.outcome == "written":
        return BindAnswer()
    if not state.cluster.has(entry):
        return BindAnswer(f"the devices assumed for pod {pod_name(pod)} are no longer available on node {node}")
    request = state.request(pod)
    if request.ask is None:
        return BindAnswer(f"pod {pod_name(pod)} no longer requests the devices assumed for it")
    return BindAnswer("", (_assume(state, pod, entry, now),))


def _wrong_node(state: State, pod: PodView, node: str, now: float) -> str:
    """Return why a member can't be bound to this node; empty if it can, or is placed alone."""
    if is_unobserved_member(state, pod):
        return _unplanned(pod)
    view = state.groups.view(state.groups.key_of(pod.uid))
    if view is None or pod.uid in view.extra:
        return ""
    if state.request(pod).ask is None:
        return "" if _may_go_anywhere(state, view, pod, now) else _unplanned(pod)
    held = state.groups.plan_of(view.key)
    if held is None or pod.uid not in held.plan.placements:
        return _unplanned(pod)
    there = held.plan.placements[pod.uid].node
    return "" if there == node else f"pod {pod_name(pod)} is planned on node {there}"


def _may_go_anywhere(state: State, view: GroupView, pod: PodView, now: float) -> bool:
    """Return whether a member without devices may start: not while its group is not ready, nor before its gang."""
    match state.groups.stage(view.key):
        case Reserved():
            return True
        case Planning() | Unschedulable():  # planned again perhaps, since filter found that the others do not fit
            return may_start_alone(state, pod)
        case Idle():  # the others are bound, or none of them was tried
            alone = view.group.minimum is None or not any(state.request(other).ask for other in view.waiting)
            return alone and pending_reason(state, view, now) is None
    return False


def _unplanned(pod: PodView) -> str:
    return f"pod {pod_name(pod)} belongs to a group without a plan; the group is planned when the pod is retried"


def _unusable(state: State, node: str) -> str:
    view = state.cluster.nodes.get(node)
    if view is None or node not in state.cluster.index.nodes:
        return f"node {node} is unknown"
    return "" if view.ready else f"node {node} is not ready"


def _denied(state: State, pod: PodView, query: Query, node: str, now: float) -> str:
    """Return why AcceleratorPolicies do not permit the bind; empty if they do."""
    # rule 002.access: a burst of pods does not pass a limit, and a policy may have come after filter.
    denied = refused_on(state, pod, query, node)
    if denied is None:
        return ""
    if key := state.groups.key_of(pod.uid):
        state.cluster.changes.groups[key] = None  # its plan is reviewed
    else:
        refused_pod(state, pod, query, denied, now)
    return refusal(denied)


def _without_devices(state: State, pod: PodView, request: PodRequest, node: str, now: float) -> BindAnswer:
    if request.broken:
        return BindAnswer(str(request.broken))
    keys = plan_annotation(state, pod, {}, now)
    return BindAnswer("", (Bind(pod.namespace, pod.name, pod.uid, node, None, 0, keys),))


def _assume(state: State, pod: PodView, entry: Entry, now: float) -> Bind:
    """Assume the devices once all annotations are computed, so that a failure leaves no entry."""
    keys = grant_annotations(state, pod, entry, now)
    assumed = state.cluster.ledger.assume(entry, state.cluster.inventories[entry.node].allocations)
    return Bind(pod.namespace, pod.name, pod.uid, entry.node, entry.grant, assumed.serial, keys)


def _chosen_event(state: State, bound: Bind, grant: Grant) -> Event:
    # rule 002.describe: the choice is reported in an event on the pod.
    if not grant.offer.devices:
        sentence = f"node {bound.node}, chosen by {grant.policy}; a ResourceClaim allocates the devices"
        return Event("Normal", "NodeChosen", sentence, bound.namespace, bound.name, bound.uid, bound.node)
    node = state.cluster.index.nodes.get(bound.node)
    indices = {device.id: str(device.index) for device in node.devices} if node else {}
    devices = ", ".join(indices.get(device, device) for device in grant.offer.devices)
    enforced = bound.node in state.cluster.inventories and state.cluster.inventories[bound.node].enforced
    hint = "" if enforced else " (expected; the node's device plugin makes the final choice)"
    several = "s" if len(grant.offer.devices) > 1 else ""
    sentence = f"device{several} {devices} on node {bound.node}, chosen by {grant.policy}{hint}"
    return Event("Normal", "DevicesChosen", sentence, bound.namespace, bound.name, bound.uid, bound.node)

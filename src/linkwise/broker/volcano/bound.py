"""Pods that Volcano has bound: their devices are written on them when the bind is observed.

Volcano's bind carries the annotations that Volcano has, and it would write older values over newer ones. So nothing is
written before the bind; after it, the record is written until the pod is observed with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.decisions import decided_by_bind
from linkwise.broker.effects import Event, Record
from linkwise.broker.groups.grant_annotations import grant_annotations
from linkwise.broker.groups.reservations import is_over
from linkwise.broker.readers import refusal_to
from linkwise.broker.records.bookings import LONGEST, Attempt
from linkwise.engine.ledger import Entry
from linkwise.model.verdict import Grant, Reject

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["next_record", "reconcile_bound"]


def reconcile_bound(state: State, now: float) -> None:
    """Write the devices of pods that Volcano has bound; choose them first where none were booked."""
    if state.recovering or not (state.cluster.unwritten or state.cluster.changes.overwritten):
        return
    attempts = state.bookings.attempts
    if attempts:
        state.bookings.attempts = attempts = {
            uid: each for uid, each in attempts.items() if uid in state.cluster.unwritten
        }
    for uid in list(state.cluster.unwritten):
        attempt = attempts.get(uid, Attempt())
        if attempt.tries and not is_over(attempt.due, now, LONGEST):
            continue
        pod, entry = state.cluster.pods.get(uid), state.cluster.ledger.get(uid)
        if pod is None or entry is None or entry.state != "ASSIGNED" or not _is_ours(state, pod):
            state.cluster.unwritten.pop(uid)
            attempts.pop(uid, None)
            continue
        chosen = _chosen(state, pod, now) if entry.unrecorded_ask else entry
        if isinstance(chosen, Entry):
            keys = grant_annotations(state, pod, chosen, now)
            state.outbox.add([Record(pod.namespace, pod.name, uid, keys)])
            attempts[uid] = attempt.again(now)
        else:
            if chosen != attempt.problem:
                sentence = (
                    f"scheduler {pod.scheduler} bound it to node {pod.node}, which has no devices for it: {chosen}"
                )
                event = Event("Warning", "DevicesNotChosen", sentence, pod.namespace, pod.name, uid, pod.node)
                state.outbox.add([event])
            attempts[uid] = attempt.again(now, chosen)
    _report_overwritten(state)


def next_record(state: State) -> float | None:
    """Return when the next record is due; 0 if it is now."""
    attempts = state.bookings.attempts
    return min((attempts[uid].due if uid in attempts else 0.0 for uid in state.cluster.unwritten), default=None)


def _is_ours(state: State, pod: PodView) -> bool:
    """Return whether the devices of a bound pod are for us to choose: its node is known, and no agent or claim gave it any."""
    inventory = state.cluster.inventories.get(pod.node)
    if inventory is None:
        return pod.node in state.cluster.nodes
    return not inventory.by_claims and pod.uid not in inventory.allocations


def _chosen(state: State, pod: PodView, now: float) -> Entry | str:
    """Choose the devices of a bound pod that has none: the service was restarted, or Volcano ignored a refusal."""
    del now
    query, there = state.query(pod), state.cluster.node_without(pod.node, {pod.uid})
    if query is None or there is None:
        return f"node {pod.node} is unknown"
    unserved = state.cluster.index.unserved(query, pod.node)
    offer = unserved or query.pick(there)
    if isinstance(offer, Reject):
        return refusal_to(state, pod, offer.reason)
    decision = decided_by_bind(state, pod, query, offer, None)
    grant = Grant(pod.uid, query.policy.name, offer, mode=query.ask.mode)
    entry = Entry(grant, "ASSIGNED", pod.namespace, pod.created, decision=decision)
    return state.cluster.ledger.observe(entry, deleting=False)


def _report_overwritten(state: State) -> None:
    """Report pods that were bound with other devices than those that were booked: their record counts."""
    changed, state.cluster.changes.overwritten = state.cluster.changes.overwritten, {}
    for uid, booked in changed.items():
        pod, entry = state.cluster.pods.get(uid), state.cluster.ledger.get(uid)
        if pod and entry:
            has, had = (", ".join(grant.offer.devices) or "none" for grant in (entry.grant, booked))
            sentence = f"it was bound with devices {has} in its annotations, and {had} were booked for it"
            state.outbox.add([Event("Warning", "DevicesOverwritten", sentence, pod.namespace, pod.name, uid, pod.node)])

"""Bookings: devices for pods that Volcano has allocated in a session, until it binds them or gives them back.

Volcano replays allocate and deallocate every second for a gang that does not fit, so both change the ledger only: nothing is
written on a pod before it is bound. Both are idempotent by the pod's UID.

Volcano's bind carries the annotations that Volcano has, and it would write older values over newer ones. So nothing is
written before the bind; after it, the record is written until the pod is observed with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkwise.broker.access import refused_on
from linkwise.broker.candidates import decided_by_bind
from linkwise.broker.effects import Event, Record
from linkwise.broker.groups.annotations import grant_annotations
from linkwise.broker.groups.reservations import is_over
from linkwise.broker.holding.reserved_devices import release
from linkwise.broker.holding.victims import leaving_on
from linkwise.broker.readers import refusal_to
from linkwise.broker.records.bookings import LONGEST, Attempt
from linkwise.broker.state import pod_name
from linkwise.broker.unobserved import is_unobserved_member
from linkwise.broker.volcano.members import carried_devices, lone_group, lone_reason, member_on, trade_places
from linkwise.broker.wake_ups import flush
from linkwise.engine.ledger import Entry
from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.reasons.phrases import count_text
from linkwise.model.verdict import Grant, Offer, Reject
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.model.verdict import Key
    from linkwise.model.views import PodView

__all__ = ["Task", "book", "next_record", "reconcile_bookings", "reconcile_bound", "unbook"]


@dataclass(frozen=True, slots=True)
class Task:
    """A pod as Volcano sends it with allocate."""

    uid: str
    node: str
    """that it was allocated to"""
    pod: PodView | None = None
    """as Volcano has it: its annotations are those that it will bind the pod with; None if it sent none"""
    pipelined: bool = False
    """whether pods that are leaving still use some of what it was allocated"""


def book(state: State, task: Task, now: float) -> str:
    """Book devices of the node for the pod; return why that is not possible, empty if it is done.

    The devices that it has booked, or that the plan of its group reserves, are confirmed.
    """
    # rule 003.allocate: chips are chosen here, when the node is final; a repeated call gets the same ones.
    pod = state.pod(task.uid) or task.pod
    if pod is None or not task.uid:
        return f"the task {task.uid or 'without a UID'} has no pod"
    request = state.request(pod)
    if request.ask is None:
        return str(request.broken) if request.broken else ""
    if task.uid in state.cluster.known.gone or pod.phase in FINISHED:
        return f"pod {pod_name(pod)} was deleted or has finished"
    state.bookings.leaving.pop(task.uid, None)  # an eviction was undone
    entry = state.cluster.ledger.get(task.uid)
    if pod.node or (entry and not entry.tentative):
        there = pod.node or (entry.node if entry else "")
        return "" if there == task.node else f"pod {pod_name(pod)} is already bound to node {there}"
    query = state.query_of(request, pod)
    if query is None:
        return ""
    return _unusable(state, pod, query, task.node) or _Allocation(state, task, pod, query, now).book()


def unbook(state: State, uid: str, now: float) -> None:
    """Give the devices of a booking back; a plan reserves its devices further, and a bound pod holds its own.

    For a bound pod it is the news that a session evicts it.
    """
    # rule 003.allocate: chips are given back at deallocate; for an unknown UID there is nothing to do.
    entry = state.cluster.ledger.get(uid)
    if entry is None:
        return
    if not entry.booked:
        if not entry.tentative:
            state.bookings.leaving[uid] = now + state.settings.volcano.booking
        return
    if planned := _as_planned(state, entry):
        inventory = state.cluster.inventories.get(entry.node)
        state.cluster.ledger.plan([planned], inventory.allocations if inventory else ())
        return
    state.cluster.ledger.unbook(uid)
    if key := state.groups.key_of(uid):
        state.cluster.changes.groups[key] = None


def reconcile_bookings(state: State, now: float) -> None:
    """Drop bookings that were neither repeated nor bound in time; claims whose devices came free are ordinary bookings."""
    ledger, bookings, longest = state.cluster.ledger, state.bookings, state.settings.volcano.booking
    if bookings.leaving:
        bookings.leaving = {
            uid: until
            for uid, until in bookings.leaving.items()
            if not is_over(until, now, longest) and ledger.get(uid) is not None
        }
    for uid in ledger.expired_bookings(now, longest):
        unbook(state, uid, now)
    for uid in list(ledger.claims):
        entry, pod = ledger.get(uid), state.pod(uid)
        query = state.query(pod) if pod else None
        if entry and query and _is_free(state, query, entry):
            # rule 003.between: the claim is a booking from the moment when the leaving pods are gone.
            ledger.book(entry, state.cluster.inventories[entry.node].allocations)


@dataclass(frozen=True, slots=True)
class _Allocation:
    """One call of `book` for a pod that requests devices."""

    state: State
    task: Task
    pod: PodView
    query: Query
    now: float

    @property
    def _expires(self) -> float:
        return self.now + self.state.settings.volcano.booking

    @property
    def _reported(self) -> Collection[str]:
        return self.state.cluster.inventories[self.task.node].allocations

    def book(self) -> str:
        """Book what the pod has already, or choose devices; return why neither is possible."""
        state, task = self.state, self.task
        entry = state.cluster.ledger.get(task.uid)
        own = entry if entry and (entry.booked or entry.state == "PLANNED") else None
        if own and own.node != task.node:
            if own.state == "PLANNED":
                other = member_on(state, self.pod, task.node)
                if not other:
                    return f"pod {pod_name(self.pod)} is planned on node {own.node}"
                trade_places(state, self.pod, other)
                return self.book()
            unbook(state, task.uid, self.now)  # its deallocate was lost
            flush(state)
            return self.book()
        wanted, foreign = carried_devices(state, task.pod or self.pod, task.node, own)
        if foreign:
            return foreign
        if own and (error := self._renew(own)) is not None:
            return error
        return self._unplanned() or self._choose(wanted)

    def _renew(self, own: Entry) -> str | None:
        """Book what the pod has already; None if its devices are gone, and others are to be chosen."""
        state, ledger = self.state, self.state.cluster.ledger
        if own.state == "CLAIMED" and not _is_free(state, self.query, own):
            if self.task.pipelined:
                ledger.claim(replace(own, expires=self._expires), _owners(state, own), self._reported)
                return ""
            # rule 003.between: chips of a pod that is being deleted are not given away before it is gone.
            claimed = f"the devices claimed for pod {pod_name(self.pod)}"
            return f"node {own.node}: {claimed} are still in use by terminating pods"
        if not state.cluster.has(own):
            if own.state == "PLANNED":
                return f"node {own.node}: the devices planned for pod {pod_name(self.pod)} are no longer available"
            unbook(state, own.pod, self.now)
            flush(state)
            return None
        decision = own.decision or decided_by_bind(state, self.pod, self.query, own.grant.offer, own)
        # rule 003.in-session: what one task of a session has booked is in use to every other.
        ledger.book(replace(own, state="BOOKED", expires=self._expires, decision=decision), self._reported)
        return ""

    def _unplanned(self) -> str:
        """Return why a member of a group gets no devices of its own: its group is planned as a whole.

        One that is pipelined follows the evictions of a session, of which no plan knows.
        """
        state, pod = self.state, self.pod
        view = state.groups.view(state.groups.key_of(pod.uid))
        member = pod.uid not in view.extra if view else is_unobserved_member(state, pod)
        if self.task.pipelined or not member:
            return ""
        if view and lone_group(state, pod):
            reason = lone_reason(state, view, self.now)
            return refusal(reason) if reason else ""
        return f"pod {pod_name(pod)} belongs to a group without a plan; the group is planned when the pod is retried"

    def _choose(self, wanted: Offer | None) -> str:
        """Choose devices and book them; for a pipelined task also those of leaving pods."""
        state, node, query = self.state, self.task.node, self.query
        cluster = state.cluster
        if cluster.ledger.offered(self.task.uid) or state.reservations.made:
            state.withdraw(self.task.uid)
            release(state, (self.task.uid,))
            flush(state)
        unserved = cluster.index.unserved(query, node)
        offer = unserved or wanted or query.pick(cluster.index.nodes[node])
        if isinstance(offer, Offer):
            decision = decided_by_bind(state, self.pod, query, offer, None)
            cluster.ledger.book(replace(self._entry(offer), decision=decision), self._reported)
            return ""
        leaving = _leaving_on(state, node)
        later = cluster.node_without(node, leaving) if leaving and not unserved else None
        claimed = query.pick(later) if later else offer
        if isinstance(claimed, Reject):
            return f"node {node}: {refusal_to(state, self.pod, offer.reason)}"
        if not self.task.pipelined:
            pods = count_text(len(leaving), "terminating pod")
            return f"node {node}: {refusal_to(state, self.pod, offer.reason)}; {pods} must be gone first"
        cluster.ledger.claim(replace(self._entry(claimed), state="CLAIMED"), leaving, self._reported)
        return ""

    def _entry(self, offer: Offer) -> Entry:
        grant = Grant(self.task.uid, self.query.policy.name, offer, mode=self.query.ask.mode)
        return Entry(grant, "BOOKED", self.pod.namespace, self.pod.created, expires=self._expires)


def reconcile_bound(state: State, now: float) -> None:
    """Write the devices of pods that Volcano has bound; choose them first where none were booked."""
    if state.recovering:
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


def _unusable(state: State, pod: PodView, query: Query, node: str) -> str:
    """Return why no device of the node can be booked for the pod, whichever are free."""
    view = state.cluster.nodes.get(node)
    if view is None or node not in state.cluster.index.nodes:
        return f"node {node or 'without a name'} is unknown"
    if not view.ready:
        return f"node {node} is not ready"
    if invalid := query.policy.admit(query.ask):
        return refusal(invalid)
    denied = refused_on(state, pod, query, node) if state.access else None
    return refusal(denied) if denied else ""


def _as_planned(state: State, entry: Entry) -> Entry | None:
    """Return the entry as the plan of its group reserves it; None if no plan does."""
    stage = state.groups.plan_of(entry.grant.plan) if entry.state == "BOOKED" else None
    placement = stage.plan.placements.get(entry.pod) if stage else None
    if stage is None or placement is None or placement.offer != entry.grant.offer:
        return None
    grant = replace(entry.grant, generation=stage.generation)
    return replace(entry, grant=grant, state="PLANNED", expires=stage.expires, decision=None)


def _is_free(state: State, query: Query, entry: Entry) -> bool:
    """Return whether no other pod uses the devices of an entry."""
    node = state.cluster.node_without(entry.node, {entry.key})
    return node is not None and query.takes(node, entry.grant.offer)


def _owners(state: State, claim: Entry) -> set[Key]:
    """Return the other pods that use devices of a claim."""
    devices = set(claim.grant.offer.devices)
    entries = state.cluster.ledger.on(claim.node)
    return {entry.key for entry in entries if entry.key != claim.key and devices & set(entry.grant.offer.devices)}


def _leaving_on(state: State, node: str) -> frozenset[str]:
    """Return the pods of a node that are terminating, or that a Volcano session evicts."""
    evicted = {uid for uid in state.bookings.leaving if (entry := state.cluster.ledger.get(uid)) and entry.node == node}
    return leaving_on(state, node) | evicted


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

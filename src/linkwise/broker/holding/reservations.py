"""Reservations: nodes are drained for the first pod or group in the queue that smaller pods would pass forever.

The owner is the first by priority and age among the pods that their scheduler has reported as unschedulable for long enough.
That is read from the pods themselves: kube-scheduler does not ask about a pod that fits on no node by its own counts, and a
restarted service knows them again. Members with our gate are never reported: a gang of them that does not fit has waited since
its minimum of members existed. Its node is the one where least is waited for; a group gets the nodes that a plan would
use if they were drained.

`keep_reserved` runs before nodes are brought up to date, so that no other pod ever sees a device as free that is reserved in
the moment it is released.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import barred_nodes, not_permitted
from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.effects import Wake
from linkwise.broker.groups.gates import awaits_plan
from linkwise.broker.groups.planning.runs import begin
from linkwise.broker.groups.planning.what_if import Assumption, WhatIf
from linkwise.broker.groups.readiness import alternatives, bundle, pending_reason
from linkwise.broker.groups.reservations import accepts_pods, is_over
from linkwise.broker.holding.reserved_devices import (
    drain_text,
    end_reservation,
    events,
    give_up,
    outranked,
    release,
    reserved_entry,
)
from linkwise.broker.records.members import Idle, Unschedulable
from linkwise.broker.wake_ups import flush
from linkwise.dialects.linkwise.group_plan import has_other_gates
from linkwise.engine.feasibility import unfit
from linkwise.engine.ledger import Entry
from linkwise.engine.queue.reservation import Reservation, room_on
from linkwise.model.ask import Load
from linkwise.model.verdict import Grant, Key, ReservedKey, pods_of
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.queue.reservation import ReservedRoom
    from linkwise.model.ask import Demand
    from linkwise.model.verdict import Offer
    from linkwise.model.views import PodView

__all__ = ["advance_reservations", "keep_reserved", "next_deadline"]

SEARCH: Final = 5.0  # seconds between two searches for an owner
MOST_OWNERS: Final = 64
"""pods that are considered at a time, in queue order"""
MOST_SEARCHES: Final = 4
"""owners for which nodes are searched at a time: each search reads all nodes"""
MOST_NODES: Final = 16
"""nodes on which the wait of a pod is worked out exactly, those with the most free devices first"""
MOST_DRAINED: Final = 256
"""nodes that are assumed to be drained when a group is planned"""
PLANNING: Final = 4
"""steps for all plans of one search, as a multiple of those of a filter call"""
BACKOFF: Final = 300.0  # seconds until an owner for which nothing can be reserved is considered again
FIRST_RETRY: Final = 5.0  # seconds after which an owner is woken again; doubled each time
WAKES: Final = 4
"""how often an owner is woken for complete room; if it is not placed then, something other than devices stops it"""


def keep_reserved(state: State, now: float) -> None:
    """Keep the devices free that reservations need, and end those that are over."""
    reservations, changes = state.reservations, state.cluster.changes
    nodes = state.cluster.index.changed_since(reservations.checked)
    changed = None if nodes is None else nodes | changes.used | changes.observed.keys()
    reservations.checked = state.cluster.index.changes
    for each in reservations:
        _keep(state, each, changed, now)


def advance_reservations(state: State, now: float) -> None:
    """Wake the owners whose room is complete, and reserve for the next in the queue."""
    for each in state.reservations:
        rooms = state.reservations.rooms.get(each.owner, {})
        if any(room.awaited for room in rooms.values()) or len(rooms) < len(each.nodes):
            if each.ready is not None:
                state.reservations.put(replace(each, ready=None, tries=0))
        elif not _has_devices(state, each) and _is_due(each, now):
            _wake(state, each, now)
    if _may_search(state, now):
        state.reservations.searched = now
        for each in state.reservations:
            _follow(state, each, now)
        if _is_wanted(state):
            _reserve_next(state, now)


def next_deadline(state: State) -> float | None:
    """Return when to look at reservations again if nothing happens before."""
    times = [each.until if _has_devices(state, each) else _next_wake(each) for each in state.reservations]
    searched = state.reservations.searched
    if state.reservations.made or _is_wanted(state):
        times.append(0.0 if searched is None else searched + SEARCH)
    return min(times, default=None)


# the owner


def _is_wanted(state: State) -> bool:
    """Return whether there may be an owner for another reservation."""
    if not state.settings.reservation.after:
        return False
    asked = state.cluster.known.unschedulable and state.reservations.schedulers
    return bool(asked or state.groups.gated(Unschedulable))


def _may_search(state: State, now: float) -> bool:
    searched = state.reservations.searched
    wanted = bool(state.reservations.made) or _is_wanted(state)
    return wanted and (searched is None or is_over(searched + SEARCH, now, SEARCH))


def _reserve_next(state: State, now: float) -> None:
    """Make reservations for the first in the queue, as many as may be made; one of lower priority gives way."""
    reservations, settings, searches = state.reservations, state.settings.reservation, 0
    for owner, priority in _owners(state, now):
        lower = outranked(state, priority) if len(reservations) >= settings.count else []
        if searches == MOST_SEARCHES or (len(reservations) >= settings.count and not lower):
            return
        searches += 1
        seats = _seats(state, owner, now)
        if not seats:
            reservations.refuse(owner, now + BACKOFF)
            continue
        made = Reservation(owner, seats, priority, now, now + settings.hold)
        if lower:
            give_up(state, lower[0], owner, priority)
        reservations.put(made)
        _keep(state, made, None, now)
        flush(state)
        if reservations.get(owner):
            state.outbox.add(events(state, made, "NodesReserved", drain_text(state, made)))


def _owners(state: State, now: float) -> Iterator[tuple[str, int]]:
    """Yield pods and groups that have waited long enough and have no reservation, with their priority, then by age."""
    reservations, after = state.reservations, state.settings.reservation.after
    longest = max(BACKOFF, state.settings.reservation.hold)
    for owner, refused in list(reservations.refused.items()):
        # Nodes that its scheduler did not accept get another chance, though a late one.
        late = refused.until + (state.settings.reservation.hold if refused.avoided else 0.0)
        if is_over(late, now, 2 * longest):
            del reservations.refused[owner]
    pods = state.cluster.pods
    waiting = (pods[uid] for uid in state.cluster.known.unschedulable)
    starved = (
        pod
        for pod in waiting
        if now - pod.unschedulable_since >= after
        and not pod.gates
        and pod.phase not in FINISHED
        and pod.scheduler in reservations.schedulers
        and not _is_refused(state, pod, now, longest)
    )
    gated = _gated(state, now, after, longest)
    first = nsmallest(MOST_OWNERS, chain(starved, gated), key=lambda pod: (-pod.priority, pod.created, pod.uid))
    owners: dict[str, int] = {}
    for pod in first:
        owners.setdefault(state.groups.key_of(pod.uid) or pod.uid, pod.priority)
    return ((owner, priority) for owner, priority in owners.items() if not reservations.get(owner))


def _gated(state: State, now: float, after: float, longest: float) -> Iterator[PodView]:
    """Yield a member of each gated gang that does not fit and has been complete for long enough."""
    for key in state.groups.gated(Unschedulable):
        view = state.groups.view(key)
        pods = [pod for pod in view.waiting if awaits_plan(state, view, pod)] if view else []
        if view is None or not pods:
            continue
        required = sorted(pod.created for pod in (*view.bound, *view.waiting))[: view.group.minimum or None]
        first = min(pods, key=lambda pod: (-pod.priority, pod.created, pod.uid))
        if now - required[-1] >= after and not _is_refused(state, first, now, longest):
            yield first


def _is_refused(state: State, pod: PodView, now: float, longest: float) -> bool:
    refused = state.reservations.refused.get(state.groups.key_of(pod.uid) or pod.uid)
    return refused is not None and not is_over(refused.until, now, longest)


# its nodes


def _seats(state: State, owner: str, now: float) -> tuple[tuple[str, str], ...]:
    """Return a node for each pod of the owner; none if it has a place, or none can be made."""
    if owner in state.groups:
        return _group_seats(state, owner, now)
    pod = state.cluster.pods.get(owner)
    node = _node_for(state, pod) if pod and not state.cluster.ledger.get(owner) else ""
    return ((owner, node),) if node else ()


def _follow(state: State, each: Reservation, now: float) -> None:
    """Drain another node for a pod if less is waited for there by now, such as where a large pod has ended."""
    pod, rooms = state.cluster.pods.get(each.owner), list(state.reservations.rooms.get(each.owner, {}).values())
    if pod is None or not rooms or not rooms[0].awaited or _has_devices(state, each):
        return
    node = _node_for(state, pod, rooms[0])
    if node:
        release(state, (pod.uid,))
        moved = replace(each, seats=((pod.uid, node),))
        state.reservations.put(moved)
        _keep(state, moved, None, now)
        flush(state)
        state.outbox.add(events(state, moved, "NodesReserved", drain_text(state, moved)))


def _node_for(state: State, pod: PodView, than: ReservedRoom | None = None) -> str:
    """Return the node where a pod waits for least; empty if it fits somewhere now, or nowhere ever.

    With `than` only nodes count where less is waited for than that.
    """
    query = state.query(pod)
    if query is None or query.policy.admit(query.ask) or (state.access and not_permitted(state, pod, query)):
        return ""
    barred = barred_nodes(state, pod, query) if state.access else ()
    demand = replace(demand_of(pod)[0], apart=(), together=())
    options: list[tuple[tuple[int, int], str]] = []
    for name in _nearest(state, query, pod.uid, than):
        view = state.cluster.nodes[name]
        if name in barred or unfit(demand, view, capacity_of(view), Load()):
            continue
        room = _room(state, name, [(pod.uid, query)])
        if room and _hosts(state, demand, name, room):
            if not room.awaited:
                return ""  # something other than devices stops it
            if than is None or room.lacking[0] < than.lacking[0]:
                options.append((room.lacking, name))
        if len(options) == MOST_NODES:
            break
    return min(options)[1] if options else ""


def _nearest(state: State, query: Query, owner: str, than: ReservedRoom | None = None) -> list[str]:
    """Return the nodes that serve a query of the owner, those with the most free devices or memory first.

    With `than` only nodes that have more of it free than that: most often none.
    """
    index, least = state.cluster.index, -1 if than is None else than.free

    def free(name: str) -> int:
        if query.ask.devices:
            return min(index.idle(name), query.ask.devices)
        return max(index.nodes[name].room().values(), default=0)

    enough = {name: count for name in index.nodes if (count := free(name)) > least}
    without = _unavailable(state, owner) if enough else set()
    names = [name for name in enough if name not in without and not index.unserved(query, name)]
    return sorted(names, key=lambda name: (-enough[name], name))


def _unavailable(state: State, owner: str) -> set[str]:
    """Return nodes that are drained for others, that accept no pods, or that the owner's scheduler did not accept."""
    refused = state.reservations.refused.get(owner)
    closed = {name for name in state.cluster.nodes if not accepts_pods(state, name)}
    unknown = state.cluster.index.nodes.keys() - state.cluster.nodes.keys()
    return state.reservations.taken() | closed | unknown | set(refused.avoided if refused else ())


def _hosts(state: State, demand: Demand, name: str, room: ReservedRoom) -> bool:
    """Return whether the node has the other resources of a pod once the awaited pods have ended."""
    load, view = state.cluster.load(name), state.cluster.nodes[name]
    for uid in pods_of(room.awaited):
        pod = state.cluster.pods.get(uid)
        load = load.minus(demand_of(pod)[0]) if pod else load
    return unfit(demand, view, capacity_of(view), load) is None


def _group_seats(state: State, key: str, now: float) -> tuple[tuple[str, str], ...]:
    """Return the nodes of the plan that a group would get if the nodes nearest to it were drained, as few as possible."""
    views, limit = bundle(state, key), state.settings.reservation.nodes
    pods = [pod for view in views for pod in view.waiting]
    queries = [query for pod in pods if (query := state.query(pod))]
    if not queries or any(state.groups.plan_of(view.key) or pending_reason(state, view, now) for view in views):
        return ()
    if any(state.reservations.of_pod(pod.uid) for pod in pods):
        return ()  # with another gang of its bundle
    smallest = min(queries, key=lambda query: query.ask.devices)
    nearest = _nearest(state, smallest, key)[:MOST_DRAINED]
    taken, steps = state.reservations.taken(), PLANNING * state.settings.group.steps
    ways = [WhatIf(state, view, steps) for view, _ in alternatives(views)]
    drained = 0
    while True:
        gone = frozenset(entry.key for name in nearest[:drained] for entry in state.cluster.ledger.on(name))
        plan = next(filter(None, (way.plan(Assumption(gone, but=frozenset(taken))) for way in ways)), None)
        if plan:
            seats = tuple((uid, place.node) for uid, place in plan.placements.items() if place.offer)
            return seats if drained and len({node for _, node in seats}) <= limit else ()
        if drained == len(nearest):
            return ()
        drained = min(len(nearest), max(1, drained * 2))


# what is kept


def _keep(state: State, each: Reservation, changed: set[str] | None, now: float) -> None:
    """Work out again what is kept free on changed nodes, and enter it in the ledger."""
    settings = state.settings.reservation
    if is_over(each.until, now, settings.hold):
        sentence = f"its reservation expired after {now - each.made:.0f} seconds: {drain_text(state, each)}"
        end_reservation(state, each)
        state.reservations.refuse(each.owner, now + settings.hold)
        state.outbox.add(events(state, each, "ReservationExpired", sentence))
        return
    waiting = _waiting(state, each)
    if not waiting or any(not accepts_pods(state, node) for node in each.nodes):
        end_reservation(state, each)
        return
    if len(waiting) < len(each.seats):
        release(state, (uid for uid, _ in each.seats if uid not in waiting))
        each, changed = replace(each, seats=tuple(seat for seat in each.seats if seat[0] in waiting)), None
        state.reservations.put(each)
    rooms = state.reservations.rooms.setdefault(each.owner, {})
    for node in each.nodes:
        if node not in rooms or changed is None or node in changed:
            room = _room(state, node, [(uid, waiting[uid]) for uid, there in each.seats if there == node])
            if room is None:
                end_reservation(state, each)
                state.reservations.refuse(each.owner, now + BACKOFF)
                return
            rooms[node] = room
    for node in rooms.keys() - set(each.nodes):
        del rooms[node]
    _enter(state, each, rooms, waiting)


def _waiting(state: State, each: Reservation) -> dict[str, Query]:
    """Return the pods of a reservation that are pending still, with their queries; none if it is met."""
    groups, pods = state.groups, state.cluster.pods
    if each.owner not in groups and groups.key_of(each.owner):
        return {}  # it has joined a group
    if each.owner in groups and groups.plan_of(each.owner):
        return {}
    waiting: dict[str, Query] = {}
    for uid, _ in each.seats:
        pod, entry = pods.get(uid), state.cluster.ledger.get(uid)
        if pod is None or pod.node or pod.deleting or has_other_gates(pod) or pod.phase in FINISHED:
            continue
        query = state.query(pod)
        if query and not query.policy.admit(query.ask) and (entry is None or entry.tentative or each.owner == uid):
            waiting[uid] = query
    return waiting


def _room(state: State, name: str, wanted: list[tuple[str, Query]]) -> ReservedRoom | None:
    """Return the room for pods on a node, without what they were offered or have reserved there."""
    cluster = state.cluster
    inventory = cluster.inventories.get(name)
    if inventory is None or any(cluster.index.unserved(query, name) for _, query in wanted):
        return None
    own: set[Key] = {key for uid, _ in wanted for key in (uid, ReservedKey(uid, "reservation"))}
    entries = [entry for entry in cluster.ledger.on(name) if entry.key not in own]
    return room_on(inventory, entries, [query for _, query in wanted], {*own, *cluster.ended_on(inventory)})


def _enter(state: State, each: Reservation, rooms: dict[str, ReservedRoom], waiting: dict[str, Query]) -> None:
    """Bring the ledger in line with the rooms; a pod that has devices of its own now needs none of these."""
    kept: dict[str, Offer] = {}
    for node, room in rooms.items():
        uids = [uid for uid, there in each.seats if there == node]
        kept |= {uid: offer for uid, offer in zip(uids, room.kept, strict=True) if offer.parts}
    if _has_devices(state, each):
        kept = {}
    changed = [
        uid for uid, _ in each.seats if (entry := reserved_entry(state, uid)) and entry.grant.offer != kept.get(uid)
    ]
    release(state, changed)
    for uid, offer in kept.items():
        pod, inventory = state.cluster.pods[uid], state.cluster.inventories[offer.node]
        if reserved_entry(state, uid):
            continue
        grant = Grant(uid, waiting[uid].policy.name, offer, mode=waiting[uid].ask.mode)
        entry = Entry(grant, "RESERVED", pod.namespace, pod.created, expires=each.until, purpose="reservation")
        if not state.cluster.ledger.has_conflict(entry, inventory.allocations):
            state.cluster.ledger.reserve(entry, inventory.allocations)
            if each.owner in state.groups:  # the index does not count that as a gain, and for the group it is one
                state.cluster.changes.capacity[offer.node] = state.cluster.index.changes + 1


def _has_devices(state: State, each: Reservation) -> bool:
    """Return whether the owner was offered devices, or is being bound."""
    return state.cluster.ledger.get(each.owner) is not None


# waking


def _is_due(each: Reservation, now: float) -> bool:
    return each.ready is None or is_over(_next_wake(each), now, FIRST_RETRY * 2.0**WAKES)


def _next_wake(each: Reservation) -> float:
    if each.ready is None:
        return each.until
    return min(each.until, each.ready + FIRST_RETRY * 2.0 ** (each.tries - 1))


def _wake(state: State, each: Reservation, now: float) -> None:
    """Wake the owner, whose room is complete; give up if it was woken often enough."""
    if each.tries >= WAKES:
        end_reservation(state, each)
        state.reservations.refuse(each.owner, now + BACKOFF, each.nodes)
        flush(state)
        return
    state.reservations.put(replace(each, ready=now, tries=each.tries + 1))
    record = state.groups.get(each.owner)
    match record.stage if record else None:
        case Unschedulable(limits=limits):
            begin(state, bundle(state, each.owner), limits)
            return
        case None | Idle():
            pods = [state.cluster.pods[uid] for uid, _ in each.seats if uid in state.cluster.pods]
            few = len(each.nodes) == 1
            sentence = f"{f'node {each.nodes[0]} has' if few else f'{len(each.nodes)} nodes have'} been drained for it"
            state.outbox.add(Wake(pod.namespace, pod.name, pod.uid, sentence, pod.priority, fits=True) for pod in pods)

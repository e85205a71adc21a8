"""Reconciliation: observe watch events, then derive what follows from them, from binds and from deadlines.

Every verb reconciles first, so that it decides on the state as of `now`. What follows from its own decision is derived by
the next verb, or by `step`: while something is left to do, the next deadline is 0.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from linkwise.broker.access import has_work, reconcile_access
from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.cluster.pods import usage_of_entry
from linkwise.broker.effects import NODE_EVENTS, Event, Wake
from linkwise.broker.groups.annotations import note_generation
from linkwise.broker.groups.claims import note_claims
from linkwise.broker.groups.gates import observe_steered
from linkwise.broker.groups.lifecycle import node_changed, prepare_groups, reconcile_groups, wake_members
from linkwise.broker.groups.reservations import note_emptied
from linkwise.broker.holding import evictions
from linkwise.broker.holding.reservations import (
    advance_reservations,
    keep_reserved,
    next_deadline as reservation_deadline,
)
from linkwise.broker.readers import event_name
from linkwise.broker.records.members import Unschedulable
from linkwise.broker.unobserved import forget_unobserved, take_observed, wake_late, wake_observed
from linkwise.broker.volcano.bookings import next_record, reconcile_bookings, reconcile_bound
from linkwise.broker.wake_ups import wake_pods
from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject, PodDeleted, PodListComplete
from linkwise.dialects.kubernetes.claims.objects import KINDS as DRA_KINDS
from linkwise.dialects.kubernetes.claims.requests import with_claim_request
from linkwise.dialects.linkwise.dialect import POLICY
from linkwise.engine.usage import drift_text
from linkwise.model.views import FINISHED, PodView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.broker.effects import Effect
    from linkwise.broker.state import State
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeInventory

__all__ = ["inventory_events", "next_deadline", "observe", "reconcile", "reconcile_later"]


def observe(state: State, events: Iterable[WatchEvent]) -> None:
    """Record watch events; `reconcile` derives what follows."""
    for event in events:
        match event:
            case PodView():
                _observe_pod(state, with_claim_request(event))
            case PodDeleted(uid):
                _delete_pod(state, uid)
            case NodeGone(name):
                _delete_node(state, name)
            case PodListComplete(uids):
                # Sorted, because the order of a set changes from process to process and a replay must do the same.
                for uid in sorted(state.uids() - uids):  # also pods that asked and were never observed
                    _delete_pod(state, uid)
            case NodeObject(node, kind, document):
                state.cluster.see_object(node, kind, document)
            case ClusterObject(kind, name, document) if kind in DRA_KINDS:
                state.cluster.claims.see(kind, name, document)
            case ClusterObject(kind, name, document):
                state.cluster.shared.see(kind, name, document)
                state.groups.objects_changed()
            case _:
                node_changed(state, event)
                state.cluster.see_node(event)


def reconcile(state: State, now: float) -> tuple[Effect, ...]:
    """Derive what follows from events, binds and deadlines up to `now`; return the effects, with those of the outbox."""
    shown = take_observed(state) if state.queue.shown else []
    _prepare(state, now)
    gained = _settle(state, now)
    if state.preemptions.records and evictions.hold_freed(state):
        gained += state.cluster.settle()  # nodes as they are without what is held
    note_claims(state, now)
    if _groups_are_busy(state):
        reconcile_groups(state, gained, now)
    if state.preemptions.records or state.preemptions.avoided:
        evictions.reconcile_preemptions(state, now)
        wake_members(state, now)
    again = state.queue.take_untaken()
    if state.queue.waiting and (gained or again):
        state.outbox.add(wake_pods(state, dict.fromkeys(gained), again))
    if _may_reserve(state):
        advance_reservations(state, now)
    if shown:
        state.outbox.add(wake_observed(state, shown, state.outbox.effects()))
    if state.cluster.unwritten or state.cluster.changes.overwritten:
        reconcile_bound(state, now)
    state.outbox.add(_node_events(state))
    return state.outbox.drain()


def reconcile_later(state: State, now: float) -> None:
    """Reconcile for a verb that returns no effects: they stay in the outbox."""
    state.outbox.add(reconcile(state, now))


def next_deadline(state: State) -> float | None:
    """When to reconcile again if nothing happens before; 0 if there is work left.

    Called after every verb, so only parts that may have a deadline are asked for it.
    """
    if _has_work(state):
        return 0.0
    cluster = state.cluster
    deadlines = [cluster.ledger.next_expiry(), state.queue.next_deadline()]
    if cluster.objects.missing:
        deadlines.append(cluster.objects.next_deadline())
    if cluster.held:
        deadlines.append(min(cluster.held.values()))
    if _groups_are_busy(state):
        deadlines.append(state.groups.next_deadline())
    if _may_reserve(state):
        deadlines.append(reservation_deadline(state))
    if cluster.unwritten and not state.recovering:
        deadlines.append(next_record(state))
    if state.preemptions.records or state.settings.preemption.evict:
        deadlines.append(evictions.next_deadline(state))
    return min((time for time in deadlines if time is not None), default=None)


def inventory_events(cluster: Cluster) -> list[Event]:
    """Return events of all nodes that changed since the last call."""
    changed, cluster.changes.inventories = cluster.changes.inventories, {}
    pairs = [(before, cluster.inventories[name]) for name, before in changed.items() if name in cluster.inventories]
    return [
        event for before, after in pairs for event in (*_problems(before, after), *_devices(cluster, before, after))
    ]


def _observe_pod(state: State, pod: PodView) -> None:
    cluster, groups = state.cluster, state.groups
    before = cluster.known.namesake(pod)
    held, new = cluster.ledger.get(pod.uid), pod.uid not in cluster.pods
    if not cluster.see_pod(pod):
        return
    state.queue.show(pod.uid)
    wake_late(state, pod)
    if before:  # a name is free only when its pod is gone
        _delete_pod(state, before.uid)
    group, problems = state.group_said(pod)
    known = groups.key_of(pod.uid)
    if group or problems or known:
        if group and not new and not known:
            # It waits no longer for devices of its own, but for its group.
            state.leave_to_group(pod.uid)
        groups.see(pod, group)
        if known and group is None and pod.uid in state.queue and not pod.node:
            # It may have been refused for its group after it had left it.
            sentence = "it is not a member of its group any more"
            state.outbox.add([Wake(pod.namespace, pod.name, pod.uid, sentence, pod.priority)])
        note_emptied(state, groups.key_of(pod.uid), pod.uid, held)
        note_generation(state, pod)
        if group is None and problems and new and not pod.node:
            cluster.changes.invalid_groups[pod.uid] = "; ".join(problem.text for problem in problems)
    observe_steered(state, pod, known, new=new)
    if not pod.node and (asks_for_devices(pod) or POLICY in pod.annotations):
        problems = state.request(pod).problems  # in the cache from now on, where filter and bind look it up
        if new and POLICY in pod.annotations:
            wrong = (problem.sentence for problem in problems if problem.key == POLICY)
            state.outbox.add(
                Event("Warning", "PolicyInvalid", sentence, pod.namespace, pod.name, pod.uid) for sentence in wrong
            )
    if (pod.node or pod.deleting or pod.phase in FINISHED) and (not new or pod.uid in state.queue):
        state.forget(pod.uid)


def _delete_pod(state: State, uid: str) -> None:
    if uid:
        held, key = state.cluster.ledger.get(uid), state.groups.lose(uid)
        state.groups.evicted.pop(uid, None)
        state.cluster.lose_pod(uid)
        note_emptied(state, key, uid, held)
        state.forget(uid)


def _delete_node(state: State, name: str) -> None:
    state.cluster.lose_node(name)
    state.cluster.known.lose_node(name)
    state.queue.lose_node(name)
    state.writer.forget(name)


def _groups_are_busy(state: State) -> bool:
    """Return whether a group has a stage, a deadline or changes to be reviewed."""
    changes = state.cluster.changes
    changed = changes.groups or changes.answers or changes.vacated or changes.forgotten_groups or changes.invalid_groups
    if changed or changes.pod_groups or changes.network or changes.volumes or changes.reopened or changes.capacity:
        return True
    return bool(state.groups.records) and state.groups.is_busy()


def _prepare(state: State, now: float) -> None:
    """End what is over by the clock, and apply what is new to policies, groups and reservations."""
    # Before nodes are settled, so that what ends here frees its devices in the same pass.
    if state.queue.next_deadline() is not None:
        forget_unobserved(state, now)
    state.forget_vendors(now)
    state.cluster.expire_inventories(now)
    ledger = state.cluster.ledger
    ledger.drop(ledger.expired_offers(now, state.settings.pending))
    if ledger.bookings or state.bookings.leaving:
        reconcile_bookings(state, now)
    if state.cluster.changes.access is not None or _limits_may_change(state):
        reconcile_access(state)
    if _groups_are_busy(state):
        prepare_groups(state, now)
    if state.reservations.made:
        keep_reserved(state, now)


def _limits_may_change(state: State) -> bool:
    """Return whether there are AcceleratorPolicies, or namespaces that have just been freed of one."""
    return state.has_policies or bool(state.access.freed)


def _may_reserve(state: State) -> bool:
    """Return whether nodes are drained for a pod or gang, or one of them may want that."""
    if state.reservations.made or state.cluster.known.unschedulable:
        return True
    return bool(state.groups.records) and bool(state.groups.gated(Unschedulable))


def _settle(state: State, now: float) -> list[str]:
    """Process changes and holds that have ended; return the nodes that gained capacity."""
    gained = state.cluster.settle()
    if state.cluster.held and state.cluster.expire_holds(now):
        gained += state.cluster.settle()
    return gained


def _node_events(state: State) -> list[Event]:
    """Return events about new drift and inventory problems."""
    cluster, changes = state.cluster, state.cluster.changes
    if not changes.drift and not changes.inventories:
        return []
    changed, changes.drift = changes.drift, {}
    new = [drift for node, before in changed.items() for drift in cluster.drift.get(node, ()) if drift not in before]
    name = partial(event_name, state.within(NODE_EVENTS))
    events = [Event("Warning", "Drift", drift_text(drift, name), node=drift.node) for drift in new]
    return [*events, *inventory_events(cluster)]


def _has_work(state: State) -> bool:
    return bool(
        state.outbox
        or state.queue.shown
        or (state.queue.waiting and state.queue.untaken)
        or state.cluster.unsettled()
        or state.cluster.changes.claims
        or state.cluster.changes.access is not None
        or (_limits_may_change(state) and has_work(state))
        or state.cluster.index.owes()
    )


def _problems(before: NodeInventory | None, after: NodeInventory) -> Iterator[Event]:
    """Yield new inventory problems: a rejected matrix, counts that differ."""
    known = before.problems if before else ()
    for problem in after.problems:
        if problem not in known:
            yield Event("Warning", "InventoryProblem", problem.text, node=after.name)


def _devices(cluster: Cluster, before: NodeInventory | None, after: NodeInventory) -> Iterator[Event]:
    """Yield changes of devices that are known from before: on the node, and on the pods that use them."""
    if before is None:
        return
    known, usable = {device.id for device in before.devices}, sum(device.healthy for device in after.devices)
    left = f"{usable} of {len(after.devices)} devices are usable"
    for device in after.devices:
        if device.id in known:
            yield from _health(cluster, before, after, device, left)
            yield from _cordon(cluster, before, after, device, left)


def _health(
    cluster: Cluster, before: NodeInventory, after: NodeInventory, device: Device, left: str
) -> Iterator[Event]:
    failed, name = device.id in after.faults, _name(device)
    if failed is (device.id in before.faults):
        return
    if not failed:
        yield Event("Normal", "DeviceRecovered", f"device {name} is healthy again; {left}", node=after.name)
        return
    why = f": {after.faults[device.id]}" if after.faults[device.id] else ""
    yield Event("Warning", "DeviceFailed", f"device {name} became unhealthy{why}; {left}", node=after.name)
    sentence = f"device {name} on node {after.name}, which this pod uses, became unhealthy{why}"
    yield from _to_users(cluster, after, device, Event("Warning", "DeviceFailed", sentence))


def _name(device: Device) -> str:
    return str(device.index) if device.id == f"#{device.index}" else f"{device.index} ({device.id})"


def _to_users(cluster: Cluster, inventory: NodeInventory, device: Device, event: Event) -> Iterator[Event]:
    """Yield the event for each pod that uses the device, as the agent reports or else by their records."""
    for entry in cluster.ledger.on(inventory.name):
        pod = None if entry.purpose else cluster.pods.get(entry.pod)
        if pod is not None and device.id in usage_of_entry(inventory, entry).used:
            yield replace(event, namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _cordon(
    cluster: Cluster, before: NodeInventory, after: NodeInventory, device: Device, left: str
) -> Iterator[Event]:
    cordoned, name = device.id in after.cordoned, _name(device)
    if cordoned is (device.id in before.cordoned):
        return
    if not cordoned:
        yield Event("Normal", "DeviceUncordoned", f"device {name} is no longer cordoned; {left}", node=after.name)
        return
    why = f": {after.cordoned[device.id]}" if after.cordoned[device.id] else ""
    yield Event("Normal", "DeviceCordoned", f"device {name} was cordoned{why}; {left}", node=after.name)
    sentence = f"device {name} on node {after.name}, which this pod keeps using, was cordoned{why}"
    yield from _to_users(cluster, after, device, Event("Normal", "DeviceCordoned", sentence))

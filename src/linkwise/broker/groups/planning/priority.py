"""Preemption of plans: a plan without bound members may be dropped for a pod or group of higher priority.

Source: contract koordinator, edge case 30.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from linkwise.broker.access import within_limits
from linkwise.broker.groups.planning.what_if import Assumption, WhatIf
from linkwise.broker.groups.readiness import alternatives
from linkwise.broker.groups.reservations import drop_plan
from linkwise.broker.holding.reserved_devices import give_up, outranked
from linkwise.broker.readers import outbid_text, pod_events
from linkwise.broker.records.members import BackingOff
from linkwise.broker.wake_ups import flush
from linkwise.engine.preemption import eviction_frees_enough
from linkwise.engine.reasons.phrases import groups_text
from linkwise.model.verdict import Key, Reason, ReservedKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.plan import Placement, Plan
    from linkwise.engine.queue.reservation import Reservation
    from linkwise.model.views import PodView

__all__ = ["preempt_plans_for_group", "preempt_plans_for_pod", "trial_plan"]


def preempt_plans_for_pod(state: State, pod: PodView, query: Query, names: Iterable[str], now: float) -> bool:
    """Preempt plans so that the pod fits on one of the nodes; false, without preemption, if that helps nowhere."""
    plans = _preemptible(state, pod.priority)
    homes, order = _homes(state, plans), {key: number for number, key in enumerate(plans)}
    options = [
        (option, name)
        for name in names
        if name in homes and (option := _plans_to_preempt(state, query, name, homes[name]))
    ]
    if not options:
        return False
    option, _ = min(options, key=lambda option: (len(option[0]), [order[key] for key in option[0]], option[1]))
    _preempt(state, option, pod.uid, [pod], now)
    return True


def preempt_plans_for_group(state: State, parts: Sequence[GroupView], now: float) -> Plan | None:
    """Return a plan for a group or bundle that does not fit otherwise, and preempt the plans whose devices it uses."""
    plans, reservations = _lower(state, parts), _lower_reservations(state, parts)
    if not plans and not reservations:
        return None
    plan = _first_plan(state, parts, plans, state.settings.group.steps)
    if plan is not None:
        key, pods = parts[0].group.key, [pod for view in parts for pod in view.waiting]
        for each in reservations:
            if not set(plan.nodes).isdisjoint(each.nodes):
                give_up(state, each, key, max(pod.priority for pod in pods))
        _preempt(state, _touched(state, plans, plan), key, pods, now)
    return plan


def trial_plan(state: State, parts: Sequence[GroupView], steps: int) -> Plan | None:
    """Return the plan that a group or bundle would get now; nothing is reserved or preempted."""
    plan = _plan_without(state, parts, frozenset(), steps)
    if plan is not None:
        return plan
    plans = _lower(state, parts)
    return _first_plan(state, parts, plans, steps) if plans or _lower_reservations(state, parts) else None


def _plan_without(state: State, parts: Sequence[GroupView], gone: frozenset[Key], steps: int) -> Plan | None:
    """Return the plan that a group or bundle would get if these pods and plans were gone."""
    for view, left in alternatives(parts):
        permitted, over = within_limits(state, view)
        plan = WhatIf(state, permitted, steps).plan(Assumption(gone=gone))
        if plan is not None:
            return replace(plan, missing=(*plan.missing, *over, *left))
    return None


def _first_plan(state: State, parts: Sequence[GroupView], plans: Collection[str], steps: int) -> Plan | None:
    """Plan as if the devices of these plans, and those of reservations that give way, were free."""
    planned = {uid for key in plans for uid in state.groups.plans[key].plan.placements}
    reserved = {ReservedKey(uid, "reservation") for each in _lower_reservations(state, parts) for uid, _ in each.seats}
    return _plan_without(state, parts, frozenset(planned | reserved), steps)


def _lower_reservations(state: State, parts: Sequence[GroupView]) -> list[Reservation]:
    """Return reservations that give way to the group."""
    pods = [pod for view in parts for pod in view.waiting]
    return outranked(state, max((pod.priority for pod in pods), default=0), [pod.uid for pod in pods])


def _lower(state: State, parts: Sequence[GroupView]) -> list[str]:
    """Return plans that the group may preempt, none of its own."""
    own = {view.group.key for view in parts}
    priority = max((pod.priority for view in parts for pod in view.waiting), default=0)
    return [key for key in _preemptible(state, priority) if key not in own]


def _preemptible(state: State, priority: int) -> list[str]:
    """Return plans of lower priority, the lowest first, then the newest."""
    plans = state.groups.plans
    keys = [
        key for key, held in plans.items() if all(_may_preempt(state, each, priority) for each in (key, *held.bundle))
    ]
    return sorted(keys, key=lambda key: (plans[key].priority, -plans[key].expires, key))


def _may_preempt(state: State, key: str, priority: int) -> bool:
    held, view = state.groups.plan_of(key), state.groups.view(key)
    return held is not None and held.priority < priority and view is not None and not view.bound


def _homes(state: State, plans: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Return, by node, the plans with devices there and their members on that node."""
    homes: dict[str, dict[str, list[str]]] = {}
    for key in plans:
        for uid, placement in state.groups.plans[key].plan.placements.items():
            if placement.offer:
                homes.setdefault(placement.node, {}).setdefault(key, []).append(uid)
    return homes


def _plans_to_preempt(state: State, query: Query, name: str, members: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a minimal list of plans to preempt so that the request fits on a node; empty if that does not help."""
    cluster = state.cluster
    inventory = cluster.inventories.get(name)
    if inventory is None or cluster.index.unserved(query, name):
        return []

    def enough(keys: Iterable[str]) -> bool:
        gone = {uid for key in keys for uid in members[key]}
        return eviction_frees_enough(cluster.ledger, inventory, query, gone, cluster.ended_on(inventory))

    option: list[str] = []
    for key in members:
        option.append(key)
        if enough(option):
            break
    else:
        return []
    for key in list(option):
        if enough(other for other in option if other != key):
            option.remove(key)
    return option


def _touched(state: State, plans: Sequence[str], plan: Plan) -> list[str]:
    """Return the plans that overlap with another one in devices, or else in nodes."""
    used = {(placement.node, device) for placement in plan.placements.values() for device in _devices(placement)}
    nodes = set(plan.nodes)
    held = {key: list(state.groups.plans[key].plan.placements.values()) for key in plans}
    using = [
        key
        for key in plans
        if any((placement.node, device) in used for placement in held[key] for device in _devices(placement))
    ]
    return using or [key for key in plans if any(placement.node in nodes for placement in held[key])]


def _devices(placement: Placement) -> tuple[str, ...]:
    return placement.offer.devices if placement.offer else ()


def _preempt(state: State, keys: Iterable[str], winner: str, pods: Sequence[PodView], now: float) -> None:
    """Preempt plans with their bundles; both sides get an event, and the losers are retried later.

    The winner is the key of a group or the UID of a pod, and `pods` are those that get the devices.
    """
    priority = max(pod.priority for pod in pods)
    preempted = lambda reader: f"its plan was preempted by {outbid_text(reader, winner, priority)}"  # noqa: E731 - a text in a line
    # By then the winner has what it was offered.
    stage = BackingOff(Reason("001.hold", kind="preempted"), now + state.settings.pending)
    for key in keys:
        if not state.groups.plan_of(key):
            continue  # preempted with another of its bundle
        for each in drop_plan(state, key, "preempt", stage):
            view, state.groups[each].since = state.groups.view(each), None
            state.outbox.add(pod_events(state, view.waiting if view else (), "Warning", "PlanBroken", preempted))
        state.outbox.add(pod_events(state, pods, "Normal", "PlanOverruled", partial(_overruled, key)))
    flush(state)


def _overruled(key: str, reader: State) -> str:
    name = groups_text([reader.group_name(key)])
    return f"it preempted the plan of {name}, which has a lower priority and no bound members"

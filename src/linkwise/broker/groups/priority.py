"""Plans that give way: one of which nobody is bound may be let go for a pod or group of a higher priority.

Source: contract koordinator, edge case 30.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from linkwise.broker.effects import Event
from linkwise.broker.groups.bundles import alternatives, mates_of
from linkwise.broker.groups.plan_annotations import give_up
from linkwise.broker.groups.planning import gathered
from linkwise.broker.groups.what_if import Assumption, WhatIf
from linkwise.broker.wake_ups import flush
from linkwise.engine.preemption import eviction_frees_enough

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.plan import Placement, Plan
    from linkwise.model.views import PodView

__all__ = ["give_way_to_group", "give_way_to_pod", "imagined"]


def give_way_to_pod(state: State, pod: PodView, wanted: Query, names: Iterable[str], now: float) -> bool:
    """Let plans go so that the pod fits on one of the nodes; false if that helps nowhere, and nothing is let go."""
    plans = _breakable(state, pod.priority)
    homes, turn = _homes(state, plans), {key: number for number, key in enumerate(plans)}
    ways = [(way, name) for name in names if name in homes and (way := _way(state, wanted, name, homes[name]))]
    if not ways:
        return False
    way, _ = min(ways, key=lambda found: (len(found[0]), [turn[key] for key in found[0]], found[1]))
    _let_go(state, way, [pod], now)
    return True


def give_way_to_group(state: State, key: str, now: float) -> Plan | None:
    """A plan for a group that has no room otherwise; the plans that it takes devices of are let go."""
    parts = [found for mate in mates_of(state, key) if (found := gathered(state, mate))]
    plans = _lower(state, parts)
    plan = _first_plan(state, parts, plans, state.settings.group.steps) if plans else None
    if plan is not None:
        _let_go(state, _touched(state, plans, plan), [pod for found in parts for pod in found.waiting], now)
    return plan


def imagined(state: State, parts: Sequence[GroupView], steps: int) -> Plan | None:
    """The plan that a group, or gangs that start together, would get now; nothing is held or let go for it."""
    plan = _first_plan(state, parts, (), steps)
    plans = _lower(state, parts) if plan is None else []
    return _first_plan(state, parts, plans, steps) if plans else plan


def _first_plan(state: State, parts: Sequence[GroupView], plans: Iterable[str], steps: int) -> Plan | None:
    """As if what these plans hold were free."""
    planned = frozenset(uid for key in plans for uid in state.groups.plans[key].plan.placements)
    for found, left in alternatives(parts):
        plan = WhatIf(state, found, steps).plan(Assumption(gone=planned))
        if plan is not None:
            return replace(plan, missing=(*plan.missing, *left))
    return None


def _lower(state: State, parts: Sequence[GroupView]) -> list[str]:
    """Plans that may be let go for a group, none of its own."""
    own = {found.group.key for found in parts}
    priority = max((pod.priority for found in parts for pod in found.waiting), default=0)
    return [key for key in _breakable(state, priority) if key not in own]


def _breakable(state: State, priority: int) -> list[str]:
    """Plans that may be let go: those of the lowest priority first, and of these the one held last."""
    plans = state.groups.plans
    keys = [key for key, held in plans.items() if all(_open(state, each, priority) for each in (key, *held.bundle))]
    return sorted(keys, key=lambda key: (plans[key].priority, -plans[key].expires, key))


def _open(state: State, key: str, priority: int) -> bool:
    held = state.groups.plans.get(key)
    if held is None or held.priority >= priority:
        return False
    found = gathered(state, key)
    return found is not None and not found.bound


def _homes(state: State, plans: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """By node the plans that hold devices there, in their order, each with its members on that node."""
    homes: dict[str, dict[str, list[str]]] = {}
    for key in plans:
        for uid, placement in state.groups.plans[key].plan.placements.items():
            if placement.offer:
                homes.setdefault(placement.node, {}).setdefault(key, []).append(uid)
    return homes


def _way(state: State, wanted: Query, name: str, members: Mapping[str, Sequence[str]]) -> list[str]:
    """The plans to let go so that the ask fits on a node, each of which is needed; none if that does not help."""
    cluster = state.cluster
    stock = cluster.inventories.get(name)
    if stock is None or cluster.index.unserved(wanted, name):
        return []

    def enough(keys: Iterable[str]) -> bool:
        gone = {uid for key in keys for uid in members[key]}
        return eviction_frees_enough(cluster.ledger, stock, wanted, gone, cluster.ended_on(stock))

    way: list[str] = []
    for key in members:
        way.append(key)
        if enough(way):
            break
    else:
        return []
    for key in list(way):
        if enough(other for other in way if other != key):
            way.remove(key)
    return way


def _touched(state: State, plans: Sequence[str], plan: Plan) -> list[str]:
    """The plans that hold what another one uses: its devices, or at least its nodes."""
    used = {(placement.node, device) for placement in plan.placements.values() for device in _devices(placement)}
    nodes = set(plan.nodes)
    held = {key: list(state.groups.plans[key].plan.placements.values()) for key in plans}
    found = [
        key
        for key in plans
        if any((placement.node, device) in used for placement in held[key] for device in _devices(placement))
    ]
    return found or [key for key in plans if any(placement.node in nodes for placement in held[key])]


def _devices(placement: Placement) -> tuple[str, ...]:
    return placement.offer.devices if placement.offer else ()


def _let_go(state: State, keys: Iterable[str], winners: Sequence[PodView], now: float) -> None:
    """Let plans go with those that hold together with them; both sides are told, and the losers tried again later."""
    first = winners[0]
    winner = f"{first.namespace}/{first.name}"
    for key in keys:
        for each in (key, *(state.groups.plans[key].bundle if key in state.groups.plans else ())):
            found = gathered(state, each)
            losers = found.waiting if found else ()
            sentence = f"its plan was preempted by pod {winner}, which has a higher priority and does not fit otherwise"
            state.outbox.add(_event("Warning", "PlanBroken", sentence, pod) for pod in losers)
            # By then the winner has what it was offered.
            state.groups.alarms[each] = now + state.settings.pending
            state.groups.first_seen.pop(each, None)
        give_up(state, key)
        sentence = f"it preempted the plan of group {key}, which has a lower priority and no bound members"
        state.outbox.add(_event("Normal", "PlanOverruled", sentence, pod) for pod in winners)
    flush(state)


def _event(kind: Literal["Normal", "Warning"], word: str, sentence: str, pod: PodView) -> Event:
    return Event(kind, word, sentence, pod.namespace, pod.name, pod.uid)

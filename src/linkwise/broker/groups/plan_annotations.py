"""Plan annotations on members: written when a plan is made, removed when it ends, restored after a restart.

Source: contract koordinator, edge case 21.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.effects import Annotate
from linkwise.broker.group_records import Idle, Reserved
from linkwise.broker.groups.bundles import bundle_keys
from linkwise.broker.groups.reservations import (
    annotation_removals,
    move,
    overcommits,
    reserve,
    still_free,
)
from linkwise.broker.wake_ups import flush
from linkwise.dialects.linkwise.dialect import PLAN, MemberPlan, plan_of, plan_words
from linkwise.engine.planning.plan import Placement, Plan
from linkwise.engine.planning.seating import takes
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.model.views import PodView

__all__ = ["note_written", "plan_annotations", "take_up_plans"]

WrittenPlan = Plan | Literal["later", "never"]
_LATER: Final = "later"
_NEVER: Final = "never"


def plan_annotations(state: State, key: str) -> Iterator[Annotate]:
    """Yield the annotations of members when their plan is reserved."""
    for each in bundle_keys(state, key) if state.settings.group.write_plans else ():
        held = state.groups.plan_of(each)
        for uid, placement in held.plan.placements.items() if held else ():
            pod, parts = state.pod(uid), placement.offer.parts if placement.offer else ()
            if held and pod:
                annotations = plan_words(MemberPlan(each, held.generation, placement.node, parts))
                yield Annotate(pod.namespace, pod.name, uid, annotations)


def note_written(state: State, pod: PodView) -> None:
    """Note the plan generation that a member's annotations carry."""
    key = state.groups.key_of(pod.uid)
    if not key:
        _remove_stray(state, pod)
        return
    record, entry = state.groups[key], state.cluster.ledger.get(pod.uid)
    if entry and entry.grant.plan == key:
        record.generation = max(record.generation, entry.grant.generation)
    written = plan_of(pod)[0] if PLAN in pod.annotations and not pod.node else None
    if written is None or written.id != key:
        _remove_stray(state, pod)
        return
    held = state.groups.plan_of(key)
    joins = held and held.generation == written.generation and pod.uid not in held.plan.placements
    if joins or written.generation > record.past:
        record.written = True
        state.groups.note_deadline(key)
    elif held is None or pod.uid not in held.plan.placements:
        _remove_stray(state, pod)  # written after the plan ended
    record.generation = max(record.generation, written.generation)


def _remove_stray(state: State, pod: PodView) -> None:
    """Remove a plan annotation that does not belong to the pod's group, so that no restart restores it."""
    if PLAN in pod.annotations and plan_of(pod)[0]:
        state.outbox.add(annotation_removals(state, [pod.uid]))


def take_up_plans(state: State, now: float) -> None:
    """Restore written plans that are still valid; others are made again on demand."""
    for key, record in state.groups.busy():
        if not record.written:
            continue  # not written, or restored with another
        keys = bundle_keys(state, key)
        written = {each: _read(state, each) for each in keys}
        if _LATER in written.values() and _NEVER not in written.values():
            continue
        for each in keys:
            other = state.groups[each]
            other.written, other.past = False, other.generation if other.written else other.past
            state.groups.note_deadline(each)
        plans = {each: plan for each, plan in written.items() if isinstance(plan, Plan)}
        if len(plans) == len(keys):
            _hold(state, plans, now)
        for each in keys:
            _remove_stale(state, each)


def _remove_stale(state: State, key: str) -> None:
    """Remove plan annotations from members that the current plan does not place."""
    view, held = state.groups.view(key), state.groups.plan_of(key)
    placed = held.plan.placements if held else {}
    carriers = [pod for pod in (view.waiting if view else ()) if PLAN in pod.annotations and plan_of(pod)[0]]
    state.outbox.add(annotation_removals(state, [pod.uid for pod in carriers if pod.uid not in placed]))


def _hold(state: State, plans: dict[str, Plan], now: float) -> None:
    for key in plans:
        if state.groups.plan_of(key):
            move(state, key, "break", Idle())
    flush(state)
    for key, plan in plans.items():
        others = tuple(other for other in plans if other != key)
        if plan.placements and all(still_free(state, uid, plan) for uid in plan.placements):
            reserve(state, key, Reserved(plan, state.groups[key].generation, now, bundle=others), now)
            flush(state)


def _read(state: State, key: str) -> WrittenPlan:
    """Read the plan from a group's members; `later` if its nodes or devices are not observed yet."""
    view = state.groups.view(key)
    if view is None or not any(PLAN in pod.annotations for pod in view.waiting):
        return _NEVER if view is None or view.waiting else Plan({})
    placements: dict[str, Placement] = {}
    held = state.groups.plan_of(key)
    for pod in view.waiting:
        if PLAN not in pod.annotations:
            continue
        place = (held.plan.placements.get(pod.uid) if held else None) or _placement(state, key, pod)
        if isinstance(place, str):
            return place
        placements[pod.uid] = place
    if overcommits(state, [place for uid, place in placements.items() if not held or uid not in held.plan.placements]):
        return _NEVER
    if all(pod.gates for pod in view.waiting) or len(placements) + len(view.bound) < view.least:
        return _LATER  # not completely observed yet
    return Plan(placements)


def _placement(state: State, key: str, pod: PodView) -> Placement | Literal["later", "never"]:
    """Return the written placement of a member, if it is of the newest plan and still valid."""
    plan, query = plan_of(pod)[0], state.query(pod)
    if plan is None or (plan.id, plan.generation) != (key, state.groups[key].generation):
        return _NEVER
    node, view = state.cluster.index.nodes.get(plan.node), state.cluster.nodes.get(plan.node)
    if node is None or view is None:
        return _LATER
    if not view.ready or view.unschedulable or bool(plan.parts) != (query is not None):
        return _NEVER
    offer = Offer(plan.node, plan.parts)
    if not {device.id for device in node.devices}.issuperset(offer.devices):
        return _LATER
    if query is None:
        return Placement(plan.node)
    return Placement(plan.node, offer) if _serves(query, offer) and takes(node, query, offer) else _NEVER


def _serves(query: Query, offer: Offer) -> bool:
    """Return whether the devices match each container's request; the annotation may hold anything."""
    counts = {part.container: len(part.devices) for part in offer.parts}
    asked = {each.container: each.devices for each in query.ask.containers if each.devices}
    return counts == asked if query.ask.devices else len(offer.devices) == 1

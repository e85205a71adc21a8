"""Members of Volcano's groups: which need no plan, which devices one carries, and which may swap places.

Volcano's controllers give every pod a PodGroup, so most groups need no plan: the best node for one pod is what predicate and
prioritize find anyway.

Volcano binds a pod with the annotations of its own copy, and the API server writes them over newer ones. So the devices in
that copy are those that the pod will have: they must be its own, or it is not scheduled until they are cleared.

Volcano remembers the nodes that refused one task of a job for its other tasks in the same round. If each member fitted on its
own place alone, the refusals of the first would hide the places of all others.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.cluster.pods import mismatch
from linkwise.broker.groups.gates import was_steered
from linkwise.broker.groups.readiness import pending_reason
from linkwise.broker.groups.reservations import move
from linkwise.broker.state import pod_name
from linkwise.dialects.linkwise.group_plan import is_gated
from linkwise.dialects.registry import held_by, is_record
from linkwise.engine.usage import resolved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.verdict import Offer, Reason
    from linkwise.model.views import PodView

__all__ = ["carried_devices", "lone_group", "lone_reason", "member_on", "trade_places"]

_template: Final = attrgetter("containers", "node_selector", "affinity", "tolerations", "priority", "scheduler")
"""what decides where a member may go, apart from the plan"""


def lone_group(state: State, pod: PodView) -> GroupView | None:
    """Return the group of a pending pod if it is the only member with devices; None if others have some, or a plan exists.

    One whose gate was removed for a plan is pinned to its node, and is planned again if the plan ends.
    """
    key = state.groups.key_of(pod.uid)
    view = state.groups.view(key) if key else None
    if view is None or pod.uid in view.extra or view.group.bundle or view.group.network or state.groups.plan_of(key):
        return None
    if is_gated(pod) or was_steered(state.groups[key], pod):
        return None
    members = (*view.waiting, *view.bound)
    alone = len(members) == 1 or not any(asks_for_devices(each) for each in members if each.uid != pod.uid)
    return view if alone else None


def lone_reason(state: State, view: GroupView, now: float) -> Reason | None:
    """Return why such a pod may not start yet: its PodGroup or other members are missing, or its job has an invalid shape."""
    record = state.groups[view.key]
    if record.since is None:
        record.since = now  # for a missing PodGroup it waits for a limited time
    return pending_reason(state, view, now)


def carried_devices(state: State, pod: PodView, node: str, own: Entry | None) -> tuple[Offer | None, str]:
    """Return the devices that a pending pod must get because it carries them, and why it can't; None if it carries none.

    `own` is what it has booked or planned.
    """
    if not any(text and is_record(key) for key, text in pod.annotations.items()):
        return None, ""
    held = held_by(replace(pod, node="")).grant
    inventory, there = state.cluster.inventories.get(node), state.cluster.index.nodes.get(node)
    query = state.query(pod)
    if held is None or not held.offer.parts or query is None or mismatch(query.ask, held):
        return None, ""
    if inventory is None or there is None or held.offer.node not in ("", node):
        return None, _stale(pod, held.offer)
    parts = tuple(replace(part, devices=tuple(_ids(inventory, part.devices))) for part in held.offer.parts)
    devices = {device for part in parts for device in part.devices}
    if own:
        return None, "" if own.node == node and devices == set(own.grant.offer.devices) else _stale(pod, held.offer)
    offer = replace(held.offer, node=node, parts=parts)
    return (offer, "") if query.takes(there, offer) else (None, _stale(pod, held.offer))


def member_on(state: State, pod: PodView, node: str) -> str:
    """Return the member whose place on the node the pod may take: itself, or an equal one; empty if there is none."""
    key = state.groups.key_of(pod.uid)
    stage = state.groups.plan_of(key)
    if stage is None or pod.uid not in stage.plan.placements:
        return ""
    if stage.plan.placements[pod.uid].node == node:
        return pod.uid
    return next((uid for uid in stage.homes.get(node, ()) if _may_trade(state, key, pod, uid)), "")


def trade_places(state: State, pod: PodView, other: str) -> None:
    """Let two members of a plan take each other's place."""
    key = state.groups.key_of(pod.uid)
    stage, ledger = state.groups.plan_of(key), state.cluster.ledger
    own, theirs = ledger.get(pod.uid), ledger.get(other)
    if stage is None or own is None or theirs is None or other == pod.uid:
        return
    record = state.groups[key]
    generation = record.generation = max(record.generation, stage.generation) + 1
    offers = {pod.uid: theirs.grant.offer, other: own.grant.offer}
    traded = [
        replace(entry, grant=replace(entry.grant, offer=offers[entry.pod], generation=generation))
        for entry in (own, theirs)
    ]
    reported = {uid for entry in traded for uid in state.cluster.inventories[entry.node].allocations}
    ledger.plan(traded, reported)
    places = stage.plan.placements
    placements = {**places, pod.uid: places[other], other: places[pod.uid]}
    plan = replace(stage.plan, placements=placements)
    move(state, key, "change", replace(stage, plan=plan, generation=generation))


def _stale(pod: PodView, offer: Offer) -> str:
    place = f" of node {offer.node}" if offer.node else ""
    return (
        f"pod {pod_name(pod)} carries devices {', '.join(offer.devices)}{place} in its annotations, which are not its own "
        "any more; it is scheduled when they are cleared"
    )


def _ids(inventory: NodeInventory, devices: Iterable[str]) -> Iterable[str]:
    """Yield the ids of devices, of which a record may have only the index; in their order."""
    return (next(iter(resolved(inventory, (device,)))) for device in devices)


def _may_trade(state: State, key: str, pod: PodView, uid: str) -> bool:
    """Return whether another member is equal, and neither is bound to its place in any way."""
    entry, other, record = state.cluster.ledger.get(uid), state.pod(uid), state.groups[key]
    own = state.cluster.ledger.get(pod.uid)
    if entry is None or own is None or other is None or (entry.state, own.state) != ("PLANNED", "PLANNED"):
        return False
    pinned = was_steered(record, pod) or was_steered(record, other)
    return not pinned and _template(other) == _template(pod)

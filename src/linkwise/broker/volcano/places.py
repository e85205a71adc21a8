"""Places of a plan among equal members: each of them may take the place of another that is not allocated yet.

Volcano remembers the nodes that refused one task of a job for its other tasks in the same round. If each member fitted on its
own place alone, the refusals of the first would hide the places of all others.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.groups.gates import was_steered
from linkwise.broker.groups.reservations import move

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["member_on", "trade_places"]

_template: Final = attrgetter("containers", "node_selector", "affinity", "tolerations", "priority", "scheduler")
"""what decides where a member may go, apart from the plan"""


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


def _may_trade(state: State, key: str, pod: PodView, uid: str) -> bool:
    """Return whether another member is equal, and neither is bound to its place in any way."""
    entry, other, record = state.cluster.ledger.get(uid), state.pod(uid), state.groups[key]
    own = state.cluster.ledger.get(pod.uid)
    if entry is None or own is None or other is None or (entry.state, own.state) != ("PLANNED", "PLANNED"):
        return False
    pinned = was_steered(record, pod) or was_steered(record, other)
    return not pinned and _template(other) == _template(pod)

"""Plan record: the bind of a member carries the placements of all members that are not bound yet.

So a plan is on the API server exactly when a member is bound, and no request is added. Until the first member is bound,
losing the plan is harmless: nothing of the group runs. Members of gangs that had a scheduling gate carry their own placement
from the moment that the gate is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.cluster.pod_request import ANNOTATION_BYTES, RESERVED_BYTES, annotation_bytes
from linkwise.dialects.linkwise.group_plan import (
    GROUP_PLAN,
    MAX_BYTES,
    GroupPlan,
    PlannedContainer,
    PlannedMember,
    RecordedPlans,
    recorded_plans,
    recorded_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.records.groups import Steered
    from linkwise.broker.records.stages import Reserved
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Placement
    from linkwise.model.views import PodView

__all__ = ["member_annotation", "note_generation", "plan_annotation"]


def plan_annotation(state: State, pod: PodView, others: Mapping[str, str], now: float) -> dict[str, str]:
    """Return the plan record for the bind of a member, beside its other annotations; empty if there is nothing to record.

    It is written until the watch shows a bound member that carries it: later binds would only repeat it. A record that
    is too large is not written; after a restart, the group is planned again around its bound members.
    """
    key = state.groups.key_of(pod.uid)
    held = state.groups.plan_of(key)
    if held is None or pod.uid not in held.plan.placements or not state.settings.group.write_plans:
        return {}
    plans = {key: held} | {mate: other for mate in held.bundle if (other := state.groups.plan_of(mate))}
    if _is_recorded(state, plans):
        return {}
    groups = {each: GroupPlan(plan.generation, _pending(state, plan, pod.uid)) for each, plan in plans.items()}
    if not any(plan.members for plan in groups.values()):
        return {}
    return _annotation(pod, groups, {**pod.annotations, **others}, now)


def member_annotation(state: State, key: str, pod: PodView, steered: Steered, now: float) -> dict[str, str]:
    """Return the plan record of a pending member: its own placement, or none if its plan of that generation ended."""
    held = state.groups.plan_of(key) if steered.planned else None
    placement = held.plan.placements.get(pod.uid) if held else None
    groups = {key: GroupPlan(steered.generation, {pod.uid: _member(state, placement)} if placement else {})}
    for mate in held.bundle if held else ():  # their own members carry their placements
        if other := state.groups.plan_of(mate):
            groups[mate] = GroupPlan(other.generation, {})
    return _annotation(pod, groups, {**pod.annotations, GROUP_PLAN: ""}, now)


def _annotation(pod: PodView, groups: Mapping[str, GroupPlan], beside: Mapping[str, str], now: float) -> dict[str, str]:
    """Return the annotation, if it has room beside the others."""
    text = recorded_text(RecordedPlans(pod.uid, max(0, int(1000 * now)), groups))
    room = min(MAX_BYTES, ANNOTATION_BYTES - RESERVED_BYTES - annotation_bytes(beside) - len(GROUP_PLAN))
    return {GROUP_PLAN: text} if len(text.encode()) <= room else {}


def note_generation(state: State, pod: PodView) -> None:
    """Note the generation of the plan that a member was bound by."""
    key, entry = state.groups.key_of(pod.uid), state.cluster.ledger.get(pod.uid)
    if key and entry and entry.grant.plan == key:
        record = state.groups[key]
        record.generation = max(record.generation, entry.grant.generation)


def _is_recorded(state: State, plans: Mapping[str, Reserved]) -> bool:
    """Return whether a bound member carries these plans: one generation has the same placements for its whole life."""
    now = {key: held.generation for key, held in plans.items()}
    if all(_carry_their_own(state, key, held) for key, held in plans.items()):
        return True
    for key in plans:
        view = state.groups.view(key)
        for pod in view.bound if view else ():
            record = recorded_plans(pod)[0] if GROUP_PLAN in pod.annotations else None
            if record and now.items() <= {each: plan.generation for each, plan in record.groups.items()}.items():
                return True
    return False


def _carry_their_own(state: State, key: str, held: Reserved) -> bool:
    """Return whether all members of a plan that are not observed as bound carry their own placements."""
    steered, pods = state.groups[key].steered, state.cluster.pods
    return all(
        (known := steered.get(uid)) is not None and known.written and known.generation == held.generation
        for uid in held.plan.placements
        if uid in pods and not pods[uid].node
    )


def _pending(state: State, held: Reserved, bound: str) -> dict[str, PlannedMember]:
    """Return the placements of members that are not observed as bound: binds in flight may still fail."""
    pods = state.cluster.pods
    return {
        uid: _member(state, placement)
        for uid, placement in held.plan.placements.items()
        if uid != bound and uid in pods and not pods[uid].node
    }


def _member(state: State, placement: Placement) -> PlannedMember:
    if placement.offer is None:
        return PlannedMember(placement.node)
    indices = {device.id: device.index for device in state.cluster.index.nodes[placement.node].devices}
    parts = placement.offer.parts
    return PlannedMember(
        placement.node,
        tuple(
            PlannedContainer(part.container, tuple(indices[device] for device in part.devices), part.share, part.core)
            for part in parts
        ),
    )

"""Plan record: the bind of a member carries the placements of all members that are not bound yet.

So a plan is on the API server exactly when a member is bound, and no request is added. The plan of a large group is written
in pieces, by as many binds. Until the first member is bound, losing the plan is harmless: nothing of the group runs. Members of gangs that had a scheduling gate carry their own placement
from the moment that the gate is removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.cluster.pod_request import ANNOTATION_BYTES, RESERVED_BYTES, annotation_bytes
from linkwise.dialects.linkwise.group_plan import (
    GROUP_PLAN,
    MAX_BYTES,
    GroupPlan,
    PlannedContainer,
    PlannedMember,
    RecordedPlans,
    member_bytes,
    recorded_plans,
    recorded_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.records.groups import Steered
    from linkwise.broker.records.stages import Reserved
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Placement
    from linkwise.model.views import PodView

__all__ = ["member_annotation", "note_generation", "plan_annotation"]


def plan_annotation(state: State, pod: PodView, others: Mapping[str, str], now: float) -> dict[str, str]:
    """Return the plan record for the bind of a member, beside its other annotations; empty if there is nothing to record.

    It is written until the watch shows bound members that carry it: later binds would only repeat it. What does not fit in
    one record is left to the next bind; after a restart before that, the group is planned again around its bound members.
    """
    key = state.groups.key_of(pod.uid)
    held = state.groups.plan_of(key)
    if held is None or pod.uid not in held.plan.placements or not state.settings.group.write_plans:
        return {}
    plans = {key: held} | {mate: other for mate in held.bundle if (other := state.groups.plan_of(mate))}
    if all(_carry_their_own(state, each, plan) for each, plan in plans.items()):
        return {}
    records = _records(state, plans)
    missing = {each: _missing(state, plan, [record.groups[each] for record in records]) for each, plan in plans.items()}
    missing[key].pop(pod.uid, None)
    if not any(missing.values()):
        return {}
    groups = {each: GroupPlan(plan.generation, {}) for each, plan in plans.items()}
    beside = {**pod.annotations, **others}
    left, members = _room(beside) - len(_text(pod, groups, now).encode()), dict[str, dict[str, PlannedMember]]()
    for each, uid, placement in [(each, *entry) for each, own in missing.items() for entry in own.items()]:
        member = _member(state, placement)
        left -= member_bytes(uid, member)
        if left < 0:
            break
        members.setdefault(each, {})[uid] = member
    groups |= {each: replace(groups[each], members=own) for each, own in members.items()}
    return _annotation(pod, groups, beside, now) if members else {}


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
    text = _text(pod, groups, now)
    return {GROUP_PLAN: text} if len(text.encode()) <= _room(beside) else {}


def _text(pod: PodView, groups: Mapping[str, GroupPlan], now: float) -> str:
    return recorded_text(RecordedPlans(pod.uid, max(0, int(1000 * now)), groups))


def _room(beside: Mapping[str, str]) -> int:
    """Return the bytes that a record may have beside other annotations."""
    return min(MAX_BYTES, ANNOTATION_BYTES - RESERVED_BYTES - annotation_bytes(beside) - len(GROUP_PLAN))


def note_generation(state: State, pod: PodView) -> None:
    """Note the generation of the plan that a member was bound by."""
    key, entry = state.groups.key_of(pod.uid), state.cluster.ledger.get(pod.uid)
    if key and entry and entry.grant.plan == key:
        record = state.groups[key]
        record.generation = max(record.generation, entry.grant.generation)


def _records(state: State, plans: Mapping[str, Reserved]) -> list[RecordedPlans]:
    """Return what bound members carry of these plans: one generation has the same placements for its whole life."""
    now = {key: held.generation for key, held in plans.items()}
    views = [view for key in plans if (view := state.groups.view(key))]
    carriers = [pod for view in views for pod in view.bound if GROUP_PLAN in pod.annotations]
    records = [record for pod in carriers if (record := recorded_plans(pod)[0])]
    return [
        record
        for record in records
        if now.items() <= {each: plan.generation for each, plan in record.groups.items()}.items()
    ]


def _carry_their_own(state: State, key: str, held: Reserved) -> bool:
    """Return whether all members of a plan that are not observed as bound carry their own placements."""
    steered, pods = state.groups[key].steered, state.cluster.pods
    return all(
        (known := steered.get(uid)) is not None and known.written and known.generation == held.generation
        for uid in held.plan.placements
        if uid in pods and not pods[uid].node
    )


def _missing(state: State, held: Reserved, written: Iterable[GroupPlan]) -> dict[str, Placement]:
    """Return the placements that are not written, without those of members observed as bound: binds in flight may fail."""
    placements, pods = held.plan.placements, state.cluster.pods
    left = {*placements}
    for plan in written:  # the first has nearly all, so that the others are only asked for the rest
        left = {uid for uid in left if uid not in plan.members}
    left = {uid for uid in left if uid in pods and not pods[uid].node}
    return {uid: placement for uid, placement in placements.items() if uid in left} if left else {}


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

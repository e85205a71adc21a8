"""Annotations of group members: the record of the plan, and the devices of each member and its neighbours.

The bind of a member carries the placements of all members that are not bound yet. So a plan is on the API server exactly
when a member is bound, and no request is added. The plan of a large group is written in pieces, by as many binds. Until
the first member is bound, losing the plan is harmless: nothing of the group runs. Members of gangs that had a scheduling
gate carry their own placement from the moment that the gate is removed.

A Binding of Volcano has the annotations of the pod as Volcano last saw it, and the API server writes these over newer
ones. So a record is written once per plan, and cleared before another one is written: a key that Volcano's copy lacks
survives. Source: contract volcano-extender, section 7.

The record of a member always lists the devices of the others, for communication without copies through the host; whether
containers see them is a setting of the node agent (`linkwise.node.container`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.candidates import available_devices
from linkwise.broker.cluster.pod_request import ANNOTATION_BYTES, RESERVED_BYTES, annotation_bytes
from linkwise.broker.cluster.pods import allocated_parts
from linkwise.broker.effects import Event
from linkwise.dialects.dialect import Writing
from linkwise.dialects.koordinator.allocation import TOPOLOGY, visible
from linkwise.dialects.linkwise.dialect import GRANT
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
from linkwise.dialects.registry import cleared_records
from linkwise.model.verdict import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Bind
    from linkwise.broker.records.groups import Steered
    from linkwise.broker.records.members import Reserved
    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry
    from linkwise.engine.planning.plan import Placement
    from linkwise.model.views import PodView

__all__ = [
    "cleared_record",
    "grant_annotations",
    "member_annotation",
    "note_generation",
    "plan_annotation",
    "planned_record",
    "visibility_events",
    "visible_to",
]

MEMBERS: Final = {"PLANNED", "BOOKED", "ASSUMED", "ASSIGNED"}
"""entries of members that are bound or planned; a member that is being deleted leaves its group"""


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


def note_generation(state: State, pod: PodView) -> None:
    """Note the generation of the plan that a member was bound by."""
    key, entry = state.groups.key_of(pod.uid), state.cluster.ledger.get(pod.uid)
    if key and entry and entry.grant.plan == key:
        record = state.groups[key]
        record.generation = max(record.generation, entry.grant.generation)


def grant_annotations(state: State, pod: PodView, entry: Entry, now: float) -> dict[str, str]:
    """Return all keys that record the devices of an entry on its pod, with the plan of its group if it has one."""
    devices = {device.id: device for device in state.cluster.index.nodes[entry.node].devices}
    # rule 004.record, 001.record: node and all keys are written in one request.
    grouped = pod.uid in state.groups.key_by_pod
    visible = visible_to(state, pod.uid, entry.node) if grouped else ()
    writing = Writing(pod, entry.grant, devices, 0, visible, entry.decision)
    dialect = state.request(pod).dialect
    keys = state.writer.annotations(writing, dialect, now) if entry.unrecorded_ask is None else {}
    if entry.grant.plan:
        keys |= plan_annotation(state, pod, keys, now)
    return keys


def planned_record(state: State, pod: PodView, now: float) -> dict[str, str]:
    """Return the annotations that a bind would write for the planned devices of a pod; none if a claim allocates them."""
    entry, request, query = state.cluster.ledger.get(pod.uid), state.request(pod), state.query(pod)
    if entry is None or entry.state not in {"PLANNED", "BOOKED"} or query is None:
        return {}
    if state.cluster.inventories[entry.node].claims is not None or query.ask.resource in pod.hosted_by_claims:
        return {}
    node, offer = state.cluster.index.nodes[entry.node], entry.grant.offer
    free, rooms = available_devices(state.settings.share, query, node, offer)
    devices = {device.id: device for device in node.devices}
    visible = visible_to(state, pod.uid, entry.node)
    writing = Writing(pod, entry.grant, devices, 0, visible, Decision(free=free, rooms=rooms))
    # rule 003.record: chips and time in Huawei's format, whichever scheduler binds.
    return {key: text for key, text in state.writer.annotations(writing, request.dialect, now).items() if text}


def cleared_record(pod: PodView, written: Iterable[str]) -> dict[str, str]:
    """Return empty texts for the record on a pod, and for what was written and is not observed yet; the plan stays."""
    keys = {**cleared_records(pod), **({GRANT: ""} if GRANT in pod.annotations else {}), **dict.fromkeys(written, "")}
    return {key: "" for key in keys if key != GROUP_PLAN}


def visible_to(state: State, uid: str, node: str) -> tuple[str, ...]:
    """Return the devices on the node of the pod's other members, bound or planned; none without a group."""
    members = _siblings(state, uid, node)
    if not members:
        return ()
    # rule 001.record: the group's devices on the node are listed, whatever its containers really see.
    inventory = state.cluster.inventories[node]
    known = {device.id for device in inventory.devices}  # members may have devices that the node lost
    parts = (part for member in members for part in allocated_parts(inventory, member))
    return tuple(dict.fromkeys(device for part in parts for device in part.devices if device in known))


def visibility_events(state: State, bound: Bind) -> list[Event]:
    """Return a warning if the records of members that were bound earlier do not list this pod's devices.

    A container's environment can't be changed, so they do not see devices of a later plan.
    """
    if TOPOLOGY not in bound.annotations or bound.grant is None:
        return []
    indices = {device.id: device.index for device in state.cluster.inventories[bound.node].devices}
    own = {indices[device] for device in bound.grant.offer.devices if device in indices}
    entries = _siblings(state, bound.uid, bound.node)
    unaware = [name for entry in entries if (name := _unaware(state, entry, bound.grant.generation, own))]
    if not unaware:
        return []
    sentence = f"its devices are not listed as visible to {', '.join(unaware)}, which started earlier"
    return [Event("Warning", "VisibilityReduced", sentence, bound.namespace, bound.name, bound.uid, bound.node)]


def _carry_their_own(state: State, key: str, held: Reserved) -> bool:
    """Return whether all members of a plan that are not observed as bound carry their own placements."""
    steered, pods = state.groups[key].steered, state.cluster.pods
    return all(
        (known := steered.get(uid)) is not None and known.written and known.generation == held.generation
        for uid in held.plan.placements
        if uid in pods and not pods[uid].node
    )


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


def _missing(state: State, held: Reserved, written: Iterable[GroupPlan]) -> dict[str, Placement]:
    """Return the placements that are not written, without those of members observed as bound: binds in flight may fail."""
    placements, pods = held.plan.placements, state.cluster.pods
    left = {*placements}
    for plan in written:  # the first has nearly all, so that the others are only asked for the rest
        left = {uid for uid in left if uid not in plan.members}
    left = {uid for uid in left if uid in pods and not pods[uid].node}
    return {uid: placement for uid, placement in placements.items() if uid in left} if left else {}


def _room(beside: Mapping[str, str]) -> int:
    """Return the bytes that a record may have beside other annotations."""
    return min(MAX_BYTES, ANNOTATION_BYTES - RESERVED_BYTES - annotation_bytes(beside) - len(GROUP_PLAN))


def _text(pod: PodView, groups: Mapping[str, GroupPlan], now: float) -> str:
    return recorded_text(RecordedPlans(pod.uid, max(0, int(1000 * now)), groups))


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


def _annotation(pod: PodView, groups: Mapping[str, GroupPlan], beside: Mapping[str, str], now: float) -> dict[str, str]:
    """Return the annotation, if it has room beside the others."""
    text = _text(pod, groups, now)
    return {GROUP_PLAN: text} if len(text.encode()) <= _room(beside) else {}


def _siblings(state: State, uid: str, node: str) -> list[Entry]:
    """Return the ledger entries of the other members on the node; none for a pod beyond the number of members."""
    key = state.groups.key_of(uid)
    view = state.groups.view(key) if key else None
    if view is None or uid in view.extra:
        return []
    entries = state.cluster.ledger.on(node)
    own = (entry for entry in entries if entry.state in MEMBERS and not entry.purpose)
    members = [entry for entry in own if state.groups.key_of(entry.pod) == key]
    return [entry for entry in members if entry.pod not in {uid, *view.extra}]


def _unaware(state: State, entry: Entry, generation: int, own: set[int]) -> str:
    """Return the name of a bound member whose record does not list the devices; empty if it lists them."""
    pod = state.pod(entry.pod)
    if pod is None or entry.state == "PLANNED":
        return ""
    if not pod.node:  # its record is not observed yet; it lists what its own plan has
        return pod.name if entry.grant.generation != generation else ""
    return pod.name if TOPOLOGY in pod.annotations and not own <= visible(pod) else ""

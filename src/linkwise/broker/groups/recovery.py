"""Recovery after a restart: partially bound and ungated groups get their plans back before any request is answered.

First all plans recorded on members are restored whose devices are still free; a group that is planned before would
take devices of another's record. Then the others are planned again around their bound members, in steps: gangs that must
start together and have not, then the rest, each by priority and age.

A bind that was in flight when the previous instance ended needs no care: the lists show its pod with a node, and then it
is a bound member, or without one, and then it waits and is in the record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.groups.planning.runs import begin, plan_now
from linkwise.broker.groups.readiness import bundle, pending_reason
from linkwise.broker.groups.reservations import move, overcommits, reserve
from linkwise.broker.records.members import Idle, Planning, Reserved
from linkwise.broker.wake_ups import flush
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN, is_gated, recorded_plans
from linkwise.engine.planning.plan import Placement, Plan
from linkwise.engine.usage import node_after
from linkwise.model.verdict import Offer, Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.dialects.linkwise.group_plan import GroupPlan, PlannedMember, RecordedPlans
    from linkwise.engine.index.node_index import Query
    from linkwise.model.node import Node
    from linkwise.model.views import PodView

__all__ = ["Recovery"]

MAX_ATTEMPTS: Final = 200
"""planning calls per group: if the cluster changes all the time, the rest is planned in the background"""


class Recovery:
    """Restores plans, then makes missing ones; `advance` until it returns False."""

    def __init__(self, state: State) -> None:
        self._state, self._now = state, 0.0
        self._steps: Iterator[str] | None = None
        """what is left, from the first call to the last"""
        self._done = False

    def advance(self, now: float) -> bool:
        """Restore one plan, or plan for as many steps as one filter call; return whether more is left."""
        if self._done:
            return False
        self._now, self._steps = now, self._steps or self._run()
        if next(self._steps, None) is None:
            self._steps, self._done = None, True
        return not self._done

    def restore_all(self, now: float) -> None:
        """Restore the recorded plans and make none: for a reader of the cluster, which does not decide."""
        state = self._state
        for members in _recorded_members(state):
            _restore(state, members, now)
        for key, _ in list(state.groups.in_stage(Planning)):  # gated gangs; explanations plan those that they are about
            move(state, key, "forget", Idle())

    def _run(self) -> Iterator[str]:
        """Yield the group of each step."""
        state, recorded = self._state, set[str]()
        for members in _recorded_members(state):
            _restore(state, members, self._now)
            recorded |= {uid for placements in members.values() for uid in placements}
            yield next(iter(members))
        for key in _to_plan(state, recorded):
            for _ in range(MAX_ATTEMPTS):
                if _plan_again(state, key, self._now):
                    break
                yield key
            yield key


def _plan_again(state: State, key: str, now: float) -> bool:
    """Plan a group; return whether that is done, with a plan or without."""
    view = state.groups.view(key)
    if view is None or not view.waiting or state.groups.plan_of(key) or pending_reason(state, view, now):
        return True
    if not isinstance(state.groups.stage(key), Planning):
        begin(state, bundle(state, key))
    plan_now(state, key, now)
    return not isinstance(state.groups.stage(key), Planning)


Recorded = dict[str, dict[str, "PlannedMember"]]
"""by group, the recorded placements of its members; groups that must start together are in one"""


def _recorded_members(state: State) -> list[Recorded]:
    """Return the newest recorded plans, the latest record first: of two that overlap, the earlier one had ended."""
    records = sorted(_records(state), key=lambda record: (-record.time, record.pod))
    members: dict[tuple[str, int], dict[str, PlannedMember]] = {}
    for record in records:
        for key, plan in record.groups.items():
            group = state.groups[key]
            group.generation = max(group.generation, plan.generation)
            state.cluster.changes.groups[key] = None  # whether it is stale depends on whether it was planned
            known = members.setdefault((key, plan.generation), {})
            known |= {uid: member for uid, member in plan.members.items() if uid not in known}
    newest = dict.fromkeys(  # several members carry it
        tuple(record.groups)
        for record in records
        if all(plan.generation == state.groups[key].generation for key, plan in record.groups.items())
    )
    return [{key: members[key, state.groups[key].generation] for key in keys} for keys in newest]


def _records(state: State) -> Iterator[RecordedPlans]:
    """Yield the records of members, each about its own group and those that must start together with it.

    A member that is not bound yet is believed for itself alone, and not while it has a gate: that goes with the record.
    """
    for pod in state.cluster.pods.values():
        key = state.groups.key_of(pod.uid)
        if not key or GROUP_PLAN not in pod.annotations or is_gated(pod):
            continue
        own = _bundle(state, key)
        if not any((view := state.groups.view(each)) and view.waiting for each in own):
            continue  # all are bound, as of most groups of a cluster
        record = recorded_plans(pod)[0]
        if record and key in record.groups:
            groups = {each: plan for each, plan in record.groups.items() if each in own}
            if not pod.node:
                groups = {each: _only(plan, pod.uid) for each, plan in groups.items()}
            yield replace(record, groups=groups)


def _only(plan: GroupPlan, uid: str) -> GroupPlan:
    return replace(plan, members={each: member for each, member in plan.members.items() if each == uid})


def _restore(state: State, members: Recorded, now: float) -> None:
    """Restore the plans of a bundle: all of them or none."""
    if any(map(state.groups.plan_of, members)):
        return  # several members carry it
    nodes: dict[str, Node] = {}
    plans = {key: _plan(state, key, recorded, nodes) for key, recorded in members.items()}
    whole = {key: plan for key, plan in plans.items() if plan}
    if len(whole) < len(plans) or overcommits(
        state, [place for plan in whole.values() for place in plan.placements.values()]
    ):
        return
    for key, plan in whole.items():
        if plan.placements:
            others = tuple(other for other in whole if other != key)
            reserve(state, key, Reserved(plan, state.groups[key].generation, now, bundle=others), now)
    flush(state)


def _plan(state: State, key: str, recorded: Mapping[str, PlannedMember], nodes: dict[str, Node]) -> Plan | None:
    """Return the recorded plan for members that still wait; None if a device is taken, or too few are in the record.

    `nodes` are the nodes as they are with the members placed so far.
    """
    view = state.groups.view(key)
    placements: dict[str, Placement] = {}
    for pod in view.waiting if view else ():
        if pod.uid in recorded:
            placement = _placement(state, pod, recorded[pod.uid], nodes)
            if placement is None:
                return None
            placements[pod.uid] = placement
    if view is None or not view.waiting:
        return Plan({})
    missing = tuple(pod.uid for pod in view.waiting if pod.uid not in placements and state.request(pod).ask)
    return Plan(placements, missing=missing) if placements and view.seen - len(missing) >= view.least else None


def _placement(state: State, pod: PodView, member: PlannedMember, nodes: dict[str, Node]) -> Placement | None:
    """Return where a member was planned; None if its node does not accept it, or its devices are taken."""
    view, node = state.cluster.nodes.get(member.node), state.cluster.index.nodes.get(member.node)
    query = state.query(pod)
    if view is None or node is None or not view.ready or view.unschedulable:
        return None
    if query is None or not member.containers:
        return Placement(member.node) if query is None and not member.containers else None
    ids = {device.index: device.id for device in node.devices}
    if any(index not in ids for part in member.containers for index in part.devices):
        return None
    offer = Offer(
        member.node,
        tuple(
            Part(part.name, tuple(ids[index] for index in part.devices), part.share, part.core)
            for part in member.containers
        ),
    )
    node = nodes.get(member.node, node)
    if state.cluster.index.unserved(query, member.node) or not _serves(query, offer) or not query.takes(node, offer):
        return None
    nodes[member.node] = node_after(node, offer, query.ask.domain, query.ask.mode)
    return Placement(member.node, offer)


def _serves(query: Query, offer: Offer) -> bool:
    """Return whether the devices match each container's request; the annotation may hold anything."""
    counts = {part.container: len(part.devices) for part in offer.parts}
    asked = {each.container: each.devices for each in query.ask.containers if each.devices}
    return counts == asked if query.ask.devices else len(offer.devices) == 1


def _to_plan(state: State, recorded: set[str]) -> list[str]:
    """Return groups that need a plan at once, those that must not stay partially bound first.

    They are partially bound, or had a plan for a member that waits.
    """
    flush(state)
    keys = [key for key in state.groups.keys() if not state.groups.plan_of(key)]  # noqa: SIM118 - not a mapping
    views = [view for key in keys if (view := state.groups.view(key)) and view.waiting]
    needy = [view for view in views if _is_half_bound(state, view) or any(pod.uid in recorded for pod in view.waiting)]
    needy.sort(key=lambda view: _order(state, view))
    return [view.key for view in needy]


def _is_half_bound(state: State, view: GroupView) -> bool:
    """Return whether too few members of a gang are bound to start, and some of it or of its bundle are, by a plan."""
    if len(view.bound) >= view.least or view.group.match_policy == "only-waiting":
        return False
    peers = [(state.groups[key], other) for key in _bundle(state, view.key) if (other := state.groups.view(key))]
    return any(record.generation and other.bound for record, other in peers)


def _bundle(state: State, key: str) -> set[str]:
    """Return the gangs that must start together, started or not; only the group itself without a bundle."""
    return {key, *(peer for name in state.groups.bundle_of(key) for peer in state.groups.named(name))}


def _order(state: State, view: GroupView) -> tuple[object, ...]:
    pods = (*view.waiting, *view.bound)
    half_bound = _is_half_bound(state, view)
    return (
        not (half_bound and view.group.strict),
        not half_bound,
        -max(pod.priority for pod in pods),
        min(pod.created for pod in pods),
        view.key,
    )

"""Reservations: the ledger's PLANNED entries follow from the stages of groups.

A member is reserved what the plan of its group places it on, for as long as it is pending in that group. `move` is the
only way to change a stage, and brings the entries of that plan in line in the same step. The devices of a deleted member
are kept for a short time, because its replacement belongs to the same group.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.records.groups import KeptPlaces
from linkwise.broker.records.members import Reserved
from linkwise.dialects.groups.conventions import VOLCANO_SOURCE
from linkwise.engine.ledger import Entry
from linkwise.engine.planning.hosts import in_parts
from linkwise.engine.usage import node_after
from linkwise.model.verdict import Grant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.records.members import Event, GroupView, Stage
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Placement, Plan
    from linkwise.model.ask import Group
    from linkwise.model.node import Node

__all__ = [
    "accepts_pods",
    "drop_plan",
    "extend",
    "give_up_places",
    "hold_time",
    "is_over",
    "keep_places",
    "move",
    "note_emptied",
    "overcommits",
    "release_forgotten",
    "reserve",
    "shares_are_reserved",
    "still_free",
]

ROUGHLY: Final = 0.1
"""extensions shorter than this share of the hold time are skipped"""


def move(state: State, key: str, event: Event, stage: Stage) -> None:
    """Change the stage of a group, and with it the devices that its plan reserves."""
    before = state.groups.plan_of(key)
    state.groups.move(key, event, stage)
    if (before or isinstance(stage, Reserved)) and not _sync(state, key, before.plan if before else None):
        state.cluster.changes.groups[key] = None  # a share was taken by another pod: the next review breaks the plan


def drop_plan(state: State, key: str, event: Event, stage: Stage) -> list[str]:
    """End the plan of a group and those reserved together with it; return their groups."""
    # rule 001.replan: made again for all if none is bound, else for the rest: bound members are fixed in every plan.
    plan = state.groups.plan_of(key)
    others = plan.bundle if plan else ()
    linked = [each for each in others if (other := state.groups.plan_of(each)) and key in other.bundle]
    for each in (key, *linked):
        move(state, each, event, stage)
    return [key, *linked]


def shares_are_reserved(state: State, key: str) -> bool:
    """Bring the entries of a plan in line with its pending members; false if a share was taken by another pod."""
    plan = state.groups.plan_of(key)
    return plan is None or _sync(state, key, plan.plan)


def _sync(state: State, key: str, before: Plan | None) -> bool:
    """Drop what the plan does not reserve any more and enter what it does; false if some of that is not available."""
    ledger, stage, view = state.cluster.ledger, state.groups.plan_of(key), state.groups.view(key)
    expected = _expected(stage, view) if stage and view else {}
    actual = {
        uid: entry
        for uid in {**(before.placements if before else {}), **expected}
        if (entry := ledger.get(uid)) and entry.state == "PLANNED" and entry.grant.plan == key
    }
    ledger.drop([uid for uid in actual if uid not in expected])
    if stage is None:
        return True
    entries, available = [], True
    left: dict[str, Node] = {}
    for uid, placement in expected.items():
        entry = actual.get(uid)
        reserved = entry is not None and entry.grant.offer == placement.offer
        if entry and reserved and (entry.expires, entry.grant.generation) == (stage.expires, stage.generation):
            continue
        wanted = _entry(state, key, stage, uid, placement)
        if wanted and (reserved or (still_free(state, uid, stage.plan, left) and not _is_taken(state, wanted))):
            entries.append(wanted)
        else:
            available = False
    if entries:
        # rule 001.hold: a complete plan reserves its devices for a limited time.
        ledger.plan(entries, _agent_reported(state, stage.plan))
    for entry in entries:
        state.queue.leave_to_group(entry.pod)  # it may have been queued as a pod without a group before
    return available


def _expected(stage: Reserved, view: GroupView) -> dict[str, Placement]:
    placements = stage.plan.placements
    return {pod.uid: placements[pod.uid] for pod in view.waiting if pod.uid in placements and placements[pod.uid].offer}


def _entry(state: State, key: str, stage: Reserved, uid: str, placement: Placement) -> Entry | None:
    pod = state.pod(uid)
    query = state.query(pod) if pod else None
    if pod is None or query is None or placement.offer is None:
        return None
    grant = Grant(uid, query.policy.name, placement.offer, key, stage.generation, query.ask.mode)
    return Entry(grant, "PLANNED", pod.namespace, pod.created, expires=stage.expires)


def _is_taken(state: State, entry: Entry) -> bool:
    inventory, known = state.cluster.inventories.get(entry.node), state.cluster.ledger.get(entry.pod)
    other_plan = known is not None and known.state == "PLANNED" and known.grant.plan != entry.grant.plan
    return other_plan or state.cluster.ledger.has_conflict(entry, inventory.allocations if inventory else ())


def _agent_reported(state: State, plan: Plan) -> set[str]:
    """Return pods whose usage the agents of the plan's nodes report."""
    inventories = state.cluster.inventories
    return {uid for node in plan.nodes if node in inventories for uid in inventories[node].allocations}


def reserve(state: State, key: str, stage: Reserved, now: float) -> None:
    """Reserve the devices of a plan whose devices are free."""
    view = state.groups.view(key)
    priority = max((pod.priority for uid in stage.plan.placements if (pod := state.pod(uid))), default=0)
    hold = hold_time(state, view.group if view else None)
    check = now + min(hold, state.settings.group.hold)
    move(state, key, "reserve", replace(stage, expires=now + hold, hold=hold, check=check, priority=priority))


def extend(state: State, key: str, now: float) -> None:
    """Extend a plan, because a member is being bound."""
    stage, view = state.groups.plan_of(key), state.groups.view(key)
    if stage and view:
        time = hold_time(state, view.group)
        if now + time - stage.expires >= time * ROUGHLY:
            check = now + min(time, state.settings.group.hold)
            move(state, key, "change", replace(stage, expires=now + time, hold=time, check=check))


def hold_time(state: State, group: Group | None) -> float:
    """Return how long a plan of the group reserves devices; PodGroups of Volcano have no waiting time of their own."""
    least, most = state.settings.group.hold, state.settings.group.longest_hold
    declared = group is not None and bool(group.minimum) and group.source != VOLCANO_SOURCE
    return max(least, min(group.waiting_time, most)) if group and declared else least


def is_over(deadline: float, now: float, longest: float) -> bool:
    """Return whether a deadline has passed, or the clock was set back since it was set."""
    return not now < deadline <= now + longest


def still_free(state: State, uid: str, plan: Plan, left: dict[str, Node]) -> bool:
    """Return whether the devices planned for a member are still available.

    `left` has the nodes less the parts of devices of the members that were asked about before: several may be on one.
    """
    placement = plan.placements[uid]
    node = left.get(placement.node) or state.cluster.index.nodes.get(placement.node)
    if node is None or placement.node in state.cluster.unready:
        return False
    if placement.offer is None:
        return True
    pod = state.pod(uid)
    query = state.query(pod) if pod else None
    if query is None or not query.takes(node, placement.offer):
        return False
    if in_parts(query):
        left[placement.node] = node_after(node, placement.offer, query.ask.domain, query.ask.mode)
    return True


def accepts_pods(state: State, name: str) -> bool:
    """Return whether a node is there, ready and not cordoned."""
    view = state.cluster.nodes.get(name)
    return view is not None and view.ready and not view.unschedulable


def overcommits(state: State, places: Iterable[Placement]) -> bool:
    """Return whether placements overcommit a node, counting pods whose devices are unknown."""
    query = Counter(place.node for place in places for _ in (place.offer.devices if place.offer else ()))
    nodes = [(state.cluster.index.nodes.get(name), count) for name, count in query.items()]
    return any(node and node.unattributed and node.unattributed > len(node.free()) - count for node, count in nodes)


def note_emptied(state: State, key: str, uid: str, before: Entry | None) -> None:
    """Note the devices of a member that released them."""
    if key and before and before.state in {"ASSIGNED", "RELEASING"} and state.cluster.ledger.get(uid) is None:
        state.cluster.changes.vacated.append((key, before.grant))


def release_forgotten(state: State) -> None:
    """Release what plans of groups reserve that have no members any more: these may be in other groups by now."""
    forgotten, state.cluster.changes.forgotten_groups = state.cluster.changes.forgotten_groups, []
    for key, reserved in forgotten:
        entries = (entry for each in reserved if (entry := state.cluster.ledger.get(each)))
        planned = (entry for entry in entries if entry.state == "PLANNED")
        state.cluster.ledger.drop([entry.key for entry in planned if entry.grant.plan == key or entry.purpose])


def keep_places(state: State, now: float) -> None:
    """Reserve devices of deleted members for their replacements, and release expired ones."""
    emptied, state.cluster.changes.vacated = state.cluster.changes.vacated, []
    for key, grant in emptied:
        view = state.groups.view(key)
        if view and _lacks_members(view) and grant.offer.node in state.cluster.nodes and _unclaimed(state, grant):
            _keep(state, key, grant, now)
    for key, record in state.groups.dated():
        if record.places and is_over(record.places.until, now, state.settings.group.grace):
            give_up_places(state, key)


def give_up_places(state: State, key: str) -> None:
    """Release the devices kept for replacements of a group."""
    record = state.groups.get(key)
    if record and record.places:
        state.cluster.ledger.drop_reserved(record.places.pods, "replacement")
        record.places = None
        state.groups.note_deadline(key)


def _unclaimed(state: State, grant: Grant) -> bool:
    """Return whether the grant has devices, and none of them is allocated or reserved."""
    own = set(grant.offer.devices)
    entries = state.cluster.ledger.on(grant.offer.node)
    return bool(own) and not any(own & set(entry.grant.offer.devices) for entry in entries)


def _keep(state: State, key: str, grant: Grant, now: float) -> None:
    until = now + state.settings.group.grace
    inventory, record = state.cluster.inventories.get(grant.offer.node), state.groups[key]
    entry = Entry(grant, "PLANNED", expires=until, purpose="replacement")
    state.cluster.ledger.plan([entry], inventory.allocations if inventory else ())
    record.places = KeptPlaces(until, (*(record.places.pods if record.places else ()), grant.pod))
    state.groups.note_deadline(key)


def _lacks_members(view: GroupView) -> bool:
    return view.group.total is not None and 0 < view.seen < view.group.total

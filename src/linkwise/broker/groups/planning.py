"""Plans of groups: made in steps, reserved only when complete, extended and released.

The devices of a deleted member are kept for a short time, because its replacement belongs to the same group.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.group_registry import HeldPlan, Run
from linkwise.broker.groups.planning_input import minimum_of, planning_input, read_network
from linkwise.broker.wake_ups import flush
from linkwise.engine.ledger import Entry
from linkwise.engine.planning.make_plan import make_plan
from linkwise.engine.planning.seating import takes
from linkwise.model.verdict import Grant

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from linkwise.broker.group_registry import Asked, GroupView
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Placement, Plan
    from linkwise.model.ask import Group

__all__ = [
    "agent_reported_pods",
    "current_view",
    "give_up_places",
    "hold",
    "hold_time",
    "in_backoff",
    "keep_places",
    "note_empty",
    "overcommits",
    "planning",
    "prolong",
    "release",
    "requested_of",
    "start",
    "still_free",
    "unclaimed",
]

SITES_AT_ONCE: Final = 5000
"""nodes released between two steps"""
ROUGHLY: Final = 0.1
"""extensions shorter than this share of the hold time are skipped"""


def current_view(state: State, key: str) -> GroupView | None:
    """Return the group as it is now; members that are being bound count as bound."""
    view = state.groups.gather(key)
    if view is None:
        return None
    get = state.cluster.ledger.get
    homes = {pod.uid: entry.node for pod in view.waiting if (entry := get(pod.uid)) and not entry.tentative}
    if not homes:
        return view
    under_way = [replace(pod, node=homes[pod.uid]) for pod in view.waiting if pod.uid in homes]
    waiting = tuple(pod for pod in view.waiting if pod.uid not in homes)
    return replace(view, waiting=waiting, bound=(*view.bound, *under_way))


def start(state: State, key: str, view: GroupView) -> Run:
    """Start planning the pending members, beside the bound ones."""
    return Run(key, requested_of(state, [view]), planning(state, view))


def requested_of(state: State, groups: Iterable[GroupView]) -> Asked:
    """Return what a plan for these groups must place now, to detect changes."""
    return tuple((minimum_of(state, view), tuple(pod.uid for pod in view.waiting)) for view in groups)


def hold(state: State, key: str, plan: Plan, now: float, generation: int | None = None) -> HeldPlan | None:
    """Reserve the devices of a plan; None if it is outdated, because nodes changed while it was made.

    The generation is the next one, unless the plan is restored.
    """
    ledger, book = state.cluster.ledger, state.groups
    if not all(still_free(state, uid, plan) for uid in plan.placements):
        return None
    view = book.gather(key)
    generation = book.next_generation(key) if generation is None else generation
    expires = now + hold_time(state, view.group if view else None)
    entries = []
    for uid, placement in plan.placements.items():
        pod = state.pod(uid)
        query = state.query(pod) if pod else None
        if pod is None or placement.offer is None or query is None:
            continue
        grant = Grant(uid, query.policy.name, placement.offer, key, generation, query.ask.mode)
        entries.append(Entry(grant, "PLANNED", pod.namespace, pod.created, expires=expires))
    # rule 001.hold: a complete plan reserves its devices for a limited time.
    ledger.plan(entries, agent_reported_pods(state, plan))
    for entry in entries:
        state.queue.leave_to_group(entry.pod)  # it may have been queued as an extra pod before
    priority = max((pod.priority for uid in plan.placements if (pod := state.pod(uid))), default=0)
    book.plans[key] = HeldPlan(plan, key, generation, expires, priority)
    book.short.pop(key, None)
    flush(state)
    return book.plans[key]


def prolong(state: State, key: str, now: float) -> None:
    """Extend a plan, because a member is being bound."""
    held, view = state.groups.plans.get(key), state.groups.gather(key)
    if held is None or view is None:
        return
    time = hold_time(state, view.group)
    ledger, expires = state.cluster.ledger, now + time
    if expires - held.expires < time * ROUGHLY:
        return
    entries = [entry for uid in held.plan.placements if (entry := ledger.get(uid)) and entry.state == "PLANNED"]
    ledger.plan([replace(entry, expires=expires) for entry in entries], agent_reported_pods(state, held.plan))
    state.groups.plans[key] = replace(held, expires=expires)


def release(state: State, key: str) -> list[str]:
    """Release the devices of a plan that are not being bound; return the UIDs of those members."""
    # rule 001.replan: made again for all if none is bound, else for the rest: bound members are fixed in every plan.
    held = state.groups.plans.pop(key, None)
    if held is None:
        return []
    ledger = state.cluster.ledger
    planned = [uid for uid in held.plan.placements if (entry := ledger.get(uid)) and entry.state == "PLANNED"]
    ledger.drop(planned)
    for mate in held.bundle:
        if (other := state.groups.plans.get(mate)) and key in other.bundle:
            planned += release(state, mate)
    return planned


def agent_reported_pods(state: State, plan: Plan) -> set[str]:
    """Return pods whose usage the agents of the plan's nodes report."""
    inventories = state.cluster.inventories
    return {uid for node in plan.nodes if node in inventories for uid in inventories[node].allocations}


def hold_time(state: State, group: Group | None) -> float:
    """Return how long a plan of the group reserves devices."""
    least, most = state.settings.group.hold, state.settings.group.longest_hold
    return max(least, min(group.waiting_time, most)) if group and group.minimum else least


def in_backoff(state: State, key: str, now: float) -> bool:
    """Return whether the group is in backoff; once over, it stays over if the clock is set back."""
    if key not in state.groups.rests:
        return False
    times, until = state.groups.rests[key]
    if until <= now:
        state.groups.rests[key] = (times, 0.0)
    return now < until


def still_free(state: State, uid: str, plan: Plan) -> bool:
    """Return whether the devices planned for a member are still available."""
    placement = plan.placements[uid]
    node = state.cluster.index.nodes.get(placement.node)
    if node is None or placement.node in state.cluster.unready:
        return False
    pod = state.pod(uid)
    query = state.query(pod) if pod else None
    return placement.offer is None or (query is not None and takes(node, query, placement.offer))


def overcommits(state: State, places: Iterable[Placement]) -> bool:
    """Return whether placements overcommit a node, counting pods whose devices are unknown."""
    query = Counter(place.node for place in places for _ in (place.offer.devices if place.offer else ()))
    nodes = [(state.cluster.index.nodes.get(name), count) for name, count in query.items()]
    return any(node and node.unattributed and node.unattributed > len(node.free()) - count for node, count in nodes)


def planning(state: State, view: GroupView) -> Generator[None, None, Plan | None]:
    """Compute a plan in steps; None if too few members fit."""
    network = yield from read_network(state.cluster, view.group)
    task, sites = yield from planning_input(state, view, network)
    plan = yield from make_plan(task, sites, state.hosts)
    while sites:  # releasing many thousands at once takes longer than a step may
        yield
        del sites[-SITES_AT_ONCE:]
    return plan


def note_empty(state: State, key: str, uid: str, before: Entry | None) -> None:
    """Note the devices of a member that released them."""
    if key and before and before.state in {"ASSIGNED", "RELEASING"} and state.cluster.ledger.get(uid) is None:
        state.groups.empty.append((key, before.grant))


def keep_places(state: State, now: float) -> None:
    """Reserve devices of deleted members for their replacements, and release expired ones."""
    empty, state.groups.empty = state.groups.empty, []
    for key, grant in empty:
        view = state.groups.gather(key)
        if view and _lacks_members(view) and grant.offer.node in state.cluster.nodes and unclaimed(state, grant):
            _keep(state, key, grant, now)
    for key, (until, _) in list(state.groups.places.items()):
        kept = now < until <= now + state.settings.group.grace  # else it is over, or the clock was set back
        if not kept or state.groups.gather(key) is None:
            give_up_places(state, key)


def give_up_places(state: State, key: str) -> None:
    """Release the devices kept for replacements of a group."""
    _, pods = state.groups.places.pop(key, (0.0, ()))
    state.cluster.ledger.drop([pod for pod in pods if state.cluster.ledger.get(pod)])


def unclaimed(state: State, grant: Grant) -> bool:
    """Return whether the grant has devices, and none of them is allocated or reserved."""
    own = set(grant.offer.devices)
    entries = state.cluster.ledger.on(grant.offer.node)
    return bool(own) and not any(own & set(entry.grant.offer.devices) for entry in entries)


def _keep(state: State, key: str, grant: Grant, now: float) -> None:
    pod, until = f"{grant.pod}/place", now + state.settings.group.grace
    inventory = state.cluster.inventories.get(grant.offer.node)
    entry = Entry(replace(grant, pod=pod), "PLANNED", expires=until)
    state.cluster.ledger.plan([entry], inventory.allocations if inventory else ())
    _, others = state.groups.places.get(key, (0.0, ()))
    state.groups.places[key] = (until, (*others, pod))


def _lacks_members(view: GroupView) -> bool:
    return view.group.total is not None and 0 < view.seen < view.group.total

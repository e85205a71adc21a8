"""Planning a group beside everything else that the broker does: in steps, and held only when it is whole.

The devices of a member that is gone, kept for a moment: who comes in its place belongs to the same group.
"""
# Joined from group_planning, group_places: one docstring for all.

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.group_registry import HeldPlan, Run
from linkwise.broker.groups.planning_input import minimum_of, posed, read_network
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
    "asked_of",
    "crowded",
    "gathered",
    "give_up_places",
    "hold",
    "keep_places",
    "note_empty",
    "patience",
    "planning",
    "prolong",
    "release",
    "resting",
    "start",
    "still_free",
    "told_pods",
    "unclaimed",
]

SITES_AT_ONCE: Final = 5000
"""nodes let go of between two steps"""
ROUGHLY: Final = 0.1
"""part of a plan's time that is not worth the while to add"""


def gathered(state: State, key: str) -> GroupView | None:
    """The group as it is now; who was promised devices by more than a plan counts as bound."""
    found = state.groups.gather(key)
    if found is None:
        return None
    get = state.cluster.ledger.get
    homes = {pod.uid: entry.node for pod in found.waiting if (entry := get(pod.uid)) and entry.state != "PLANNED"}
    if not homes:
        return found
    under_way = [replace(pod, node=homes[pod.uid]) for pod in found.waiting if pod.uid in homes]
    waiting = tuple(pod for pod in found.waiting if pod.uid not in homes)
    return replace(found, waiting=waiting, bound=(*found.bound, *under_way))


def start(state: State, key: str, found: GroupView) -> Run:
    """Begin to plan the members that wait, beside those that are bound."""
    return Run(key, asked_of(state, [found]), planning(state, found))


def asked_of(state: State, groups: Iterable[GroupView]) -> Asked:
    """What a plan for these groups is asked for, as they are now."""
    return tuple((minimum_of(state, found), tuple(pod.uid for pod in found.waiting)) for found in groups)


def hold(state: State, key: str, plan: Plan, now: float, generation: int | None = None) -> HeldPlan | None:
    """Let the plan count as taken; None if it can't be kept any more, because nodes changed while it was made.

    The generation is the next one, unless it was held before.
    """
    ledger, book = state.cluster.ledger, state.groups
    if not all(still_free(state, uid, plan) for uid in plan.placements):
        return None
    found = book.gather(key)
    generation = book.next_generation(key) if generation is None else generation
    expires = now + patience(state, found.group if found else None)
    entries = []
    for uid, placement in plan.placements.items():
        pod = state.pod(uid)
        wanted = state.query(pod) if pod else None
        if pod is None or placement.offer is None or wanted is None:
            continue
        grant = Grant(uid, wanted.policy.name, placement.offer, key, generation, wanted.ask.mode)
        entries.append(Entry(grant, "PLANNED", pod.namespace, pod.created, expires=expires))
    # rule 001.hold: a complete plan counts as taken for everybody else, for a limited time.
    ledger.plan(entries, told_pods(state, plan))
    for entry in entries:
        state.unschedulable.remove(entry.pod)  # one that was a pod too many before waited for room of its own
    priority = max((pod.priority for uid in plan.placements if (pod := state.pod(uid))), default=0)
    book.plans[key] = HeldPlan(plan, key, generation, expires, priority)
    book.short.pop(key, None)
    flush(state)
    return book.plans[key]


def prolong(state: State, key: str, now: float) -> None:
    """A member is being bound: the plan's time begins anew."""
    held, found = state.groups.plans.get(key), state.groups.gather(key)
    if held is None or found is None:
        return
    time = patience(state, found.group)
    ledger, expires = state.cluster.ledger, now + time
    if expires - held.expires < time * ROUGHLY:
        return
    entries = [entry for uid in held.plan.placements if (entry := ledger.get(uid)) and entry.state == "PLANNED"]
    ledger.plan([replace(entry, expires=expires) for entry in entries], told_pods(state, held.plan))
    state.groups.plans[key] = replace(held, expires=expires)


def release(state: State, key: str) -> list[str]:
    """Let go of what a plan holds and was not promised by a bind; the UIDs of those members."""
    # rule 001.replan: made anew for all if nobody is bound, else for the rest: who is bound is fixed in every plan.
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


def told_pods(state: State, plan: Plan) -> set[str]:
    """Pods of which the agents of the plan's nodes tell what they use."""
    stocks = state.cluster.inventories
    return {uid for node in plan.nodes if node in stocks for uid in stocks[node].allocations}


def patience(state: State, group: Group | None) -> float:
    """For how long a plan of the group is held."""
    least, most = state.settings.group.hold, state.settings.group.longest_hold
    return max(least, min(group.waiting_time, most)) if group and group.minimum else least


def resting(state: State, key: str, now: float) -> bool:
    """Whether the group is not planned for a while; once that is over it is, also where the clock is set back."""
    if key not in state.groups.rests:
        return False
    times, until = state.groups.rests[key]
    if until <= now:
        state.groups.rests[key] = (times, 0.0)
    return now < until


def still_free(state: State, uid: str, plan: Plan) -> bool:
    """Whether a member can still have what a plan has for it."""
    placement = plan.placements[uid]
    node = state.cluster.index.nodes.get(placement.node)
    if node is None or placement.node in state.cluster.unready:
        return False
    pod = state.pod(uid)
    wanted = state.query(pod) if pod else None
    return placement.offer is None or (wanted is not None and takes(node, wanted, placement.offer))


def crowded(state: State, places: Iterable[Placement]) -> bool:
    """Whether a node has fewer devices left than it seems: pods run there of which nobody knows which they have."""
    wanted = Counter(place.node for place in places for _ in (place.offer.devices if place.offer else ()))
    nodes = [(state.cluster.index.nodes.get(name), count) for name, count in wanted.items()]
    return any(node and node.unattributed and node.unattributed > len(node.free()) - count for node, count in nodes)


def planning(state: State, found: GroupView) -> Generator[None, None, Plan | None]:
    """Make a plan in steps; None if too few members fit."""
    network = yield from read_network(state.cluster, found.group)
    task, sites = yield from posed(state, found, network)
    plan = yield from make_plan(task, sites, state.hosts)
    while sites:  # to let go of many thousands at once takes longer than a step may
        yield
        del sites[-SITES_AT_ONCE:]
    return plan


def note_empty(state: State, key: str, uid: str, before: Entry | None) -> None:
    """A member was seen that had devices before: it may have left them."""
    if key and before and before.state in {"ASSIGNED", "RELEASING"} and state.cluster.ledger.get(uid) is None:
        state.groups.empty.append((key, before.grant))


def keep_places(state: State, now: float) -> None:
    """Hold places that were left since this was last done, and let those go whose time is over."""
    empty, state.groups.empty = state.groups.empty, []
    for key, grant in empty:
        found = state.groups.gather(key)
        if found and _lacks_members(found) and grant.offer.node in state.cluster.nodes and unclaimed(state, grant):
            _keep(state, key, grant, now)
    for key, (until, _) in list(state.groups.places.items()):
        kept = now < until <= now + state.settings.group.grace  # else it is over, or the clock was set back
        if not kept or state.groups.gather(key) is None:
            give_up_places(state, key)


def give_up_places(state: State, key: str) -> None:
    """The group is planned, or nobody came."""
    _, pods = state.groups.places.pop(key, (0.0, ()))
    state.cluster.ledger.drop([pod for pod in pods if state.cluster.ledger.get(pod)])


def unclaimed(state: State, grant: Grant) -> bool:
    """Whether there are devices, and nobody else was promised any of them."""
    own = set(grant.offer.devices)
    entries = state.cluster.ledger.on(grant.offer.node)
    return bool(own) and not any(own & set(entry.grant.offer.devices) for entry in entries)


def _keep(state: State, key: str, grant: Grant, now: float) -> None:
    pod, until = f"{grant.pod}/place", now + state.settings.group.grace
    stock = state.cluster.inventories.get(grant.offer.node)
    entry = Entry(replace(grant, pod=pod), "PLANNED", expires=until)
    state.cluster.ledger.plan([entry], stock.allocations if stock else ())
    _, others = state.groups.places.get(key, (0.0, ()))
    state.groups.places[key] = (until, (*others, pod))


def _lacks_members(found: GroupView) -> bool:
    return found.group.total is not None and 0 < found.seen < found.group.total

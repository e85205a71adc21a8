"""What time and the cluster do to groups: plans end, break or lose members, and whoever waits is woken.

Objects of the cluster that changed, and the groups that waited for that.
"""
# Joined from group_upkeep, group_news: one docstring for all.

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from linkwise.broker.effects import Event
from linkwise.broker.groups.bundles import mates_of
from linkwise.broker.groups.plan_annotations import give_up
from linkwise.broker.groups.planning import gathered, patience, prolong, resting, told_pods, unclaimed
from linkwise.broker.groups.planning_runs import wakes
from linkwise.broker.groups.stale_gangs import evictions, stale_gang
from linkwise.engine.ledger import Entry

if TYPE_CHECKING:
    from linkwise.broker.effects import Bind, Effect, Wake
    from linkwise.broker.group_registry import GroupView, HeldPlan
    from linkwise.broker.state import State
    from linkwise.model.views import NodeView, PodView

__all__ = [
    "bind_refused",
    "bound_by_plan",
    "keep_plans_true",
    "next_alarm",
    "node_changed",
    "objects_changed",
    "wake_groups",
]

FIRST_REST: Final = 5.0  # seconds
LONGEST_REST: Final = 60.0  # seconds


def keep_plans_true(state: State, now: float) -> tuple[Effect, ...]:
    """Let go of plans whose time is over, or that can't be carried out any more; their members are woken."""
    effects: list[Effect] = []
    _keep_to_the_clock(state, now)
    changed = state.cluster.index.changed_since(state.groups.checked)
    for key, held in _to_check(state, changed, now):
        if state.groups.plans.get(key) is not held:
            continue  # it was let go with another
        found = gathered(state, key)
        waiting = {pod.uid for pod in found.waiting} if found else set()
        _without_the_gone(state, held, waiting)
        if found is None or not _to_do(state, key, held):
            effects += [*_carried_out(state, key), *stale_gang(state, found, now)]
            continue
        if not waiting & held.plan.placements.keys():
            _wait_for_binds(state, key, held, now)
            continue
        broken = _broken(state, key, waiting, changed) or _too_few(state, found, held)
        if broken:
            effects += _let_go(state, found, "PlanBroken", broken, now)
            effects += wakes(state, key)
        elif held.expires <= now:
            effects += _let_go(state, found, "PlanExpired", "the plan expired before its members were bound", now)
            _rest(state, mates_of(state, key)[0], now)
    return (*effects, *evictions(state, now), *_due(state, now))


def _wait_for_binds(state: State, key: str, held: HeldPlan, now: float) -> None:
    """The last binds are under way, and no clock ends these: the plan is looked at again when as much time is over."""
    if held.expires <= now:
        prolong(state, key, now)


def _keep_to_the_clock(state: State, now: float) -> None:
    """Nothing lasts longer than it may from now on, also where the clock was set back."""
    book, latest = state.groups, now + max(1.25 * LONGEST_REST, state.settings.group.window)
    for key in [key for key, time in book.alarms.items() if time > latest]:
        book.alarms[key] = now
        if key in book.rests:
            book.rests[key] = (book.rests[key][0], now)
    for key, due in book.evicting.items():
        found = book.gather(key)
        book.evicting[key] = min(due, now + patience(state, found.group if found else None))
    for key, held in book.plans.items():
        if held.expires > now + state.settings.group.hold:
            _shorten(state, key, held, now)


def _shorten(state: State, key: str, held: HeldPlan, now: float) -> None:
    found, ledger = state.groups.gather(key), state.cluster.ledger
    latest = now + patience(state, found.group if found else None)
    if held.expires <= latest:
        return
    state.groups.plans[key] = replace(held, expires=latest)
    entries = [entry for uid in held.plan.placements if (entry := ledger.get(uid)) and entry.state == "PLANNED"]
    ledger.plan([replace(entry, expires=latest) for entry in entries], told_pods(state, held.plan))


def _to_check(state: State, changed: set[str] | None, now: float) -> list[tuple[str, HeldPlan]]:
    """Plans whose time is over, or of which members or nodes changed since this was last asked."""
    book = state.groups
    book.checked = state.cluster.index.changes
    book.homes = {key: _homes(state, key, held) for key, held in book.plans.items()}
    return [
        (key, held)
        for key, held in book.plans.items()
        if held.expires <= now or key in book.touched or changed is None or not changed.isdisjoint(book.homes[key][1])
    ]


def _homes(state: State, key: str, held: HeldPlan) -> tuple[HeldPlan, dict[str, list[str]]]:
    """The plan, and its members by node."""
    known = state.groups.homes.get(key)
    if known and known[0] is held:
        return known
    homes: dict[str, list[str]] = {}
    for uid, placement in held.plan.placements.items():
        homes.setdefault(placement.node, []).append(uid)
    return held, homes


def _to_do(state: State, key: str, held: HeldPlan) -> bool:
    """Whether any member that the plan places is not seen bound yet."""
    found = state.groups.gather(key)
    return any(pod.uid in held.plan.placements for pod in (found.waiting if found else ()))


def _carried_out(state: State, key: str) -> list[Wake]:
    """All that it places are bound or gone; who was left out is tried again."""
    state.groups.plans.pop(key)
    state.groups.rests.pop(key, None)
    state.groups.first_seen.pop(key, None)
    state.groups.avoided.pop(key, None)
    return wakes(state, key)


def _without_the_gone(state: State, held: HeldPlan, waiting: set[str]) -> None:
    """The share of members that are no more is free at once."""
    ledger = state.cluster.ledger
    gone = [uid for uid in held.plan.placements if uid not in waiting]
    ledger.drop([uid for uid in gone if (entry := ledger.get(uid)) and entry.state == "PLANNED"])


def _let_go(state: State, found: GroupView, word: str, sentence: str, now: float) -> list[Event]:
    held = state.groups.plans[found.group.key]
    mates = [mate for key in held.bundle if key in state.groups.plans and (mate := gathered(state, key))]
    give_up(state, found.group.key)
    for each in (found, *mates):
        state.groups.first_seen.pop(each.group.key, None)
    told = [Event("Warning", word, sentence, pod.namespace, pod.name, pod.uid) for pod in found.waiting]
    sentence = f"the plan of group {found.group.key}, which must start together with it, was dropped: {sentence}"
    told += [
        Event("Warning", word, sentence, pod.namespace, pod.name, pod.uid) for mate in mates for pod in mate.waiting
    ]
    over = word == "PlanExpired"
    return [*told, *(event for each in (found, *mates) for event in stale_gang(state, each, now, over=over))]


def _rest(state: State, key: str, now: float) -> None:
    """Not planned again for a while, twice as long every time; groups differ, so that they do not meet again."""
    times = state.groups.rests.get(key, (0, 0.0))[0] + 1
    spread = 0.75 + crc32(key.encode()) % 1000 / 2000
    until = now + spread * min(LONGEST_REST, FIRST_REST * 2 ** (times - 1))
    state.groups.rests[key] = (times, until)
    state.groups.alarms[key] = until


def _due(state: State, now: float) -> list[Wake]:
    """Groups whose time has come to be tried again."""
    due = [key for key, time in state.groups.alarms.items() if time <= now]
    for key in due:
        del state.groups.alarms[key]
        resting(state, key, now)  # what it waited for may be over
    return [wake for key in due for wake in wakes(state, key)]


def next_alarm(state: State) -> float | None:
    """When something is due here, if nothing happens before."""
    book = state.groups
    if not (book.under_way() or book.places):
        return None
    evicting = [due for key, due in book.evicting.items() if key not in book.plans]
    plans, places = (held.expires for held in book.plans.values()), (until for until, _ in book.places.values())
    return min((*book.alarms.values(), *plans, *places, *evicting), default=None)


def _too_few(state: State, found: GroupView, held: HeldPlan) -> str:
    """A gang that lost a member before it was bound."""
    group = found.group
    least = 0 if group.minimum is None or group.key in state.groups.satisfied else group.minimum
    there = len(found.bound) + sum(1 for pod in found.waiting if _counts(state, pod, held))
    return f"only {there} members are left, but {least} must start together" if there < least else ""


def _counts(state: State, pod: PodView, held: HeldPlan) -> bool:
    """Whether the plan lets a member start: it has a place there, or needs none; who came later has none yet."""
    return pod.uid in held.plan.placements or state.request(pod).ask is None


def _broken(state: State, key: str, waiting: set[str], changed: set[str] | None) -> str:
    """Why a plan can't be carried out any more; empty if it can. Only nodes that changed are looked at."""
    held, homes = state.groups.homes[key]
    for name in homes if changed is None else sorted(changed & homes.keys()):
        members = [uid for uid in homes[name] if uid in waiting]
        if members and not _takes_pods(state, name):
            return f"node {name} of the plan no longer accepts pods"
        for uid in members:
            entry = state.cluster.ledger.get(uid)
            if held.plan.placements[uid].offer is not None and (entry is None or not _to_be_had(state, entry)):
                return f"planned devices on node {name} are no longer available"
    return ""


def _takes_pods(state: State, name: str) -> bool:
    view = state.cluster.nodes.get(name)
    return view is not None and view.ready and not view.unschedulable


def _to_be_had(state: State, entry: Entry) -> bool:
    """Whether the devices still work, nobody else was seen on them, and pods without a record do not need them."""
    node, drift = state.cluster.index.nodes.get(entry.node), state.cluster.drift.get(entry.node, ())
    if node is None or node.unattributed > len(node.free()):
        return False
    sound = {device.id for device in node.healthy()}
    twice = any(found.kind == "twice" and entry.pod in found.pods for found in drift)
    return sound >= set(entry.grant.offer.devices) and not twice


def bound_by_plan(state: State, uid: str, now: float) -> None:
    """A member is being bound as planned: the others have time again."""
    key = state.groups.key_of(uid)
    held = state.groups.plans.get(key)
    for each in (key, *(held.bundle if held else ())):
        prolong(state, each, now)
        state.groups.evicting.pop(each, None)


def bind_refused(state: State, bound: Bind, now: float) -> None:
    """A member could not be bound: its devices are held for it as before; after some tries another node is looked for."""
    key = state.groups.key_of(bound.uid)
    state.groups.touched |= {key: None} if key else {}
    held, pod = state.groups.plans.get(key), state.pod(bound.uid)
    if held is None or bound.uid not in held.plan.placements:
        return  # a plan that was made anew while it was being bound has no place for it
    if pod is None or bound.grant is None or state.cluster.ledger.get(bound.uid):
        return
    tries = state.groups.refused[bound.uid] = state.groups.refused.get(bound.uid, 0) + 1
    entry = Entry(bound.grant, "PLANNED", pod.namespace, pod.created, expires=held.expires)
    # While the bind was under way nobody looked at what became of its node.
    there = _takes_pods(state, bound.node) and _to_be_had(state, entry)
    if tries < state.settings.rounds and there and unclaimed(state, bound.grant):
        stock = state.cluster.inventories.get(bound.node)
        state.cluster.ledger.plan([entry], stock.allocations if stock else ())
        return
    found = gathered(state, key)
    state.groups.avoided.setdefault(key, set()).add(bound.node)
    if found:
        told = _let_go(state, found, "PlanBroken", f"pod {pod.name} could not be bound to node {bound.node}", now)
        state.outbox.add((*told, *wakes(state, key)))


def wake_groups(state: State) -> list[Wake]:
    """There is room that was not there: groups that did not fit are tried again."""
    found: list[Wake] = []
    state.groups.reopened = False
    state.groups.missed |= state.runs.keys()
    for key in list(state.groups.short):
        del state.groups.short[key]
        found += wakes(state, key)
    return found


def node_changed(state: State, view: NodeView) -> None:
    """Note a node before it is seen as it is now, if it may take pods that it did not take before."""
    known = state.cluster.nodes.get(view.name)
    if known and (known.unschedulable, known.taints, known.labels) != (view.unschedulable, view.taints, view.labels):
        state.groups.reopened = True
    if known and known.allocatable != view.allocatable:
        state.groups.reopened = True


def objects_changed(state: State) -> list[Wake]:
    """PodGroups say something else, or the network is another: who may gain by that is tried again."""
    shared, book = state.cluster.shared, state.groups
    names, moved = sorted(shared.renewed), shared.moved
    shared.renewed.clear()
    shared.moved = False
    found: list[Wake] = []
    for key in [key for name in names for key in book.named(name)]:
        book.count_bound(key)
        book.touched[key] = None
        book.short.pop(key, None)
        found += wakes(state, key)
    return [*found, *wake_groups(state)] if moved else found

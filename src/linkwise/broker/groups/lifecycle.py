"""Lifecycle of plans: expiry, breakage, lost members, backoff and wake-ups.

Also retries groups when objects of the cluster that they depend on change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from linkwise.broker.effects import Event
from linkwise.broker.groups.bundles import bundle_keys
from linkwise.broker.groups.plan_annotations import give_up
from linkwise.broker.groups.planning import agent_reported_pods, current_view, hold_time, in_backoff, prolong, unclaimed
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
    "maintain_plans",
    "next_alarm",
    "node_changed",
    "objects_changed",
    "wake_groups",
]

FIRST_BACKOFF: Final = 5.0  # seconds
MAX_BACKOFF: Final = 60.0  # seconds


def maintain_plans(state: State, now: float) -> tuple[Effect, ...]:
    """Drop plans that expired or broke, and wake their members."""
    effects: list[Effect] = []
    _limit_deadlines(state, now)
    changed = state.cluster.index.changed_since(state.groups.checked)
    for key, held in _to_check(state, changed, now):
        if state.groups.plans.get(key) is not held:
            continue  # dropped with another
        view = current_view(state, key)
        waiting = {pod.uid for pod in view.waiting} if view else set()
        _release_deleted(state, held, waiting)
        if view is None or not _has_pending(state, key, held):
            effects += [*_finish(state, key), *stale_gang(state, view, now)]
            continue
        if not waiting & held.plan.placements.keys():
            _wait_for_binds(state, key, held, now)
            continue
        reason = _broken_reason(state, key, waiting, changed) or _too_few(state, view, held)
        if reason:
            effects += _drop_plan(state, view, "PlanBroken", reason, now)
            effects += wakes(state, key)
        elif held.expires <= now:
            effects += _drop_plan(state, view, "PlanExpired", "the plan expired before its members were bound", now)
            _back_off(state, bundle_keys(state, key)[0], now)
    return (*effects, *evictions(state, now), *_wake_expired(state, now))


def _wait_for_binds(state: State, key: str, held: HeldPlan, now: float) -> None:
    """Extend a plan whose last binds are in progress: these have no deadline."""
    if held.expires <= now:
        prolong(state, key, now)


def _limit_deadlines(state: State, now: float) -> None:
    """Cap all deadlines, in case the clock was set back."""
    book, latest = state.groups, now + max(1.25 * MAX_BACKOFF, state.settings.group.window)
    for key in [key for key, time in book.alarms.items() if time > latest]:
        book.alarms[key] = now
        if key in book.rests:
            book.rests[key] = (book.rests[key][0], now)
    for key, deadline in book.evicting.items():
        view = book.gather(key)
        book.evicting[key] = min(deadline, now + hold_time(state, view.group if view else None))
    for key, held in book.plans.items():
        if held.expires > now + state.settings.group.hold:
            _shorten(state, key, held, now)


def _shorten(state: State, key: str, held: HeldPlan, now: float) -> None:
    view, ledger = state.groups.gather(key), state.cluster.ledger
    latest = now + hold_time(state, view.group if view else None)
    if held.expires <= latest:
        return
    state.groups.plans[key] = replace(held, expires=latest)
    entries = [entry for uid in held.plan.placements if (entry := ledger.get(uid)) and entry.state == "PLANNED"]
    ledger.plan([replace(entry, expires=latest) for entry in entries], agent_reported_pods(state, held.plan))


def _to_check(state: State, changed: set[str] | None, now: float) -> list[tuple[str, HeldPlan]]:
    """Return plans that expired, or whose members or nodes changed since the last call."""
    book = state.groups
    book.checked = state.cluster.index.changes
    book.homes = {key: _homes(state, key, held) for key, held in book.plans.items()}
    return [
        (key, held)
        for key, held in book.plans.items()
        if held.expires <= now or key in book.touched or changed is None or not changed.isdisjoint(book.homes[key][1])
    ]


def _homes(state: State, key: str, held: HeldPlan) -> tuple[HeldPlan, dict[str, list[str]]]:
    """Return the plan and its members by node, cached per plan."""
    known = state.groups.homes.get(key)
    if known and known[0] is held:
        return known
    homes: dict[str, list[str]] = {}
    for uid, placement in held.plan.placements.items():
        homes.setdefault(placement.node, []).append(uid)
    return held, homes


def _has_pending(state: State, key: str, held: HeldPlan) -> bool:
    """Return whether a member that the plan places is not observed as bound yet."""
    view = state.groups.gather(key)
    return any(pod.uid in held.plan.placements for pod in (view.waiting if view else ()))


def _finish(state: State, key: str) -> list[Wake]:
    """Drop a plan whose members are bound or deleted, and wake members that were left out."""
    state.groups.plans.pop(key)
    state.groups.rests.pop(key, None)
    state.groups.first_seen.pop(key, None)
    state.groups.avoided.pop(key, None)
    return wakes(state, key)


def _release_deleted(state: State, held: HeldPlan, waiting: set[str]) -> None:
    """Release the devices reserved for deleted members."""
    ledger = state.cluster.ledger
    gone = [uid for uid in held.plan.placements if uid not in waiting]
    ledger.drop([uid for uid in gone if (entry := ledger.get(uid)) and entry.state == "PLANNED"])


def _drop_plan(state: State, view: GroupView, event: str, sentence: str, now: float) -> list[Event]:
    held = state.groups.plans[view.group.key]
    peers = [peer for key in held.bundle if key in state.groups.plans and (peer := current_view(state, key))]
    give_up(state, view.group.key)
    for each in (view, *peers):
        state.groups.first_seen.pop(each.group.key, None)
    events = [Event("Warning", event, sentence, pod.namespace, pod.name, pod.uid) for pod in view.waiting]
    sentence = f"the plan of group {view.group.key}, which must start together with it, was dropped: {sentence}"
    events += [
        Event("Warning", event, sentence, pod.namespace, pod.name, pod.uid) for peer in peers for pod in peer.waiting
    ]
    over = event == "PlanExpired"
    return [*events, *(event for each in (view, *peers) for event in stale_gang(state, each, now, over=over))]


def _back_off(state: State, key: str, now: float) -> None:
    """Back off exponentially, with jitter by group so that groups do not collide again."""
    times = state.groups.rests.get(key, (0, 0.0))[0] + 1
    spread = 0.75 + crc32(key.encode()) % 1000 / 2000
    until = now + spread * min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** (times - 1))
    state.groups.rests[key] = (times, until)
    state.groups.alarms[key] = until


def _wake_expired(state: State, now: float) -> list[Wake]:
    """Wake groups whose alarm has expired."""
    expired = [key for key, time in state.groups.alarms.items() if time <= now]
    for key in expired:
        del state.groups.alarms[key]
        in_backoff(state, key, now)  # what it waited for may be over
    return [wake for key in expired for wake in wakes(state, key)]


def next_alarm(state: State) -> float | None:
    """Return the next deadline of plans, alarms and evictions."""
    book = state.groups
    if not (book.under_way() or book.places):
        return None
    evicting = [deadline for key, deadline in book.evicting.items() if key not in book.plans]
    plans, places = (held.expires for held in book.plans.values()), (until for until, _ in book.places.values())
    return min((*book.alarms.values(), *plans, *places, *evicting), default=None)


def _too_few(state: State, view: GroupView, held: HeldPlan) -> str:
    """Return why a gang that lost members can't start; empty if it can."""
    group = view.group
    least = 0 if group.minimum is None or group.key in state.groups.satisfied else group.minimum
    left = len(view.bound) + sum(1 for pod in view.waiting if _counts(state, pod, held))
    return f"only {left} members are left, but {least} must start together" if left < least else ""


def _counts(state: State, pod: PodView, held: HeldPlan) -> bool:
    """Return whether the plan lets a member start: it is placed, or requests no devices."""
    return pod.uid in held.plan.placements or state.request(pod).ask is None


def _broken_reason(state: State, key: str, waiting: set[str], changed: set[str] | None) -> str:
    """Return why a plan can't be carried out any more; empty if it can. Only changed nodes are checked."""
    held, homes = state.groups.homes[key]
    for name in homes if changed is None else sorted(changed & homes.keys()):
        members = [uid for uid in homes[name] if uid in waiting]
        if members and not _accepts_pods(state, name):
            return f"node {name} of the plan no longer accepts pods"
        for uid in members:
            entry = state.cluster.ledger.get(uid)
            if held.plan.placements[uid].offer is not None and (entry is None or not _is_available(state, entry)):
                return f"planned devices on node {name} are no longer available"
    return ""


def _accepts_pods(state: State, name: str) -> bool:
    view = state.cluster.nodes.get(name)
    return view is not None and view.ready and not view.unschedulable


def _is_available(state: State, entry: Entry) -> bool:
    """Return whether the devices are healthy, unused by others, and not needed by pods without a record."""
    node, drift = state.cluster.index.nodes.get(entry.node), state.cluster.drift.get(entry.node, ())
    if node is None or node.unattributed > len(node.free()):
        return False
    healthy = {device.id for device in node.healthy()}
    twice = any(each.kind == "twice" and entry.pod in each.pods for each in drift)
    return healthy >= set(entry.grant.offer.devices) and not twice


def bound_by_plan(state: State, uid: str, now: float) -> None:
    """Extend the plan of a member that is being bound, and those of its bundle."""
    key = state.groups.key_of(uid)
    held = state.groups.plans.get(key)
    for each in (key, *(held.bundle if held else ())):
        prolong(state, each, now)
        state.groups.evicting.pop(each, None)


def bind_refused(state: State, bound: Bind, now: float) -> None:
    """Reserve the devices of a member again whose bind was refused; after some attempts, drop the plan and avoid the node."""
    key = state.groups.key_of(bound.uid)
    state.groups.touched |= {key: None} if key else {}
    held, pod = state.groups.plans.get(key), state.pod(bound.uid)
    if held is None or bound.uid not in held.plan.placements:
        return  # the group was planned again during the bind, and the new plan does not include it
    if pod is None or bound.grant is None or state.cluster.ledger.get(bound.uid):
        return
    tries = state.groups.refused[bound.uid] = state.groups.refused.get(bound.uid, 0) + 1
    entry = Entry(bound.grant, "PLANNED", pod.namespace, pod.created, expires=held.expires)
    # The node may have changed during the bind.
    available = _accepts_pods(state, bound.node) and _is_available(state, entry)
    if tries < state.settings.rounds and available and unclaimed(state, bound.grant):
        inventory = state.cluster.inventories.get(bound.node)
        state.cluster.ledger.plan([entry], inventory.allocations if inventory else ())
        return
    view = current_view(state, key)
    state.groups.avoided.setdefault(key, set()).add(bound.node)
    if view:
        events = _drop_plan(state, view, "PlanBroken", f"pod {pod.name} could not be bound to node {bound.node}", now)
        state.outbox.add((*events, *wakes(state, key)))


def wake_groups(state: State) -> list[Wake]:
    """Wake all groups that did not fit, because capacity was freed."""
    effects: list[Wake] = []
    state.groups.reopened = False
    state.groups.missed |= state.runs.keys()
    for key in list(state.groups.short):
        del state.groups.short[key]
        effects += wakes(state, key)
    return effects


def node_changed(state: State, view: NodeView) -> None:
    """Note a node change that may let pods fit that did not before."""
    known = state.cluster.nodes.get(view.name)
    if known and (known.unschedulable, known.taints, known.labels) != (view.unschedulable, view.taints, view.labels):
        state.groups.reopened = True
    if known and known.allocatable != view.allocatable:
        state.groups.reopened = True


def objects_changed(state: State) -> list[Wake]:
    """Wake groups affected by changed PodGroups or network objects."""
    changes, book = state.cluster.changes, state.groups
    names, moved = changes.take_pod_groups(), changes.take_network()
    effects: list[Wake] = []
    for key in [key for name in names for key in book.named(name)]:
        book.count_bound(key)
        book.touched[key] = None
        book.short.pop(key, None)
        effects += wakes(state, key)
    return [*effects, *wake_groups(state)] if moved else effects

"""Snapshot of the broker's state, and the state restored from it.

Tables, indexes and inventories are not stored: they are computed again. A restored broker answers as the one the snapshot
was taken of, as long as no filter reaches its budget of shapes. Running plans are not stored: their members are woken,
and the plans start again.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import group_said
from linkwise.broker.effects import Annotate, Event, Evict, Wake
from linkwise.broker.group_registry import HeldPlan, Shortage
from linkwise.broker.reconcile import observe, reconcile
from linkwise.broker.watch_events import ClusterObject, NodeObject
from linkwise.engine.planning.plan import Placement, Plan
from linkwise.engine.planning.planner import Level
from linkwise.engine.queue.queued_pod import QueuedPod
from linkwise.errors import InputError
from linkwise.model.snapshot import (
    BrokerState,
    EffectKept,
    GroupsKept,
    LevelKept,
    PlacementKept,
    PlanKept,
    ShortKept,
    Snapshot,
    ToldKept,
    Tried,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.group_registry import GroupRegistry
    from linkwise.broker.state import State
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.views import PodView

__all__ = ["Snapshot", "groups_kept", "restore", "restore_groups", "sights_of", "take"]

_EFFECTS: Final[Mapping[str, Callable[..., Effect]]] = {
    "Wake": Wake,
    "Event": Event,
    "Annotate": Annotate,
    "Evict": Evict,
}
"""effects that may wait in the outbox"""


def take(state: State, now: float) -> Snapshot:
    """Take a snapshot between two verbs; equal states give equal snapshots, whatever the order of events."""
    cluster = state.cluster
    return Snapshot(
        now,
        state.settings,
        tuple(cluster.nodes[name] for name in sorted(cluster.nodes)),
        {
            node: dict(sorted(cluster.documents(node).items()))
            for node in sorted(cluster.objects)
            if cluster.objects[node]
        },
        tuple(cluster.pods[uid] for uid in sorted(cluster.pods)),
        _kept(state, now),
        {kind: dict(sorted(named.items())) for kind, named in sorted(cluster.shared.documents.items()) if named},
    )


def restore(state: State, snapshot: Snapshot) -> None:
    """Restore a snapshot into a new state."""
    kept = snapshot.kept
    if kept is None:
        observe(state, sights_of(snapshot))
        reconcile(state, snapshot.now)
        return
    state.cluster.restore(snapshot, kept)
    _restore_queue(state, snapshot.now, kept)
    state.writer.restore(kept.times)
    restore_groups(state.groups, snapshot.pods, kept.groups, by_owner=state.settings.group.by_owner)
    state.cluster.settle()
    state.cluster.changes.forget_events()
    state.outbox.add(map(_effect, kept.late))


def sights_of(snapshot: Snapshot) -> Iterator[WatchEvent]:
    """Return the views and objects as watch events."""
    yield from snapshot.nodes
    for node, objects in snapshot.objects.items():
        yield from (NodeObject(node, kind, document) for kind, document in objects.items())
    for kind, named in snapshot.shared.items():
        yield from (ClusterObject(kind, name, document) for name, document in named.items())
    yield from snapshot.pods


def _kept(state: State, now: float) -> BrokerState:
    ledger, queued = state.cluster.ledger, sorted(state.queue, key=lambda queued: queued.uid)
    gone, changed, moved = state.cluster.remembered()
    passed: dict[str, list[str]] = {}
    for each in queued:
        for node in sorted(each.passed):
            passed.setdefault(node, []).append(each.uid)
    return BrokerState(
        entries=tuple(sorted(ledger.entries(), key=lambda entry: (entry.created, entry.pod))),
        serial=ledger.serial,
        asked=tuple(each.pod for each in queued),
        offered={each.uid: each.offered for each in queued if each.offered},
        tried={each.uid: Tried(tuple(sorted(each.failed)), each.rounds) for each in queued if each.rounds},
        unseen={each.uid: each.asked_at for each in state.queue.unobserved()},
        refused=tuple(each.uid for each in queued if each.unschedulable),
        woken={each.uid: each.woken_for for each in queued if each.woken_for},
        passed={node: tuple(pods) for node, pods in sorted(passed.items())},
        left=tuple(state.queue.untaken),
        times=dict(sorted(state.writer.times().items())),
        gone=gone,
        changed=dict(sorted(changed.items())),
        moved={pod: (drift.node, drift.believed[0]) for pod, drift in sorted(moved.items())},
        late=tuple(EffectKept(type(effect).__name__, asdict(effect)) for effect in state.outbox.effects()),
        groups=groups_kept(state.groups, state.runs, now),
    )


def _restore_queue(state: State, now: float, kept: BrokerState) -> None:
    """Restore the pods asked about; without a time, an unobserved one was asked about when the snapshot was taken."""
    known = {pod.uid for pod in kept.asked}
    if unknown := sorted(kept.unseen.keys() - known):
        raise InputError(f"pod {unknown[0]} is neither an observed pod nor one that a scheduler asked about")
    if unknown := sorted({*kept.refused, *kept.offered} - known):
        raise _not_asked_about(unknown[0])
    passed: dict[str, set[str]] = {}
    for node, uids in kept.passed.items():
        for uid in uids:
            passed.setdefault(uid, set()).add(node)
    seen, pods = state.cluster.pods, list[QueuedPod]()
    for pod in kept.asked:
        uid, query = pod.uid, state.query(pod)
        if query is None and (uid in kept.refused or uid in kept.offered):
            raise _not_asked_about(uid)
        tried = kept.tried.get(uid, Tried())
        observed = uid in seen and uid not in kept.unseen
        queued = QueuedPod(pod, query, kept.unseen.get(uid, now), observed, passed=frozenset(passed.get(uid, ())))
        queued = replace(queued, failed=frozenset(tried.nodes), rounds=tried.rounds, offered=kept.offered.get(uid, ()))
        if uid in kept.woken:
            queued = replace(queued, state="WOKEN", woken_for=kept.woken[uid])
        elif uid in kept.refused:
            queued = replace(queued, state="UNSCHEDULABLE")
        else:
            queued = replace(queued, state="NOMINATED" if queued.offered else "IN_FLIGHT")
        pods.append(queued)
    state.queue.restore(pods, [uid for uid in kept.unseen if uid in seen], kept.left)


def _not_asked_about(uid: str) -> InputError:
    return InputError(
        f"pod {uid} was offered nodes or refused, but is not a pod that a scheduler asked about and that requests devices"
    )


def _effect(kept: EffectKept) -> Effect:
    try:
        return _EFFECTS[kept.effect](**kept.fields)
    except (LookupError, TypeError) as error:
        raise InputError(f"effect {kept.effect!r} with {', '.join(kept.fields)} is unknown") from error


def groups_kept(book: GroupRegistry, running: Iterable[str], now: float) -> GroupsKept:
    """Return the state of groups beyond their pods; `running` names groups that are being planned."""
    alarms = book.alarms | {key: min(now, book.alarms.get(key, now)) for key in running}
    return GroupsKept(
        plans=tuple(_plan_kept(key, held) for key, held in book.plans.items()),
        short=tuple(ShortKept(key, short.reason, short.members, short.until) for key, short in book.short.items()),
        satisfied=tuple(sorted(book.satisfied)),
        first_seen=dict(sorted(book.first_seen.items())),
        alarms=alarms,
        rests=dict(sorted(book.rests.items())),
        refused=dict(sorted(book.refused.items())),
        avoided={key: tuple(sorted(nodes)) for key, nodes in sorted(book.avoided.items()) if nodes},
        places=dict(sorted(book.places.items())),
        told={
            key: tuple(ToldKept(uid, word, sentence) for (uid, word), sentence in sorted(said.items()))
            for key, said in sorted(book.told.items())
        },
        halved=tuple(sorted(book.halved)),
        evicting=dict(sorted(book.evicting.items())),
        evicted=tuple(sorted(book.evicted)),
        written=tuple(book.written),
        touched=tuple(book.touched),
        past=dict(sorted(book.past.items())),
        generations=dict(sorted(book.generations().items())),
    )


def restore_groups(book: GroupRegistry, pods: Iterable[PodView], kept: GroupsKept, *, by_owner: bool) -> None:
    """Restore the registry of groups, without noting changes."""
    for pod in pods:
        book.see(pod, group_said(pod, by_owner=by_owner)[0])
    book.plans = {plan.group: _held(plan) for plan in kept.plans}
    book.short = {short.group: Shortage(short.reason, short.members, short.until) for short in kept.short}
    book.satisfied = set(kept.satisfied)
    book.first_seen, book.alarms = dict(kept.first_seen), dict(kept.alarms)
    book.rests, book.refused, book.places = dict(kept.rests), dict(kept.refused), dict(kept.places)
    book.avoided = {key: set(nodes) for key, nodes in kept.avoided.items()}
    book.told = {key: {(found.pod, found.word): found.sentence for found in said} for key, said in kept.told.items()}
    book.halved, book.written = dict.fromkeys(kept.halved), dict.fromkeys(kept.written)
    book.evicting, book.evicted = dict(kept.evicting), dict.fromkeys(kept.evicted)
    book.touched = dict.fromkeys(kept.touched)
    book.past = dict(kept.past)
    for key, number in kept.generations.items():
        book.note_generation(key, number)


def _plan_kept(key: str, held: HeldPlan) -> PlanKept:
    plan = held.plan
    return PlanKept(
        key,
        tuple(PlacementKept(uid, placement.node, placement.offer) for uid, placement in plan.placements.items()),
        held.id,
        held.generation,
        held.expires,
        held.priority,
        held.bundle,
        tuple(LevelKept(level.name, level.value, level.proven) for level in plan.levels),
        plan.region,
        plan.missing,
    )


def _held(kept: PlanKept) -> HeldPlan:
    placements = {found.pod: Placement(found.node, found.offer) for found in kept.placements}
    levels = tuple(Level(level.name, level.value, level.proven) for level in kept.levels)
    plan = Plan(placements, levels, kept.region, kept.missing)
    return HeldPlan(plan, kept.id, kept.generation, kept.expires, kept.priority, kept.mates)

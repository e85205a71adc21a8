"""Snapshot of the broker's state, and the state restored from it.

Tables, indexes and inventories are not stored: they are computed again. A restored broker answers as the one the snapshot
was taken of, as long as no filter reaches its budget of shapes. Running plans are not stored: their members are woken,
and the plans start again.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import group_said
from linkwise.broker.effects import Event, Evict, Wake
from linkwise.broker.group_records import Answer, KeptPlaces
from linkwise.broker.group_stages import STAGES, BackingOff, Limits, Planning, Reserved, Unschedulable, Waiting
from linkwise.broker.groups.bundles import bundle
from linkwise.broker.groups.planning import requested_of
from linkwise.broker.groups.reservations import hold_time
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
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.group_records import GroupRecord
    from linkwise.broker.group_stages import Requested, Stage
    from linkwise.broker.state import State
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.views import PodView

__all__ = ["Snapshot", "groups_kept", "restore", "restore_groups", "sights_of", "take"]

_EFFECTS: Final[Mapping[str, Callable[..., Effect]]] = {
    "Wake": Wake,
    "Event": Event,
    "Evict": Evict,
}
"""effects that may wait in the outbox"""


_STAGES: Final[Mapping[str, type[Stage]]] = {stage.__name__: stage for stage in STAGES}
_ANSWER: Final = "answer"
"""marks the last answer to a member among the notices"""


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
        _kept(state),
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
    restore_groups(state, snapshot.pods, kept.groups)
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


def _kept(state: State) -> BrokerState:
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
        groups=groups_kept(state),
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


def groups_kept(state: State) -> GroupsKept:
    """Return the state of groups beyond their pods.

    What a group waits for and plans that are being made are not stored: these groups are reviewed again.
    """
    records = dict(sorted(state.groups.records().items()))
    unfit = state.groups.in_stage(Unschedulable)
    short = [(key, record.stage) for key, record in unfit if isinstance(record.stage, Unschedulable)]
    pending = (key for key, _ in state.groups.in_stage(Waiting, Planning))
    return GroupsKept(
        plans=tuple(_plan_kept(key, stage) for key, stage in state.groups.plans.items()),
        short=tuple(ShortKept(key, stage.reason, _members(stage.requested), stage.until) for key, stage in short),
        satisfied=tuple(key for key, record in records.items() if record.satisfied),
        first_seen={key: record.since for key, record in records.items() if record.since is not None},
        rests={
            key: (record.expirations, record.stage.until if isinstance(record.stage, BackingOff) else 0.0)
            for key, record in records.items()
            if record.expirations or isinstance(record.stage, BackingOff)
        },
        refused={
            uid: count
            for record in records.values()
            if isinstance(record.stage, Reserved)
            for uid, count in sorted(record.stage.refusals.items())
        },
        allowed={
            key: {uid: tuple(sorted(nodes)) for uid, nodes in sorted(record.limits.allowed.items())}
            for key, record in records.items()
            if record.limits.allowed
        },
        avoided={key: tuple(sorted(record.limits.avoided)) for key, record in records.items() if record.limits.avoided},
        places={key: (record.places.until, record.places.entries) for key, record in records.items() if record.places},
        told={
            key: (*_notices_kept(record), *_answers_kept(record))
            for key, record in records.items()
            if record.notices or record.answers
        },
        halved=tuple(key for key, record in records.items() if record.stale),
        evicting={key: record.eviction for key, record in records.items() if record.eviction is not None},
        evicted=tuple(sorted(state.groups.evicted)),
        touched=tuple(dict.fromkeys((*state.groups.changed, *pending))),
        generations={key: record.generation for key, record in records.items() if record.generation},
    )


def _members(requested: Requested) -> tuple[str, ...]:
    return tuple(uid for _, waiting, _ in requested for uid in waiting)


def _notices_kept(record: GroupRecord) -> list[ToldKept]:
    return [ToldKept(uid, word, sentence) for (uid, word), sentence in sorted(record.notices.items())]


def _answers_kept(record: GroupRecord) -> list[ToldKept]:
    return [
        ToldKept(uid, _ANSWER, f"{answer.stage.__name__ if answer.stage else ''} {int(answer.retry)} {answer.node}")
        for uid, answer in sorted(record.answers.items())
    ]


def _answer(text: str) -> Answer:
    stage, retry, node = text.split(" ")
    return Answer(_STAGES.get(stage), node, retry == "1")


def restore_groups(state: State, pods: Iterable[PodView], kept: GroupsKept) -> None:
    """Restore the records of groups, without noting changes."""
    groups = state.groups
    for pod in pods:
        groups.see(pod, group_said(pod, by_owner=state.settings.group.by_owner)[0])
    groups.changed, groups.evicted = {}, dict.fromkeys(kept.evicted)
    for key, record in groups.records().items():
        record.satisfied, record.since = key in kept.satisfied, kept.first_seen.get(key)
        record.expirations = kept.rests.get(key, (0, 0.0))[0]
        record.generation, record.stale = kept.generations.get(key, 0), key in kept.halved
        record.eviction = kept.evicting.get(key)
        record.places = KeptPlaces(*kept.places[key]) if key in kept.places else None
        told = kept.told.get(key, ())
        record.notices = {(each.pod, each.word): each.sentence for each in told if each.word != _ANSWER}
        record.answers = {each.pod: _answer(each.sentence) for each in told if each.word == _ANSWER}
        if kept.rests.get(key, (0, 0.0))[1]:
            record.stage = BackingOff(Reason("001.hold", kind="resting"), kept.rests[key][1])
    groups.objects_changed()
    for plan in kept.plans:
        view = groups.view(plan.group)
        if view:
            groups[plan.group].stage = _reserved(plan, kept, hold_time(state, view.group))
    for short in kept.short:
        if record_of_short := groups.get(short.group):
            requested = requested_of(bundle(state, short.group))
            same = _members(requested) == short.members
            limits = _limits(kept, short.group)
            record_of_short.stage = Unschedulable(short.reason, requested if same else (), short.until, limits)
    groups.restored()
    groups.changed = dict.fromkeys(key for key in kept.touched if key in groups)


def _plan_kept(key: str, stage: Reserved) -> PlanKept:
    plan = stage.plan
    return PlanKept(
        key,
        tuple(PlacementKept(uid, placement.node, placement.offer) for uid, placement in plan.placements.items()),
        key,
        stage.generation,
        stage.expires,
        stage.priority,
        stage.bundle,
        tuple(LevelKept(level.name, level.value, level.proven) for level in plan.levels),
        plan.region,
        plan.missing,
    )


def _limits(kept: GroupsKept, key: str) -> Limits:
    allowed = {uid: frozenset(nodes) for uid, nodes in kept.allowed.get(key, {}).items()}
    return Limits(frozenset(kept.avoided.get(key, ())), allowed)


def _reserved(kept: PlanKept, groups: GroupsKept, hold: float) -> Reserved:
    placements = {found.pod: Placement(found.node, found.offer) for found in kept.placements}
    levels = tuple(Level(level.name, level.value, level.proven) for level in kept.levels)
    plan = Plan(placements, levels, kept.region, kept.missing)
    refusals = {uid: count for uid, count in groups.refused.items() if uid in placements}
    limits = _limits(groups, kept.group)
    return Reserved(plan, kept.generation, kept.expires, hold, kept.priority, kept.mates, limits, refusals)

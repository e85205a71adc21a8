"""Snapshot of the broker's state, and the state restored from it.

The state is stored as the records that it consists of. Tables, indexes and inventories are not stored: they are computed
again. A restored broker answers as the one the snapshot was taken of, as long as no filter reaches its budget of shapes.
Plans that are being made are not stored: they start again.
"""

# ruff: noqa: TC001, TC003 - snapshots are decoded by the annotations of records

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkwise.broker.cluster.objects import MissingInventory
from linkwise.broker.effects import Effect
from linkwise.broker.reconcile import observe, reconcile
from linkwise.broker.records.bookings import Attempt, Preemption
from linkwise.broker.records.groups import GroupRecord
from linkwise.broker.watch_events import ClusterObject, NodeObject
from linkwise.engine.queue.reservation import Refused, Reservation
from linkwise.engine.queue.scheduling_queue import QueuedPod
from linkwise.engine.usage import Drift
from linkwise.errors import InputError
from linkwise.model.snapshot import Snapshot
from linkwise.model.verdict import Entry, Grant, Key, key_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.broker.state import State
    from linkwise.broker.watch_events import WatchEvent

__all__ = ["BrokerState", "capture", "inherit", "observed_by", "restore", "sights_of", "take"]


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The state of a broker that can't be derived from observed objects."""

    entries: tuple[Entry, ...] = ()
    """the ledger, oldest pod first"""
    serial: int = 0
    """number of the last bind"""
    queue: tuple[QueuedPod, ...] = ()
    """pods that schedulers asked about, by UID"""
    untaken: tuple[str, ...] = ()
    """nodes that a pod was woken for and did not take, which are not offered to others yet"""
    dropped: tuple[str, ...] = ()
    """pods that were asked about and dropped from the queue because they were not observed; the earliest first"""
    timestamps: Mapping[str, int] = field(default_factory=dict)
    """by node, the last timestamp written on one of its pods, in nanoseconds"""
    deleted: Mapping[str, bool] = field(default_factory=dict)
    """deleted pods, and whether they had terminated before; oldest first"""
    changed_grants: Mapping[str, Grant] = field(default_factory=dict)
    """the current records of bound pods whose record was changed"""
    moved: Mapping[str, Drift] = field(default_factory=dict)
    """pods that are bound to another node than the one they were assumed on"""
    outbox: tuple[Effect, ...] = ()
    """effects that leave with the next answer"""
    groups: Mapping[str, GroupRecord] = field(default_factory=dict)
    """groups that were tried, those with a plan, a reason or a deadline first and in the order of their last transition"""
    changed_groups: tuple[str, ...] = ()
    """groups whose members or objects changed, to be reviewed next"""
    evicted: tuple[str, ...] = ()
    """bound members of partially bound gangs whose eviction was requested"""
    demoted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """by group, nodes that Volcano refused and until when its plans avoid them; oldest first"""
    reservations: tuple[Reservation, ...] = ()
    """nodes that are drained, the oldest reservation first"""
    refused_reservations: Mapping[str, Refused] = field(default_factory=dict)
    """pods and groups that get no reservation for a while"""
    searched: float | None = None
    """when an owner for the next reservation was last looked for"""
    schedulers: tuple[str, ...] = ()
    """schedulers that have asked"""
    preemptions: tuple[Preemption, ...] = ()
    """evictions for groups and pods of higher priority, and the devices held for them"""
    avoided: Mapping[str, float] = field(default_factory=dict)
    """pods whose eviction for others was refused, and until when no other is requested"""
    limited: Mapping[str, bool] = field(default_factory=dict)
    """pods refused for a limit of an AcceleratorPolicy, and whether they were woken since"""
    leaving: Mapping[str, float] = field(default_factory=dict)
    """bound pods that a Volcano session evicts, and until when that counts"""
    unwritten: Mapping[str, Attempt] = field(default_factory=dict)
    """pods that Volcano bound and whose devices are not written on them yet, with the attempts to do so"""
    missing: Mapping[str, Mapping[str, MissingInventory]] = field(default_factory=dict)
    """by node and kind: objects that were deleted and are used for a grace period; annotations by name"""


def take(state: State, now: float) -> Snapshot[BrokerState]:
    """Take a snapshot between two verbs; equal states give equal snapshots, whatever the order of events."""
    return capture(state, now)()


def capture(state: State, now: float) -> Callable[[], Snapshot[BrokerState]]:
    """Copy what a snapshot consists of between two verbs, and return a function that makes the snapshot of it.

    Copying references takes milliseconds. Parsing and sorting takes a second on a large cluster, and may be done in another
    thread: all values are immutable.
    """
    cluster, settings = state.cluster, state.settings
    nodes, pods, documents = dict(cluster.nodes), dict(cluster.pods), cluster.objects.capture()
    documents_of_cluster = cluster.shared.documents | cluster.claims.documents()
    shared = {kind: dict(named) for kind, named in documents_of_cluster.items() if named}
    kept, entries = _state_of(state), tuple(cluster.ledger.entries())

    def snapshot() -> Snapshot[BrokerState]:
        return Snapshot(
            now,
            settings,
            tuple(nodes[name] for name in _sorted(nodes)),
            documents(),
            tuple(pods[uid] for uid in _sorted(pods)),
            {kind: {name: named[name] for name in _sorted(named)} for kind, named in sorted(shared.items())},
            replace(kept, entries=tuple(_oldest_first(entries))),
        )

    return snapshot


def _sorted(names: Iterable[str]) -> Iterator[str]:
    """Yield the names in their order; sorted in parts, because one long sort keeps all other threads waiting."""
    parts: dict[str, list[str]] = {}
    for name in names:
        parts.setdefault(name[:2], []).append(name)
    for part in sorted(parts):
        yield from sorted(parts[part])


def _oldest_first(entries: Iterable[Entry]) -> Iterator[Entry]:
    by_age: dict[float, list[Entry]] = {}
    for entry in entries:
        by_age.setdefault(entry.created, []).append(entry)
    for created in sorted(by_age):
        yield from sorted(by_age[created], key=lambda entry: key_order(entry.key))


def _state_of(state: State) -> BrokerState:
    """Return everything but the entries."""
    ledger = state.cluster.ledger
    deleted, changed, moved = state.cluster.remembered()
    return BrokerState(
        serial=ledger.serial,
        queue=tuple(sorted(state.queue, key=lambda queued: queued.uid)),
        untaken=tuple(state.queue.untaken),
        dropped=state.queue.dropped,
        timestamps=dict(sorted(state.writer.times().items())),
        deleted=deleted,
        changed_grants=dict(sorted(changed.items())),
        moved=dict(sorted(moved.items())),
        outbox=state.outbox.effects(),
        groups=state.groups.stored(),
        changed_groups=tuple(state.cluster.changes.groups),
        evicted=tuple(sorted(state.groups.evicted)),
        demoted={key: dict(sorted(nodes.items())) for key, nodes in state.groups.demoted.items()},
        reservations=tuple(state.reservations),
        refused_reservations=dict(sorted(state.reservations.refused.items())),
        searched=state.reservations.searched,
        schedulers=tuple(sorted(state.reservations.schedulers)),
        preemptions=tuple(record for _, record in sorted(state.preemptions.records.items())),
        avoided=dict(sorted(state.preemptions.avoided.items())),
        limited=dict(sorted(state.access.limited.items())),
        leaving=dict(sorted(state.bookings.leaving.items())),
        unwritten={uid: state.bookings.attempts.get(uid, Attempt()) for uid in sorted(state.cluster.unwritten)},
        missing=state.cluster.objects.stored(),
    )


def restore(state: State, snapshot: Snapshot[BrokerState]) -> None:
    """Restore a snapshot into a new state."""
    stored, cluster = snapshot.state, state.cluster
    if stored is None:
        observe(state, sights_of(snapshot))
        reconcile(state, snapshot.now)
        return
    _check_unique("entries", (entry.key for entry in stored.entries))
    _check_unique("queue", (queued.uid for queued in stored.queue))
    cluster.restore(snapshot, stored.deleted, stored.missing)
    cluster.ledger.restore(stored.entries, stored.serial)
    cluster.restore_drift(stored.changed_grants, stored.moved)
    cluster.unwritten.update(dict.fromkeys(stored.unwritten))
    state.bookings.restore(stored.leaving, stored.unwritten)
    pods = [_with_query(state, queued) for queued in stored.queue]
    shown = [queued.uid for queued in pods if not queued.observed and queued.uid in cluster.pods]
    state.queue.restore(pods, shown, stored.untaken, stored.dropped)
    if cluster.ledger.sharing_of:
        cluster.ledger.derive_sharing()  # the queue has pods that the watch has not delivered
    state.writer.restore(stored.timestamps)
    for pod in snapshot.pods:
        state.groups.see(pod, state.group_said(pod)[0])
    state.groups.restore(stored.groups, stored.changed_groups, stored.evicted, stored.demoted)
    state.reservations.restore(stored.reservations, stored.refused_reservations, stored.schedulers)
    state.reservations.searched = stored.searched
    state.preemptions.restore(stored.preemptions, stored.avoided)
    state.access.restore(stored.limited)
    cluster.settle()
    cluster.changes.forget_events()
    state.outbox.add(stored.outbox)


def sights_of(snapshot: Snapshot[BrokerState]) -> Iterator[WatchEvent]:
    """Return the views and objects as watch events."""
    yield from snapshot.nodes
    for node, objects in snapshot.objects.items():
        yield from (NodeObject(node, kind, document) for kind, document in objects.items())
    for kind, named in snapshot.shared.items():
        yield from (ClusterObject(kind, name, document) for name, document in named.items())
    yield from snapshot.pods


def observed_by(state: State) -> Iterator[WatchEvent]:
    """Return the views and objects of a state as watch events; it may change meanwhile."""
    cluster = state.cluster
    yield from tuple(cluster.nodes.values())
    for node, objects in tuple(cluster.objects.documents.items()):
        yield from (NodeObject(node, kind, document) for kind, document in objects.items())
    for kind, named in (cluster.shared.documents | cluster.claims.documents()).items():
        yield from (ClusterObject(kind, name, document) for name, document in tuple(named.items()))
    yield from tuple(cluster.pods.values())


def inherit(state: State, before: State) -> None:
    """Take over from another state what it observed and objects do not show: inventories that are missing, deleted pods."""
    documents, missing = before.cluster.objects.documents, before.cluster.objects.stored()
    state.cluster.objects.restore(documents, missing)
    state.cluster.changes.observed |= dict.fromkeys(missing)
    state.cluster.known.gone.update(before.cluster.known.gone)


def _with_query(state: State, queued: QueuedPod) -> QueuedPod:
    query = state.query(queued.pod)
    if query is None and (queued.offered or queued.unschedulable):
        raise InputError(f"pod {queued.uid} was offered nodes or refused, but does not request devices")
    return replace(queued, query=query)


def _check_unique(place: str, keys: Iterable[Key]) -> None:
    earlier: set[Key] = set()
    for number, key in enumerate(keys):
        if key in earlier:
            raise InputError(f"state.{place}[{number}]: duplicate: pod {str(key)!r} is listed before")
        earlier.add(key)

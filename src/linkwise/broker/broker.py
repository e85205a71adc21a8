"""Broker: the scheduler's API. Observes the cluster, answers verbs, and returns effects.

Each verb is atomic: what it assumes is in the ledger before any effect is carried out. The broker performs no I/O, does not
wait and reads no clock; `now` is seconds since the epoch, and budgets count steps.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from linkwise.broker.groups.lifecycle import wake_members
from linkwise.broker.groups.planning import advance_plans
from linkwise.broker.groups.recovery import Recovery
from linkwise.broker.groups.stale_gangs import evictable, not_evicted
from linkwise.broker.preemption import evictions
from linkwise.broker.reconcile import next_deadline, observe, reconcile, reconcile_later
from linkwise.broker.scheduling.bind import bind, outcome
from linkwise.broker.scheduling.filter import filter_nodes, prioritize
from linkwise.broker.scheduling.preempt import budget_violations, preempt
from linkwise.broker.scheduling.queries import admit, dry_plan, dry_run, preferred
from linkwise.broker.snapshot import capture, restore, take
from linkwise.broker.state import State
from linkwise.broker.unobserved import unanswered
from linkwise.broker.view import BrokerView
from linkwise.model.settings import PlacingSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.broker.answers import Admission, BindAnswer, DryRun, FilterAnswer
    from linkwise.broker.cluster.cluster_objects import Parse
    from linkwise.broker.effects import Bind, Effect
    from linkwise.broker.snapshot import BrokerState
    from linkwise.broker.state import State
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.ledger import Outcome
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.snapshot import Snapshot
    from linkwise.model.views import PodView

__all__ = ["Broker"]


class Broker(BrokerView):
    """The API for scheduler, admission, agent, command line and simulator.

    Args:
        settings: how requests are answered.
        parse: reads the JSON of objects; a faster parser pays off for many thousands of them.
    """

    def __init__(self, settings: PlacingSettings | None = None, parse: Parse = json.loads) -> None:
        super().__init__(settings or PlacingSettings(), parse)
        self._recovery = Recovery(self._state)

    def see(self, sights: Iterable[WatchEvent]) -> None:
        """Record a page of a list; consequences are computed by the next verb."""
        observe(self._state, sights)

    def observe(self, sights: Iterable[WatchEvent], now: float) -> tuple[Effect, ...]:
        """Record watch events; the order of different objects does not matter."""
        observe(self._state, sights)
        return reconcile(self._state, now)

    def admit(self, pod: PodView) -> Admission:
        """Return whether the pod's request is valid for any node."""
        return admit(self._state, pod)

    def filter(self, pod: PodView, names: Sequence[str], now: float, *, keep: bool = True) -> FilterAnswer:
        """Return nodes of the best class; with `keep=False`, for a call that leads to no bind, nothing is remembered."""
        return filter_nodes(self._state, pod, names, now, keep=keep)

    def prioritize(self, pod: PodView, names: Sequence[str], now: float) -> list[tuple[str, int]]:
        """Return a rank for every node; larger is better."""
        return prioritize(self._state, pod, names, now)

    def bind(self, uid: str, node: str, now: float) -> BindAnswer:
        """Assume devices of a node for a pod; the effects contain what to write."""
        return bind(self._state, uid, node, now)

    def outcome(self, bound: Bind, ended: Outcome, now: float) -> tuple[Effect, ...]:
        """Record the outcome of a bind: written, refused, or unknown until the pod is observed or read."""
        return outcome(self._state, bound, ended, now)

    def preempt(self, pod: PodView, victims: Mapping[str, Sequence[str]], now: float) -> dict[str, Sequence[str]]:
        """Return the nodes on which evictions would let the pod fit, with the pods to evict, by UID.

        `victims` are those that the scheduler chose; where they free the wrong devices, others are named.
        """
        reconcile_later(self._state, now)
        return preempt(self._state, pod, victims, now)

    def budget_violations(self, uids: Iterable[str]) -> int:
        """Return how many of these pods could be evicted only against a PodDisruptionBudget."""
        return budget_violations(self._state, uids)

    def preferred(
        self, node: str, available: Sequence[str], required: Sequence[str], size: int, now: float
    ) -> tuple[str, ...]:
        """Return the available devices that a node should allocate."""
        reconcile_later(self._state, now)
        return preferred(self._state, node, available, required, size)

    def dry_run(self, pod: PodView, now: float, names: Sequence[str] | None = None) -> DryRun:
        """Return where the pod would go now, by devices and all other requirements."""
        reconcile_later(self._state, now)
        return dry_run(self._state, pod, names)

    def pause_with(self, pause: Callable[[], None]) -> None:
        """Set what explanations call between small pieces of work; the state may change while it lasts."""
        self._state.pause = pause

    def state_at(self, now: float) -> State:
        """The state, reconciled; for `linkwise.explain`, which reads it and changes nothing.

        Effects of the reconciliation are returned by the next verb that returns effects.
        """
        reconcile_later(self._state, now)
        return self._state

    def dry_plan(self, pods: Sequence[PodView], now: float) -> Plan | None:
        """Return the plan for these pods as one group; None if too few of them fit."""
        reconcile_later(self._state, now)
        return dry_plan(self._state, pods)

    def book(self, uid: str, node: str, now: float) -> BindAnswer:
        """Assume devices for a pod that another scheduler will bind; the effects contain what to write."""
        return bind(self._state, uid, node, now)

    def unbook(self, uid: str, now: float) -> tuple[Effect, ...]:
        """Release devices booked for another scheduler that were not written."""
        entry = self._state.cluster.ledger.get(uid)
        for serial in entry.open if entry and entry.state == "ASSUMED" else ():  # it may have been booked again
            self._state.cluster.ledger.outcome(uid, serial, "refused")
        return reconcile(self._state, now)

    def prepare(self, nodes: int) -> bool:
        """Process changes of at most that many nodes; return whether more are left."""
        return self._state.cluster.settle_some(nodes)

    def recover(self, now: float) -> bool:
        """After the initial lists, restore or make the plans of partially bound groups, in steps; return whether more is left.

        Nothing else may be answered before it is done. Effects are returned by the next verb that returns effects.
        """
        reconcile_later(self._state, now)
        return self._recovery.advance(now)

    def restore_plans(self, now: float) -> None:
        """Restore the plans recorded on bound members, so that a reader of the cluster sees what the service reserves."""
        reconcile_later(self._state, now)
        self._recovery.restore_all(now)

    def step(self, now: float, budget: int = 1) -> tuple[Effect, ...]:
        """Reconcile, then work ahead for that many steps on tables and plans."""
        effects = reconcile(self._state, now)
        self._state.cluster.index.work_ahead(budget)
        advance_plans(self._state, now, budget)
        evictions.evict_for_preemptors(self._state, now)
        wake_members(self._state)
        return (*effects, *self._state.outbox.drain())

    def unanswered(self) -> tuple[Effect, ...]:
        """Return wake-ups after the initial list: pending pods never asked about, which a previous instance may have refused."""
        return unanswered(self._state)

    def evictable(self, uid: str) -> int | None:
        """Return the resourceVersion of a pod to evict, checked just before the call; None if it must not be evicted any more."""
        wanted = evictions.evictable(self._state, uid)
        return evictable(self._state, uid) if wanted is None else wanted

    def not_evicted(self, uid: str, now: float) -> tuple[Effect, ...]:
        """Record that an eviction failed or was dropped."""
        not_evicted(self._state, uid)
        evictions.not_evicted(self._state, uid, now)
        return reconcile(self._state, now)

    def snapshot(self, now: float) -> Snapshot[BrokerState]:
        """Return a snapshot of everything that answers depend on."""
        return take(self._state, now)

    def capture(self, now: float) -> Callable[[], Snapshot[BrokerState]]:
        """Return a function that makes a snapshot of the state as it is now; it may be called in another thread."""
        return capture(self._state, now)

    @classmethod
    def restore(cls, snapshot: Snapshot[BrokerState]) -> Broker:
        """Return a broker that answers as the one the snapshot was taken of."""
        broker = cls(snapshot.settings)
        restore(broker._state, snapshot)
        return broker

    def next_deadline(self) -> float | None:
        """Return the next deadline for `step`; 0 if there is work left."""
        return next_deadline(self._state)

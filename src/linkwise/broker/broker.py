"""The one place where words meet decisions: views in, answers and finished effects out.

Every verb runs whole: what it promises is in the ledger before anybody acts on it. Nothing here acts, waits or reads a
clock; `now` is seconds since the epoch, and budgets count steps.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from linkwise.broker.groups.planning_runs import advance_plans
from linkwise.broker.groups.stale_gangs import evictable, not_evicted
from linkwise.broker.reconcile import next_deadline, observe, reconcile, reconcile_later
from linkwise.broker.scheduling.bind import bind, outcome
from linkwise.broker.scheduling.filter import filter_nodes, prioritize
from linkwise.broker.scheduling.queries import admit, dry_plan, dry_run, preempt, preferred
from linkwise.broker.snapshot import restore, take
from linkwise.broker.state import State
from linkwise.broker.unobserved import unanswered
from linkwise.broker.view import BrokerView
from linkwise.model.settings import PlacingSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.broker.answers import Admission, BindAnswer, DryRun, FilterAnswer
    from linkwise.broker.cluster.cluster_objects import Parse
    from linkwise.broker.effects import Bind, Effect
    from linkwise.broker.state import State
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.ledger import Outcome
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.snapshot import Snapshot
    from linkwise.model.views import PodView

__all__ = ["Broker"]


class Broker(BrokerView):
    """Answers every front door: scheduler, admission, agent, command line, simulator.

    Args:
        settings: how asks are answered.
        parse: reads the JSON of objects; whoever watches many thousands of them brings a faster one.
    """

    def __init__(self, settings: PlacingSettings | None = None, parse: Parse = json.loads) -> None:
        super().__init__(settings or PlacingSettings(), parse)

    def see(self, sights: Iterable[WatchEvent]) -> None:
        """Take in a page of a list; what follows is worked out when something is observed or asked."""
        observe(self._state, sights)

    def observe(self, sights: Iterable[WatchEvent], now: float) -> tuple[Effect, ...]:
        """Take in what a watch shows; the order of different objects does not matter."""
        observe(self._state, sights)
        return reconcile(self._state, now)

    def admit(self, pod: PodView) -> Admission:
        """Whether what the pod asks for makes sense to any node at all."""
        return admit(self._state, pod)

    def filter(self, pod: PodView, names: Sequence[str], now: float, *, keep: bool = True) -> FilterAnswer:
        """Nodes of the best class; `keep=False` for a call that leads to no bind, so that nothing is remembered."""
        return filter_nodes(self._state, pod, names, now, keep=keep)

    def prioritize(self, pod: PodView, names: Sequence[str], now: float) -> list[tuple[str, int]]:
        """A rank for every name, larger is better."""
        return prioritize(self._state, pod, names, now)

    def bind(self, uid: str, node: str, now: float) -> BindAnswer:
        """Promise devices of a node to a pod; the effects say what to write."""
        return bind(self._state, uid, node, now)

    def outcome(self, bound: Bind, ended: Outcome, now: float) -> tuple[Effect, ...]:
        """How a bind ended: written, refused, or unknown until the watch or a read tells."""
        return outcome(self._state, bound, ended, now)

    def preempt(self, pod: PodView, victims: Mapping[str, Sequence[str]], now: float) -> dict[str, Sequence[str]]:
        """Those of the nodes on which evicting the pods named, by UID, would serve the ask."""
        reconcile_later(self._state, now)
        return preempt(self._state, pod, victims)

    def preferred(
        self, node: str, available: Sequence[str], required: Sequence[str], size: int, now: float
    ) -> tuple[str, ...]:
        """Which of its available devices a node should hand out."""
        reconcile_later(self._state, now)
        return preferred(self._state, node, available, required, size)

    def dry_run(self, pod: PodView, now: float, names: Sequence[str] | None = None) -> DryRun:
        """Where the pod would go now, by devices and by all else that a node must have."""
        reconcile_later(self._state, now)
        return dry_run(self._state, pod, names)

    def state_at(self, now: float) -> State:
        """The state, reconciled; for `linkwise.explain`, which reads it and changes nothing.

        Effects of the reconciliation are returned by the next verb that returns effects.
        """
        reconcile_later(self._state, now)
        return self._state

    def dry_plan(self, pods: Sequence[PodView], now: float) -> Plan | None:
        """Where these pods would go as one group; None if too few of them fit."""
        reconcile_later(self._state, now)
        return dry_plan(self._state, pods)

    def book(self, uid: str, node: str, now: float) -> BindAnswer:
        """Promise devices of a node to a pod that another scheduler will bind; the effects say what to write."""
        return bind(self._state, uid, node, now)

    def unbook(self, uid: str, now: float) -> tuple[Effect, ...]:
        """The other scheduler changed its mind: what was booked and not written is free again."""
        entry = self._state.cluster.ledger.get(uid)
        for serial in entry.open if entry and entry.state == "ASSUMED" else ():  # it may have been booked again
            self._state.cluster.ledger.outcome(uid, serial, "refused")
        return reconcile(self._state, now)

    def prepare(self, nodes: int) -> bool:
        """Work out what follows from what was seen of so many nodes; whether more are left."""
        return self._state.cluster.settle_some(nodes)

    def step(self, now: float, budget: int = 1) -> tuple[Effect, ...]:
        """Work ahead for so many steps: whatever is due, then tables that have not caught up."""
        effects = reconcile(self._state, now)
        self._state.cluster.index.work_ahead(budget)
        return (*effects, *advance_plans(self._state, now, budget), *self._state.outbox.drain())

    def unanswered(self) -> tuple[Effect, ...]:
        """Whom to wake when everything was listed: pods that wait and never asked here, since others may have refused them."""
        return unanswered(self._state)

    def evictable(self, uid: str) -> int | None:
        """The version of a pod whose eviction was asked for, asked at the last moment; None if it is not wanted any more."""
        return evictable(self._state, uid)

    def not_evicted(self, uid: str, now: float) -> tuple[Effect, ...]:
        """An eviction could not be carried out, or was not wanted any more when its turn came."""
        not_evicted(self._state, uid)
        return reconcile(self._state, now)

    def snapshot(self, now: float) -> Snapshot:
        """All that answers depend on, as a value."""
        return take(self._state, now)

    @classmethod
    def restore(cls, snapshot: Snapshot) -> Broker:
        """A broker that answers as the one would that the snapshot was taken of."""
        broker = cls(snapshot.settings)
        restore(broker._state, snapshot)
        return broker

    def next_deadline(self) -> float | None:
        """When `step` is due, if nothing happens before; 0 if something is left to do now."""
        return next_deadline(self._state)

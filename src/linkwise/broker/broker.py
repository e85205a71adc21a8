"""Broker: the scheduler's API. Observes the cluster, answers verbs, and returns effects; queries read what it knows.

Each verb is atomic: what it assumes is in the ledger before any effect is carried out. The broker performs no I/O, does not
wait and reads no clock; `now` is seconds since the epoch, and budgets count steps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import policy_reports, policy_statuses
from linkwise.broker.candidates import Candidates, misfit, needed_by
from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.effects import BindAnswer
from linkwise.broker.groups.lifecycle import claim_refused, wake_members
from linkwise.broker.groups.planning.runs import advance_plans
from linkwise.broker.groups.rank_tables import rank_tables
from linkwise.broker.groups.recovery import Recovery
from linkwise.broker.groups.stale_gangs import evictable, not_evicted
from linkwise.broker.holding import evictions
from linkwise.broker.holding.reservations import advance_reservations
from linkwise.broker.holding.reserved_devices import reserved_entry
from linkwise.broker.reconcile import next_deadline, observe, reconcile, reconcile_later
from linkwise.broker.records.members import STAGES, Planning, Unschedulable
from linkwise.broker.scheduling.bind import bind, outcome
from linkwise.broker.scheduling.filter import filter_nodes, prioritize, ranked, simulate_filter, simulate_scores
from linkwise.broker.scheduling.preempt import budget_violations, preempt
from linkwise.broker.scheduling.queries import (
    additions,
    admit,
    admit_job,
    creator,
    dry_plan,
    dry_run,
    largest_node,
    preferred,
    serving_nodes,
    split_up,
)
from linkwise.broker.snapshot import capture, inherit, observed_by, restore, take
from linkwise.broker.state import State, pod_name
from linkwise.broker.unobserved import unanswered
from linkwise.broker.volcano.bookings import book, unbook
from linkwise.broker.volcano.callbacks import invalid_job, predicate, rank, victims
from linkwise.broker.wake_ups import flush
from linkwise.model.settings import PlacingSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from linkwise.broker.access import PolicyReport
    from linkwise.broker.cluster.objects import Parse
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.effects import (
        Additions,
        Admission,
        Bind,
        DryRun,
        Effect,
        FilterAnswer,
        PolicyStatus,
        RankTable,
    )
    from linkwise.broker.snapshot import BrokerState
    from linkwise.broker.volcano.bookings import Task
    from linkwise.broker.volcano.callbacks import Fit, Job, Victims
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.ledger import Outcome
    from linkwise.engine.planning.plan import Plan
    from linkwise.engine.usage import Drift
    from linkwise.model.access_policy import Requester
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Node
    from linkwise.model.snapshot import Snapshot
    from linkwise.model.verdict import Entry, Key, Reason
    from linkwise.model.views import NodeView, PodView

__all__ = ["Broker", "BrokerView", "Counts"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Sizes of what a broker keeps, for logs and metrics."""

    nodes: int
    pods: int
    grants: int
    """pods that hold devices, or were promised some"""
    unschedulable: int
    """pods that no node could serve when they last asked"""
    offered: int
    """pods for which devices are reserved on the node that filter named, until they are bound"""
    booked: int
    """pods that another scheduler was allocated devices for, and has not bound yet"""
    plans: int
    """groups whose plan reserves devices"""
    gated: int
    """gangs with members that have our scheduling gate"""
    reservations: int
    """pods and groups for which nodes are drained"""
    reserved: int
    """devices that are kept free for them, completely or in part"""


class BrokerView:
    """The read-only queries; `Broker` adds the verbs.

    They neither reconcile nor change anything: each answers from the state as the last verb left it. Mappings are live
    views; callers read them and keep no reference to them.
    """

    def __init__(self, settings: PlacingSettings, parse: Parse) -> None:
        self._state = State(settings, parse)

    @property
    def device_changes(self) -> int:
        """The number of changes of the nodes' devices and their usage so far."""
        return self._state.cluster.index.changes

    @property
    def settings(self) -> PlacingSettings:
        """How requests are answered."""
        return self._state.settings

    def counts(self) -> Counts:
        """Sizes of what is kept."""
        state = self._state
        uids = (uid for each in state.reservations for uid, _ in each.seats)
        kept, ledger = [entry for uid in uids if (entry := reserved_entry(state, uid))], state.cluster.ledger
        return Counts(
            nodes=len(state.cluster.nodes),
            pods=len(state.cluster.pods),
            grants=len(ledger) - len(ledger.offers) - len(ledger.bookings) - len(kept),
            unschedulable=state.queue.waiting,
            offered=len(ledger.offers),
            booked=len(ledger.bookings),
            plans=len(state.groups.plans),
            gated=len(state.groups.gated(*STAGES)),
            reservations=len(state.reservations),
            reserved=len({(entry.node, device) for entry in kept for device in entry.grant.offer.devices}),
        )

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of observed namespaces."""
        return self._state.cluster.shared.namespaces

    # nodes

    @property
    def nodes(self) -> Mapping[str, NodeView]:
        """Observed nodes by name."""
        return self._state.cluster.nodes

    @property
    def inventories(self) -> Mapping[str, NodeInventory]:
        """Devices and links of each node, merged from all sources."""
        return self._state.cluster.inventories

    @property
    def usage(self) -> Mapping[str, Node]:
        """Devices of each node and what is taken of them, as policies see them."""
        return self._state.cluster.index.nodes

    @property
    def drift(self) -> Mapping[str, tuple[Drift, ...]]:
        """Records that disagree, by node."""
        return self._state.cluster.drift

    def node_object(self, node: str, kind: str) -> Mapping[str, object] | bytes | None:
        """The observed object of that kind that describes a node."""
        return self._state.cluster.objects.documents.get(node, {}).get(kind)

    # pods

    @property
    def pods(self) -> Mapping[str, PodView]:
        """Observed pods by UID."""
        return self._state.cluster.pods

    def pod(self, uid: str) -> PodView | None:
        """The pod as observed, or as the scheduler sent it if the watch has not delivered it yet."""
        return self._state.pod(uid)

    def pod_name(self, key: Key, readable: frozenset[str] | None = None) -> str:
        """Namespace and name of a pod for a reader of these namespaces, or of all; its UID if it is unknown."""
        return self._state.for_reader(readable).name_of(key)

    def find_pod(self, namespace: str, name: str) -> str:
        """The UID of an observed pod; empty if there is none of that name."""
        return self._state.cluster.known.uid_of(namespace, name)

    def uids(self) -> set[str]:
        """Every pod that is known in any way; one that a later complete list lacks was deleted."""
        return self._state.uids()

    def request(self, pod: PodView) -> PodRequest:
        """What the pod requests: devices, policy and group."""
        return self._state.request(pod)

    def entry(self, uid: str) -> Entry | None:
        """The pod's entry in the ledger."""
        return self._state.cluster.ledger.get(uid)

    def entries(self) -> Iterator[Entry]:
        """All entries of the ledger."""
        return iter(self._state.cluster.ledger.entries())

    def is_settled(self, uid: str) -> bool:
        """Whether the pod is observed as bound or deleted."""
        return self._state.cluster.is_settled(uid)

    def was_asked(self, uid: str) -> bool:
        """Whether a scheduler has asked about the pod, which is not bound yet."""
        return uid in self._state.queue

    def unfiltered(self, uid: str) -> str:
        """Why a bind that a caller asks for is refused: filter did not answer for the pod; empty if it did.

        A pod that is being bound may be bound again, and one that is unknown is for `bind` to refuse.
        """
        pod, entry = self.pod(uid), self.entry(uid)
        if pod is None or pod.node or (entry and not entry.tentative):
            return ""
        if not asks_for_devices(pod):
            advice = "set placing.every_pod if the scheduler sends every pod"
            return "" if self.settings.every_pod else f"pod {pod_name(pod)} requests no devices; {advice}"
        if uid in self._state.queue:
            return ""
        advice = "the scheduler must call filter with NodeNames first, and does so when it retries the pod"
        return f"pod {pod_name(pod)} was not filtered by this instance of the service; {advice}"

    def is_open(self, bind: Bind) -> bool:
        """Whether the outcome of a bind is still of interest."""
        entry = self.entry(bind.uid)
        return entry is not None and bind.serial in entry.open

    def misfits(self, pod: PodView) -> dict[str, Reason]:
        """Nodes that kube-scheduler's own filters reject for the pod, with the first reason."""
        demand = needed_by(self._state.cluster, pod)
        reasons = ((name, misfit(self._state.cluster, pod, demand, name)) for name in self.nodes)
        return {name: reason for name, reason in reasons if reason}

    def score(self, pod: PodView, node: str) -> tuple[str, dict[str, int]]:
        """The policy of a pod, and the terms of its score on a node; empty if it requests no devices."""
        query = self._state.query(pod)
        if query is None:
            return "", {}
        terms = Candidates(self._state, query, pod.uid).scores((node,)).get(node, ())
        return query.policy.name, dict(zip(query.policy.terms, terms, strict=False))

    def policy_reports(self) -> tuple[PolicyReport, ...]:
        """AcceleratorPolicies with what counts for them, by name."""
        return policy_reports(self._state)

    def policy_statuses(self, now: float) -> tuple[PolicyStatus, ...]:
        """Statuses of AcceleratorPolicies that differ from what the objects have."""
        return policy_statuses(self._state, now)

    def rank_tables(self) -> tuple[RankTable, ...]:
        """Return the rank tables of Ascend jobs; writing one that is written already does nothing."""
        return rank_tables(self._state)

    # groups

    def group_keys(self) -> list[str]:
        """All groups, in the order in which they were observed."""
        return self._state.groups.keys()

    def group_of(self, uid: str) -> str:
        """The key of a pod's group; empty if it has none."""
        return self._state.groups.key_of(uid)

    def bundle_of(self, key: str) -> tuple[str, ...]:
        """Gangs that start together with a group, itself among them; empty if it starts alone."""
        return self._state.groups.bundle_of(key)

    def is_planning(self, key: str) -> bool:
        """Whether the plan of a group is being computed."""
        return isinstance(self._state.groups.stage(key), Planning)

    def plans(self) -> dict[str, Plan]:
        """Plans that reserve devices, by group."""
        return {key: stage.plan for key, stage in self._state.groups.plans.items()}

    def shortage(self, key: str) -> Reason | None:
        """Why the last attempt to plan a group failed, until it is planned again."""
        stage = self._state.groups.stage(key)
        return stage.reason if isinstance(stage, Unschedulable) else None


class Broker(BrokerView):
    """The API for scheduler, admission, agent, command line and simulator.

    Args:
        settings: how requests are answered.
        parse: reads the JSON of objects; a faster parser pays off for many thousands of them.
    """

    def __init__(self, settings: PlacingSettings | None = None, parse: Parse = json.loads) -> None:
        super().__init__(settings or PlacingSettings(), parse)
        self._parse: Final = parse
        self._recovery = Recovery(self._state)
        self._since: list[WatchEvent] | None = None
        """what was observed since `start_over` began; None if it is not in progress"""

    def see(self, sights: Iterable[WatchEvent]) -> None:
        """Record a page of a list; consequences are computed by the next verb."""
        seen = tuple(sights)
        if self._since is not None:
            self._since += seen
        observe(self._state, seen)

    def stand_by(self, nodes: int) -> bool:
        """Process changes of at most that many nodes, for another instance decides; return whether more are left.

        What would follow from the changes is dropped: it is for the other instance to do, and `start_over` forgets it anyway.
        """
        state = self._state
        if state.cluster.settle_some(nodes):
            return True
        state.cluster.settle()
        state.cluster.changes.forget_consequences()
        state.outbox.drain()
        return False

    def start_over(self, objects: int = 1000) -> Iterator[None]:
        """Forget all but what was observed, in slices of that many objects: the state of an instance that has just listed the cluster.

        For a standby that takes over. What it derived in the meantime, from explanations that it was asked for and from
        the history of pods, must not count: the leader before it decided otherwise.
        """
        fresh, self._since = State(self.settings, self._parse), []
        fresh.pause = self._state.pause
        for number, sight in enumerate(observed_by(self._state)):
            observe(fresh, (sight,))
            if number % objects == objects - 1:
                yield
        inherit(fresh, self._state)
        observe(fresh, self._since)
        self._state, self._since, self._recovery = fresh, None, Recovery(fresh)

    def observe(self, sights: Iterable[WatchEvent], now: float) -> tuple[Effect, ...]:
        """Record watch events; the order of different objects does not matter."""
        observe(self._state, sights)
        return reconcile(self._state, now)

    def admit(self, pod: PodView, requester: Requester | None = None) -> Admission:
        """Return whether the pod's request is valid for any node, and permitted to the requester if it is known."""
        return admit(self._state, pod, requester)

    def largest_node(self, pod: PodView) -> int:
        """Return the most devices that a node has of those that the pod requests; 0 if no node has any."""
        query = self._state.query(pod)
        return largest_node(self._state, query) if query else 0

    def serving_nodes(self, pod: PodView) -> list[str]:
        """Return the nodes that have devices of the kind that the pod requests, in its sharing mode, free or not."""
        query = self._state.query(pod)
        return serving_nodes(self._state, query) if query else []

    def split_up(self, pod: PodView, largest: int) -> tuple[int, int]:
        """Return into how many pods the request of a pod can be split for nodes of that size, and the devices of each."""
        query = self._state.query(pod)
        return split_up(query, largest) if query else (0, 0)

    def additions(self, pod: PodView, requester: Requester, *, keep: bool = True, review: str = "") -> Additions:
        """Return what a pod gets when it is created, beside what its manifest has; `keep=False` if it is not created now.

        `review` is the UID of the admission review, which names the claim of the pod; without one it gets none.
        """
        return additions(self._state, pod, requester, keep=keep, review=review)

    def creator(self, requester: Requester) -> dict[str, str]:
        """Return the annotations that record who created a pod or a workload."""
        return creator(self._state, requester)

    def admit_job(self, tasks: Sequence[tuple[str, int, PodView]], requester: Requester | None = None) -> Admission:
        """Return whether a job is valid: each of its pods, by task name and number of pods, and its shape."""
        return admit_job(self._state, tasks, requester)

    def filter(self, pod: PodView, names: Sequence[str], now: float, *, keep: bool = True) -> FilterAnswer:
        """Return nodes of the best class; with `keep=False`, for a call that leads to no bind, nothing is remembered."""
        return filter_nodes(self._state, pod, names, now, keep=keep)

    def prioritize(self, pod: PodView, names: Sequence[str], now: float) -> list[tuple[str, int]]:
        """Return a rank for every node; larger is better."""
        return prioritize(self._state, pod, names, now)

    def simulate_filter(
        self, pod: PodView, names: Sequence[str], templates: Sequence[NodeView], now: float
    ) -> FilterAnswer:
        """Return what filter would for nodes of which some, the templates, do not exist; nothing is remembered."""
        return simulate_filter(self._state, pod, names, templates, now)

    def simulate_scores(
        self, pod: PodView, names: Sequence[str], templates: Sequence[NodeView], now: float
    ) -> dict[str, tuple[int, ...]]:
        """Return scores of suitable nodes and templates, which are comparable with those of other calls for the same pod."""
        reconcile_later(self._state, now)
        return simulate_scores(self._state, pod, names, templates)

    @staticmethod
    def simulated_ranks(names: Sequence[str], scores: Mapping[str, tuple[int, ...]]) -> list[tuple[str, int]]:
        """Return a rank for every name by its score of `simulate_scores`; larger is better."""
        return ranked(names, scores)

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

    def state_at(self, now: float, readable: frozenset[str] | None = None) -> State:
        """The state, reconciled; for `linkwise.explain`, which reads it and changes nothing.

        `readable` are the namespaces whose objects are named to the reader; None for all.
        Effects of the reconciliation are returned by the next verb that returns effects.
        """
        reconcile_later(self._state, now)
        return self._state.for_reader(readable)

    def dry_plan(self, pods: Sequence[PodView], now: float) -> Plan | None:
        """Return the plan for these pods as one group; None if too few of them fit."""
        reconcile_later(self._state, now)
        return dry_plan(self._state, pods)

    def predicate(self, pod: PodView, node: str, now: float) -> Fit:
        """Return whether a pod fits on one node now, for a scheduler that asks node by node; nothing is reserved."""
        effects = reconcile(self._state, now)
        fit = predicate(self._state, pod, node, now)
        return replace(fit, effects=(*effects, *self._state.outbox.drain()))

    def rank(self, pod: PodView, names: Sequence[str], now: float) -> dict[str, float]:
        """Return a score for every node, larger is better; for a scheduler that adds scores of its own."""
        reconcile_later(self._state, now)
        return rank(self._state, pod, names)

    def invalid_job(self, job: Job, now: float) -> str:
        """Return why a job can't be scheduled as it is; empty if it can, or if that is not known yet."""
        reconcile_later(self._state, now)
        return invalid_job(self._state, job)

    def victims(self, pod: PodView, uids: Sequence[str], now: float) -> Victims:
        """Return which of these pods must be evicted so that a pod fits on their node."""
        reconcile_later(self._state, now)
        return victims(self._state, pod, uids)

    def book(self, task: Task, now: float) -> BindAnswer:
        """Book devices of a node for a pod that another scheduler will bind; nothing is written until it is bound."""
        effects = reconcile(self._state, now)
        error = book(self._state, task, now)
        flush(self._state)
        return BindAnswer(error, (*effects, *self._state.outbox.drain()))

    def unbook(self, uid: str, now: float) -> tuple[Effect, ...]:
        """Give booked devices back; for a bound pod, note that the other scheduler evicts it."""
        effects = reconcile(self._state, now)
        unbook(self._state, uid, now)
        return (*effects, *reconcile(self._state, now))

    def prepare(self, nodes: int) -> bool:
        """Process changes of at most that many nodes; return whether more are left."""
        return self._state.cluster.settle_some(nodes)

    def recover(self, now: float) -> bool:
        """After the initial lists, restore or make the plans of partially bound groups, in steps; return whether more is left.

        Nothing else may be answered before it is done. Effects are returned by the next verb that returns effects.
        """
        self._state.recovering = True
        reconcile_later(self._state, now)
        self._state.recovering = self._recovery.advance(now)
        return self._state.recovering

    def restore_plans(self, now: float) -> None:
        """Restore the plans recorded on bound members, so that a reader of the cluster sees what the service reserves."""
        self._state.recovering = True
        reconcile_later(self._state, now)
        self._recovery.restore_all(now)
        self._state.recovering = False

    def step(self, now: float, budget: int = 1) -> tuple[Effect, ...]:
        """Reconcile, then work ahead for that many steps on tables and plans."""
        effects = reconcile(self._state, now)
        self._state.cluster.index.work_ahead(budget)
        advance_plans(self._state, now, budget)
        if self._state.groups.gated(Unschedulable):
            advance_reservations(self._state, now)  # no scheduler reports that it does not fit
        evictions.evict_for_preemptors(self._state, now)
        wake_members(self._state, now)
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

    def claim_refused(self, uid: str, sentence: str, now: float) -> tuple[Effect, ...]:
        """Record that the API server refused the claim of a pod: the plan of its group can't be carried out."""
        effects = reconcile(self._state, now)
        claim_refused(self._state, uid, sentence, now)
        return (*effects, *reconcile(self._state, now))

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

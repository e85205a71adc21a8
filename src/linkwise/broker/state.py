"""All that the broker keeps, and what every verb does first: work out what follows from what was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.cluster import Cluster
from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.node_events import node_news
from linkwise.broker.cluster.pod_request import group_said
from linkwise.broker.effects import Event, Wake
from linkwise.broker.groups.lifecycle import keep_plans_true, node_changed, objects_changed, wake_groups
from linkwise.broker.groups.notices import group_warnings
from linkwise.broker.groups.plan_annotations import note_written, take_up_plans
from linkwise.broker.groups.planning import keep_places, note_empty
from linkwise.broker.groups.registry import AT_ONCE, GroupRegistry
from linkwise.broker.groups.stale_gangs import note_halves
from linkwise.broker.scheduling.grant_annotations import Writer
from linkwise.broker.unobserved import UnobservedPods, forget_unseen, take_shown, wake_shown
from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject, PodDeleted, PodListComplete
from linkwise.dialects.registry import DIALECTS
from linkwise.engine.drift import drift_text
from linkwise.engine.feasibility import unfit
from linkwise.engine.index.node_index import Query
from linkwise.engine.planning.hosts import Hosts
from linkwise.engine.queue.offers import OfferBook
from linkwise.engine.queue.unschedulable import UnschedulablePods
from linkwise.model.views import FINISHED, PodView
from linkwise.policies.registry import policies_with

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.cluster.cluster_objects import Parse
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.effects import Effect
    from linkwise.broker.groups.planning import Run
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.queue.unschedulable import UnschedulablePod
    from linkwise.model.settings import PlacingSettings

__all__ = ["State", "pod_name"]

_BY_RESOURCE: Final = {dialect.name: dialect.by_resource for dialect in DIALECTS}


def pod_name(pod: PodView) -> str:
    """What people call a pod."""
    return f"{pod.namespace}/{pod.name}"


class State:
    """The cluster as it was seen, and what was said to whom."""

    def __init__(self, settings: PlacingSettings, parse: Parse) -> None:
        self.settings: Final = settings
        self.cluster: Final = Cluster(settings, parse)
        self.policies: Final = policies_with(settings)
        self.pending: Final = OfferBook()
        self.waiting: Final = UnschedulablePods()
        self.writer: Final = Writer()
        self.groups: Final = GroupRegistry(self.cluster.shared.completed)
        self.hosts: Final = Hosts()
        self.runs: dict[str, Run] = {}
        """plans that are being made, by group"""
        self.asked: dict[str, PodView] = {}
        """pods that asked for nodes, as they asked: a bind names only their UID"""
        self.unseen: Final = UnobservedPods()
        self.late: tuple[Effect, ...] = ()

    def see(self, sights: Iterable[WatchEvent]) -> None:
        """Note what the watch shows."""
        for sight in sights:
            match sight:
                case PodView():
                    self._see_pod(sight)
                case PodDeleted(uid):
                    self._lose_pod(uid)
                case NodeGone(name):
                    self._lose_node(name)
                case PodListComplete(uids):
                    self._keep_only(uids)
                case NodeObject(node, kind, document):
                    self.cluster.see_object(node, kind, document)
                case ClusterObject(kind, name, document):
                    self.cluster.shared.see(kind, name, document)
                    self.groups.objects_changed()
                case _:
                    node_changed(self, sight)
                    self.cluster.see_node(sight)

    def _see_pod(self, pod: PodView) -> None:
        before = self.cluster.known.namesake(pod)
        held, new = self.cluster.ledger.get(pod.uid), pod.uid not in self.cluster.pods
        if not self.cluster.see_pod(pod):
            return
        if pod.uid in self.unseen.asked:
            self.unseen.shown[pod.uid] = None
        if before:  # a name is free only when its pod is gone
            self._lose_pod(before.uid)
        group, problems = group_said(pod, by_owner=self.settings.group.by_owner)
        if group or problems or self.groups.key_of(pod.uid):
            if group and not new and not self.groups.key_of(pod.uid):
                self._join_group(pod.uid, group.key)
            self.groups.see(pod, group)
            note_empty(self, self.groups.key_of(pod.uid), pod.uid, held)
            note_written(self, pod)
            if group is None and problems and new and not pod.node:
                self.groups.alone[pod.uid] = "; ".join(f"{found.key}: {found.sentence}" for found in problems)
        if (pod.node or pod.deleting or pod.phase in FINISHED) and (not new or pod.uid in self.asked):
            self.forget(pod.uid)

    def _join_group(self, uid: str, key: str) -> None:
        """A pod that was alone is a member now: it waits no longer for room of its own, but for its group."""
        self.waiting.remove(uid)
        self.groups.alarms[key] = AT_ONCE

    def _lose_pod(self, uid: str) -> None:
        if uid:
            held, key = self.cluster.ledger.get(uid), self.groups.lose(uid)
            self.groups.evicted.pop(uid, None)
            self.cluster.lose_pod(uid)
            note_empty(self, key, uid, held)
            self.forget(uid)

    def _lose_node(self, name: str) -> None:
        self.cluster.lose_node(name)
        self.cluster.known.lose_node(name)
        self.waiting.lose_node(name)
        self.writer.forget(name)

    def _keep_only(self, uids: frozenset[str]) -> None:
        """Whoever is not in a whole list is gone, also who asked and was never shown."""
        for uid in sorted(self.uids() - uids):
            self._lose_pod(uid)

    def uids(self) -> set[str]:
        """All pods that are known in any way: seen, or asking, or holding something."""
        return {*self.cluster.pods, *self.asked, *(entry.pod for entry in self.cluster.ledger.entries())}

    def note_ask(self, pod: PodView, now: float) -> None:
        """A pod asks for nodes."""
        self.asked[pod.uid] = pod
        if pod.uid not in self.cluster.pods:
            self.unseen.note(pod.uid, now)

    def note_refused(self, refused: UnschedulablePod) -> None:
        """A pod was told that nothing fits: it is woken when something does, once it is seen."""
        if refused.pod in self.unseen.asked:
            self.unseen.refused[refused.pod] = refused
        else:
            self.waiting.put(refused)

    def forget(self, uid: str) -> None:
        """The pod is bound, or gone: what it was offered no longer matters."""
        self.pending.forget(uid)
        self.waiting.remove(uid)
        self.asked.pop(uid, None)
        self.unseen.drop(uid)

    def reconcile(self, now: float) -> tuple[Effect, ...]:
        """Work out what follows from what was seen, promised and over by now."""
        shown = take_shown(self) if self.unseen.shown else []
        if self.unseen.asked:
            forget_unseen(self, now)
        self.pending.expire(now, self.settings.pending)
        if self.groups.empty or self.groups.places:
            keep_places(self, now)
        gained = self.cluster.settle()
        news = objects_changed(self) if self.cluster.shared.renewed or self.cluster.shared.moved else []
        if self.groups.written:
            take_up_plans(self, now)
        note_halves(self, now)
        plans = keep_plans_true(self, now) if self.groups.under_way() else ()
        gained += self.cluster.settle()
        # No group was refused for the sake of what others were offered.
        wakes = wake_groups(self) if gained or self.groups.reopened else []
        fresh, again = dict.fromkeys((*gained, *self.pending.take_freed())), self.waiting.take_freed()
        wakes = [*(self._wakes(fresh, again) if self.waiting and (fresh or again) else ()), *wakes, *news]
        if shown:
            wakes += wake_shown(self, shown, (*plans, *wakes))
        late, self.late = self.late, ()
        warned = group_warnings(self) if self.groups.touched or self.groups.alone else []
        return (*late, *plans, *wakes, *warned, *self._told_of_nodes())

    def flush(self) -> None:
        """Work out what follows in the middle of a verb; whom that wakes is told with its answer."""
        gained = self.cluster.settle()
        if gained and self.waiting:
            self.late = (*self.late, *self._wakes(dict.fromkeys(gained), ()))

    def quiet_turn(self, now: float) -> None:
        """The same before an answer that carries no effects: they go out with the next that does."""
        self.late = self.reconcile(now)

    def busy(self) -> bool:
        """Whether something is left to hand out or to work out."""
        return bool(
            self.late
            or self.runs
            or self.unseen.shown
            or (self.waiting and (self.pending.freed or self.waiting.freed))
            or self.cluster.unsettled()
            or self.cluster.index.owes()
        )

    def take_late(self) -> tuple[Effect, ...]:
        """What came up since the turn, to go out with the answer itself."""
        late, self.late = self.late, ()
        return late

    def pod(self, uid: str) -> PodView | None:
        """The pod as the watch or its own ask shows it."""
        return self.cluster.pods.get(uid) or self.asked.get(uid)

    def name_of(self, uid: str) -> str:
        """What people call the pod with that UID."""
        pod = self.pod(uid)
        return pod_name(pod) if pod else uid

    def wish(self, pod: PodView) -> PodRequest:
        """What the pod wants."""
        return self.cluster.wishes.of(pod)

    def wanted(self, wish: PodRequest) -> Query | None:
        """The ask as nodes are asked it; None if the pod asks for nothing, or makes no sense."""
        if wish.ask is None:
            return None
        word = wish.ask.resource if _BY_RESOURCE[wish.dialect] else wish.dialect
        return Query(wish.ask, word, self.policies[wish.policy])

    def _wakes(self, gained: Iterable[str], again: Iterable[str]) -> list[Wake]:
        index = self.cluster.index
        fresh, others = ([index.nodes[name] for name in names if name in index.nodes] for names in (gained, again))
        serves = lambda wanted, name: not index.unserved(wanted, name)  # noqa: E731 - a question in a line
        woken = self.waiting.pods_to_wake(fresh, others, serves, self.may_go)
        return [
            Wake(found.namespace, found.name, found.pod, f"node {node} has room for it now") for found, node in woken
        ]

    def may_go(self, uid: str, name: str) -> bool:
        """Whether a pod fits on a node by all but devices and other pods: these may change before it gets there."""
        pod, view = self.pod(uid), self.cluster.nodes[name]
        if pod is None or not view.ready:
            return False
        demand = replace(demand_of(pod)[0], apart=(), together=())
        return unfit(demand, view, capacity_of(view), self.cluster.load(name)) is None

    def _told_of_nodes(self) -> list[Event]:
        if not self.cluster.drifted and not self.cluster.restocked:
            return []
        return [*self._drift_events(), *node_news(self.cluster)]

    def _drift_events(self) -> list[Event]:
        """Every disagreement once, when it appears."""
        changed, self.cluster.drifted = self.cluster.drifted, {}
        new = []
        for node, before in changed.items():
            new += [drift for drift in self.cluster.drift.get(node, ()) if drift not in before]
        return [Event("Warning", "Drift", drift_text(drift, self.name_of), node=drift.node) for drift in new]

"""Set preemption: which pods to evict so that a group fits over several nodes, or a pod on a node with scattered devices.

Only pods of strictly lower priority are evicted, gangs as a whole, and no more than a disruption budget allows. Terminating
pods count as gone. For up to eight candidates every set is considered. Beyond that, candidates are added by priority and
node until a plan exists; of these, only pods on devices of the plan are evicted, and each is spared if a plan remains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.candidates import node_without_all
from linkwise.broker.groups.bundles import alternatives
from linkwise.broker.groups.what_if import Assumption, WhatIf
from linkwise.broker.victims import Preemptor, with_gangs
from linkwise.engine.planning.plan import Placement, Plan
from linkwise.engine.preemption import EXACT, Search, covers, harm_of
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from linkwise.broker.group_members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.preemption import Harm
    from linkwise.model.views import PodView

__all__ = ["Option", "room_for_group", "room_for_pod"]

PLANS: Final = 100
"""plans that are tried for a group"""
TRIES: Final = 400
"""sets of victims that are tried for a pod"""
NODES: Final = 32
"""nodes considered for a pod, those with victims of the lowest priority first"""
_BOUND_TO_NODE: Final = ("DaemonSet", "Node")
"""owners whose pods come back to the same node"""


@dataclass(frozen=True, slots=True)
class Option:
    """Pods to evict or to wait for, and the placements that become possible."""

    plan: Plan
    victims: tuple[PodView, ...]
    """to be evicted, the members of their gangs included; empty if it is enough to wait for terminating pods"""
    leaving: frozenset[str] = frozenset()
    """terminating pods on the nodes of the plan"""


def room_for_group(state: State, views: Sequence[GroupView]) -> Option | None:
    """Return the evictions that let a group or bundle fit; None if there are none, or finding them takes too long."""
    waiting = [pod for view in views for pod in view.waiting]
    if not waiting or not all(pod.preempts for pod in waiting):
        return None
    own = {pod.uid for view in views for pod in (*view.waiting, *view.bound)}
    candidates = _Candidates(state, min(pod.priority for pod in waiting), own)
    what_ifs = [(WhatIf(state, view), left) for view, left in alternatives(views)]

    def plan(pods: Iterable[PodView]) -> Plan | None:
        gone = frozenset(pod.uid for pod in with_gangs(state, pods)) | candidates.leaving
        made = ((what_if.plan(Assumption(gone=gone)), left) for what_if, left in what_ifs)
        return next((replace(each, missing=(*each.missing, *left)) for each, left in made if each), None)

    by_uid = {pod.uid: pod for pod in candidates.pods}
    search = Search(lambda gone: plan(by_uid[uid] for uid in gone) is not None, candidates.harm, PLANS)
    victims: tuple[PodView, ...] = ()
    if plan(()) is not None:
        if not candidates.leaving:
            return None  # it fits as it is, and is planned as usual
    else:
        victims = search.victims(candidates.pods) if len(by_uid) <= EXACT else _by_plan(candidates, plan, search)
        if not victims:
            return None
    made = plan(victims)
    if made is None or any(what_if.cut for what_if, _ in what_ifs) or search.tries < 0:
        return None
    return candidates.option(made, victims)


def _by_plan(
    candidates: _Candidates, plan: Callable[[Iterable[PodView]], Plan | None], search: Search
) -> tuple[PodView, ...]:
    """Return victims among many candidates: the pods in the way of a plan on the nodes that cost least."""
    pods = candidates.by_cost()
    if plan(pods) is None:
        return ()
    low, high = 0, len(pods)
    while high - low > 1 and search.tries > 0:
        middle = (low + high) // 2
        search.tries -= 1
        low, high = (low, middle) if plan(pods[:middle]) else (middle, high)
    made = plan(pods[:high])
    used = {(place.node, device) for place in made.placements.values() for device in _devices(place)} if made else set()
    in_the_way = [pod for pod in pods[:high] if not used.isdisjoint(candidates.devices(pod))]
    chosen = in_the_way if in_the_way and plan(in_the_way) else pods[:high]
    return search.reprieve(chosen)


def _devices(place: Placement) -> tuple[str, ...]:
    return place.offer.devices if place.offer else ()


def room_for_pod(state: State, pod: PodView) -> Option | None:
    """Return the evictions on one node that let a pod fit and do the least harm; None if there are none."""
    query = state.query(pod)
    if query is None or not pod.preempts or query.policy.admit(query.ask):
        return None
    candidates = _Candidates(state, pod.priority, {pod.uid})
    preemptor = Preemptor(state, pod, query, frozenset({pod.uid}))
    tries = TRIES
    options: list[tuple[Harm, str, tuple[PodView, ...]]] = []
    for name in candidates.nodes()[:NODES]:
        if not preemptor.serves(name):
            continue

        def enough(gone: frozenset[str], name: str = name) -> bool:
            pods = with_gangs(state, (state.cluster.pods[uid] for uid in gone))
            return preemptor.fits(name, candidates.leaving.union(each.uid for each in pods))

        if enough(frozenset()):
            options.append((harm_of((), ()), name, ()))
            break
        search = Search(enough, candidates.harm, tries)
        victims = preemptor.victims(name, search, candidates.pods_on(name))
        tries = max(0, search.tries)
        if victims and (harm := candidates.harm(victims)):
            options.append((harm, name, victims))
    if not options:
        return None
    _, name, victims = min(options, key=lambda option: (option[0], option[1]))
    gone = candidates.leaving.union(each.uid for each in with_gangs(state, victims))
    node = node_without_all(state, name, gone | {pod.uid})
    offer = query.policy.pick(query.ask, node) if node else None
    if not isinstance(offer, Offer):
        return None
    return candidates.option(Plan({pod.uid: Placement(name, offer)}), victims)


class _Candidates:
    """Pods that may be evicted for a preemptor of that priority, and pods that are terminating anyway."""

    def __init__(self, state: State, priority: int, own: Collection[str]) -> None:
        self._state, self._priority, self._own = state, priority, own
        self._budgets = [*state.cluster.shared.budgets.values()]
        reserved = {pod.nominated for pod in state.cluster.pods.values() if pod.nominated and not pod.node}
        entries = [entry for entry in state.cluster.ledger.entries() if entry.state in {"ASSIGNED", "RELEASING"}]
        known = [pod for entry in entries if (pod := state.cluster.pods.get(entry.pod))]
        self.leaving = frozenset(
            pod.uid
            for pod in known
            # Others wait for these: a record of ours, or a pod that kube-scheduler nominated to the node.
            if pod.deleting and pod.node not in reserved and not state.preemptions.of_victim(pod.uid)
        )
        self.pods = [pod for pod in known if self._may_evict(pod) and self.harm([pod])]

    def _may_evict(self, pod: PodView) -> bool:
        return (
            pod.priority < self._priority
            and not pod.deleting
            and pod.uid not in self._own
            and pod.uid not in self._state.preemptions.avoided
            and not self._state.preemptions.of_victim(pod.uid)
            and not (pod.owner and pod.owner.kind in _BOUND_TO_NODE)
        )

    def harm(self, pods: Sequence[PodView]) -> Harm | None:
        """The harm of evicting pods with their gangs; None if one of these must not be evicted."""
        affected = with_gangs(self._state, pods)
        if not all(map(self._may_evict, affected)):
            return None
        harm = harm_of(affected, self._budgets)
        return None if harm.violations else harm

    def pods_on(self, name: str) -> list[PodView]:
        """The candidates on a node."""
        return [pod for pod in self.pods if pod.node == name]

    def nodes(self) -> list[str]:
        """Nodes with candidates or terminating pods, those where evictions cost least first."""
        pods: dict[str, list[PodView]] = {}
        for pod in self.pods:
            pods.setdefault(pod.node, []).append(pod)
        leaving = {self._state.cluster.pods[uid].node for uid in self.leaving}
        cost = {name: (min(pod.priority for pod in on_node), len(on_node)) for name, on_node in pods.items()}
        return sorted({*leaving, *pods}, key=lambda name: (name not in leaving, cost.get(name, (0, 0)), name))

    def by_cost(self) -> list[PodView]:
        """All candidates: by priority, then the nodes with the fewest of them; those with a disruption budget last."""
        counts: dict[tuple[int, str], int] = {}
        for pod in self.pods:
            counts[pod.priority, pod.node] = counts.get((pod.priority, pod.node), 0) + 1

        def cost(pod: PodView) -> tuple[object, ...]:
            covered = any(covers(budget, pod) for budget in self._budgets)
            return (covered, pod.priority, counts[pod.priority, pod.node], pod.node, -pod.created, pod.uid)

        return sorted(self.pods, key=cost)

    def devices(self, pod: PodView) -> set[tuple[str, str]]:
        """The devices of a candidate, with their node."""
        entry = self._state.cluster.ledger.get(pod.uid)
        return {(pod.node, device) for device in entry.grant.offer.devices} if entry else set()

    def option(self, plan: Plan, victims: Sequence[PodView]) -> Option:
        """The option to evict these pods for a plan."""
        nodes, pods = set(plan.nodes), self._state.cluster.pods
        leaving = frozenset(uid for uid in self.leaving if pods[uid].node in nodes)
        return Option(plan, tuple(with_gangs(self._state, victims)), leaving)

"""Victims: which pods to evict so that a group fits over several nodes, or a pod on a node with scattered devices.

Only pods of strictly lower priority are evicted, gangs as a whole, and no more than a disruption budget allows. Terminating
pods of lower priority count as gone. For up to eight candidates every set is considered. Beyond that, nodes are cleared of
candidates, the lowest priority and the fewest pods first, until a plan exists; on each of its nodes, only those pods are
evicted that do the least harm and let the members planned there fit. A search that is cut off evicts no pod.

A gang that falls below its minimum can't go on, so the eviction of one member may cost all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import barred_nodes
from linkwise.broker.candidates import labels_of, needed_by
from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.pods import holds_devices
from linkwise.broker.groups.planning.what_if import Assumption, WhatIf
from linkwise.broker.groups.readiness import alternatives
from linkwise.dialects.pod_resources import effective, resources_of, whole_quantity
from linkwise.engine.feasibility import unfit
from linkwise.engine.planning.plan import Placement, Plan
from linkwise.engine.preemption import EXACT, Search, covers, eviction_frees_enough, harm_of
from linkwise.engine.usage import node_after
from linkwise.errors import InputError
from linkwise.model.verdict import Offer
from linkwise.policies.memory_share import shares_on

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.preemption import Harm
    from linkwise.model.ask import Demand
    from linkwise.model.verdict import Key
    from linkwise.model.views import PodView

__all__ = ["Option", "Preemptor", "harm_in", "leaving_on", "lower_on", "room_for_group", "room_for_pod", "with_gangs"]

PLANS: Final = 2**EXACT
"""plans that are tried for a group"""
STEPS: Final = 10_000
"""planning steps for all of them, which bounds the time"""
MOST_NODES: Final = 256
"""nodes on which pods are evicted for one group"""
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
    """to be evicted, the members of their gangs included; empty if a group needs only to wait for terminating pods"""
    leaving: frozenset[str] = frozenset()
    """terminating pods on the nodes of the plan"""


def room_for_group(state: State, views: Sequence[GroupView]) -> Option | None:
    """Return the evictions that let a group or bundle fit; None if there are none, or finding them takes too long."""
    waiting = [pod for view in views for pod in view.waiting]
    if not waiting or not all(pod.preempts for pod in waiting):
        return None
    own = {pod.uid for view in views for pod in (*view.waiting, *view.bound)}
    candidates = _Candidates(state, min(pod.priority for pod in waiting), own)
    trial = _Trial(state, views, candidates.leaving)
    if trial.plan(()) is not None:
        # Without terminating pods it fits as it is, and is planned as usual.
        return candidates.option(trial.plan(()), ()) if candidates.leaving else None
    by_uid = {pod.uid: pod for pod in candidates.pods}
    victims: tuple[PodView, ...] = ()
    if len(by_uid) <= EXACT:
        victims = Search(partial(_fits, trial, by_uid), candidates.harm, PLANS).victims(candidates.pods)
    if not victims:
        trial = _Trial(state, views, candidates.leaving)
        victims = _by_nodes(state, candidates, trial, waiting)
    plan = trial.plan(victims) if victims else None
    return None if trial.exhausted else candidates.option(plan, victims)


class _Trial:
    """Plans of a group or bundle as if some pods were gone, a limited number of them."""

    def __init__(self, state: State, views: Sequence[GroupView], leaving: frozenset[str]) -> None:
        self._state, self._leaving, self._left = state, leaving, PLANS
        self._what_ifs = [(WhatIf(state, view, STEPS), left) for view, left in alternatives(views)]
        self._made: dict[frozenset[str], Plan | None] = {}

    def plan(self, pods: Iterable[PodView]) -> Plan | None:
        """Return the plan without these pods, their gangs and all terminating pods; None if too few members fit."""
        gone = frozenset(pod.uid for pod in with_gangs(self._state, pods)) | self._leaving
        if gone not in self._made:
            self._left -= 1
            made = ((what_if.plan(Assumption(gone=gone)), left) for what_if, left in self._what_ifs if self._left >= 0)
            self._made[gone] = next((replace(e, missing=(*e.missing, *left)) for e, left in made if e), None)
        return self._made[gone]

    def lack(self) -> int:
        """Return how many devices every plan needs beside the unused ones; parts of devices count as none."""
        gone = Assumption(gone=self._leaving)
        return min((_least_devices(what_if) - what_if.free(gone) for what_if, _ in self._what_ifs), default=0)

    @property
    def exhausted(self) -> bool:
        """Whether an attempt was cut off, so that pods may have been chosen in vain."""
        return self._left < 0 or any(what_if.cut for what_if, _ in self._what_ifs)


def _least_devices(what_if: WhatIf) -> int:
    sizes = sorted(member.wanted.ask.devices if member.wanted else 0 for member in what_if.members)
    return sum(sizes[: what_if.minimum])


def _by_nodes(state: State, candidates: _Candidates, trial: _Trial, waiting: Sequence[PodView]) -> tuple[PodView, ...]:
    """Return victims among many candidates: the fewest nodes of the lowest priorities, and on each what its members need."""
    queries = {pod.uid: query for pod in waiting if (query := state.query(pod))}
    size = min((query.ask.devices for query in queries.values()), default=0)
    lack = trial.lack()
    for level in sorted({pod.priority for pod in candidates.pods}):
        crowds = candidates.by_cost(level, size)[:MOST_NODES]
        count = _fewest(candidates.fewest(crowds, lack), len(crowds), partial(_fits_without, trial, crowds))
        made = trial.plan(chain(*crowds[:count])) if count else None
        if made is None:
            continue
        victims: list[PodView] = []
        for crowd in crowds[:count]:
            name = crowd[0].node
            members = [queries[uid] for uid, place in made.placements.items() if place.node == name and uid in queries]
            take_all = partial(_take_all, state, name, members, candidates.leaving)
            search = Search(take_all, candidates.harm, TRIES, candidates.free_enough(crowd, members))
            victims += search.victims(crowd) if members and not search.enough(frozenset()) else ()
        if victims and candidates.harm(victims) and trial.plan(victims):
            return tuple(victims)
        # Something other than devices stops the members: spare pods one by one, as long as plans may be tried.
        everyone = {pod.uid: pod for crowd in crowds[:count] for pod in crowd}
        whole = Search(partial(_fits, trial, everyone), candidates.harm, PLANS)
        if spared := whole.reprieve([*everyone.values()]):
            return spared
    return ()


def _fits(trial: _Trial, pods: Mapping[str, PodView], gone: frozenset[str]) -> bool:
    return trial.plan(pods[uid] for uid in gone) is not None


def _fits_without(trial: _Trial, crowds: Sequence[Sequence[PodView]], count: int) -> bool:
    return trial.plan(chain(*crowds[:count])) is not None


def _fewest(least: int, most: int, enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number from `least` to `most` for which it is enough, by doubling and halving; None if none is."""
    low, high, step = least - 1, least, 1
    while high <= most and not enough(high):
        if high == most:
            return None
        low, high, step = high, min(most, high + step), 2 * step
    if high > most:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _take_all(state: State, name: str, queries: Sequence[Query], leaving: frozenset[str], gone: frozenset[str]) -> bool:
    """Return whether a node can take these requests one after the other without some pods."""
    node = state.cluster.node_without(name, gone | leaving)
    for query in queries:
        offer = query.pick(node) if node else None
        if node is None or not isinstance(offer, Offer):
            return False
        node = node_after(node, offer, query.ask.domain, query.ask.mode)
    return True


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
            return None  # it fits when terminating pods are gone
        search = Search(enough, candidates.harm, tries)
        victims = preemptor.victims(name, search, candidates.pods_on(name))
        tries = max(0, search.tries)
        if victims and (harm := candidates.harm(victims)):
            options.append((harm, name, victims))
    if not options:
        return None
    _, name, victims = min(options, key=itemgetter(0))
    gone = candidates.leaving.union(each.uid for each in with_gangs(state, victims))
    node = state.cluster.node_without(name, gone | {pod.uid})
    offer = query.pick(node) if node else None
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
            # Others wait for some: a record of ours, or a pod that kube-scheduler nominated to the node.
            if pod.deleting
            and pod.priority < priority
            and pod.node not in reserved
            and not state.preemptions.of_victim(pod.uid)
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

    def by_cost(self, level: int, size: int) -> list[list[PodView]]:
        """The candidates up to a priority by node, the node that costs least first; none that can't free a set of that size.

        Disruption budgets come last, then it goes by the highest priority and by how many pods free so many devices.
        """
        crowds: dict[str, list[PodView]] = {}
        for pod in self.pods:
            if pod.priority <= level:
                crowds.setdefault(pod.node, []).append(pod)
        costs: list[tuple[tuple[object, ...], list[PodView]]] = []
        for name, pods in crowds.items():
            node = self._state.cluster.index.nodes.get(name)
            lack = size - len(node.free()) if node else size
            pods.sort(key=lambda pod: (pod.priority, -self._devices(pod), -pod.created, pod.uid))
            freed, needed = 0, 0
            for pod in pods:
                if freed < lack:
                    freed, needed = freed + self._devices(pod), needed + 1
            covered = any(covers(budget, pod) for budget in self._budgets for pod in pods[:needed])
            if freed >= lack:
                costs.append(((covered, pods[max(0, needed - 1)].priority, needed, name), pods))
        return [pods for _, pods in sorted(costs, key=lambda cost: cost[0])]

    def fewest(self, crowds: Sequence[Sequence[PodView]], lack: int) -> int:
        """The fewest of the first nodes whose pods have as many devices; more than there are if all have too few."""
        freed = accumulate(sum(map(self._devices, with_gangs(self._state, crowd))) for crowd in crowds)
        return next((count for count, devices in enumerate(freed, 1) if devices >= lack), len(crowds) + 1)

    def free_enough(self, crowd: Sequence[PodView], queries: Iterable[Query]) -> Callable[[frozenset[str]], bool]:
        """Return whether some pods of a node hold as many devices as these requests lack, which alone proves nothing."""
        node = self._state.cluster.node_without(crowd[0].node, self.leaving)
        lack = sum(query.ask.devices for query in queries) - (len(node.free()) if node else 0)
        held = {pod.uid: self._devices(pod) for pod in crowd}
        return lambda gone: sum(map(held.__getitem__, gone)) >= lack

    def _devices(self, pod: PodView) -> int:
        entry = self._state.cluster.ledger.get(pod.uid)
        if entry is None:
            return 0
        return entry.unrecorded_ask.devices if entry.unrecorded_ask else len(entry.grant.offer.devices)

    def option(self, plan: Plan | None, victims: Sequence[PodView]) -> Option | None:
        """The option to evict these pods for a plan; None if there is no plan."""
        if plan is None:
            return None
        nodes, pods = set(plan.nodes), self._state.cluster.pods
        leaving = frozenset(uid for uid in self.leaving if pods[uid].node in nodes)
        return Option(plan, tuple(with_gangs(self._state, victims)), leaving)


def lower_on(state: State, name: str, priority: int) -> list[PodView]:
    """The pods of a node with a lower priority that are not terminating yet."""
    return [
        pod
        for pod in state.cluster.pods_on(name)
        if pod.priority < priority and not pod.deleting and holds_devices(pod)
    ]


def leaving_on(state: State, name: str) -> frozenset[str]:
    """The pods of a node that are terminating."""
    return frozenset(pod.uid for pod in state.cluster.pods_on(name) if pod.deleting and holds_devices(pod))


def with_gangs(state: State, pods: Iterable[PodView]) -> list[PodView]:
    """The pods, and all bound members of gangs that fall below their minimum without them."""
    victims = {pod.uid: pod for pod in pods}
    keys = dict.fromkeys(key for uid in victims if (key := state.groups.key_of(uid)))
    for view in [view for key in keys if (view := state.groups.view(key))]:
        bound = [state.cluster.pods[pod.uid] for pod in view.bound if pod.uid in state.cluster.pods]
        staying = sum(pod.uid not in victims for pod in bound)
        if view.group.strict and view.group.minimum is not None and staying < view.group.minimum:
            victims |= {pod.uid: pod for pod in bound if pod.node}
    return list(victims.values())


def harm_in(state: State, pods: Sequence[PodView]) -> Harm:
    """The harm of evicting pods, the other members of their gangs included."""
    affected = with_gangs(state, pods) if any(state.groups.key_of(pod.uid) for pod in pods) else pods
    return harm_of(affected, state.cluster.shared.budgets.values())


@dataclass(slots=True)
class Preemptor:
    """A pending pod that requests devices, and the evictions that would let it fit on one node after the other."""

    state: State
    pod: PodView
    query: Query
    own: frozenset[Key] = frozenset()
    """entries of the ledger that are reserved for it"""
    _demand: Demand = field(init=False)
    _barred: Collection[str] = field(init=False)
    """nodes that access policies leave out"""
    _counts: dict[str, dict[str, tuple[int, dict[str, int]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._demand = needed_by(self.state.cluster, self.pod)
        self._barred = barred_nodes(self.state, self.pod, self.query) if self.state.access else ()

    def serves(self, name: str) -> bool:
        """Whether a node provides such devices and accepts pods."""
        cluster = self.state.cluster
        known = name in cluster.inventories and name in cluster.nodes and name not in cluster.unready
        return known and name not in self._barred and not cluster.index.unserved(self.query, name)

    def frees_devices(self, name: str, gone: Collection[str]) -> bool:
        """Whether the node has suitable devices without these pods."""
        cluster, inventory = self.state.cluster, self.state.cluster.inventories[name]
        return eviction_frees_enough(
            cluster.ledger, inventory, self.query, {*gone, *self.own}, cluster.ended_on(inventory)
        )

    def fits(self, name: str, gone: Collection[str]) -> bool:
        """Whether the pod fits on the node without these pods, by devices, counts and everything else that is known."""
        return self._fits_counts(name, gone) and self.frees_devices(name, gone) and self._fits_host(name, gone)

    def victims(self, name: str, search: Search, candidates: Sequence[PodView]) -> tuple[PodView, ...]:
        """The victims on a node that do the least harm; empty if no eviction of the candidates helps there."""
        pods, ledger = candidates, self.state.cluster.ledger
        entries = {pod.uid: entry for pod in pods if (entry := ledger.get(pod.uid))}
        with_devices = [pod for pod in pods if pod.uid in entries]
        options = []
        for device in dict.fromkeys(device for entry in entries.values() for device in entry.grant.offer.devices):
            if self.query.ask.devices:
                break
            # A part of a device must fit on a single one: only the pods of one device are evicted together.
            search.plausible = self._by_share(name, device)
            crowd = [pod for pod in with_devices if device in entries[pod.uid].grant.offer.devices]
            options += [option for option in [search.victims(crowd)] if option]
        if options:
            return min(options, key=lambda pods: (search.harm(pods), [pod.uid for pod in pods]))
        search.plausible = lambda gone: self._fits_counts(name, gone)
        # Pods without devices matter only where the pods with devices do not suffice.
        return search.victims(with_devices) or search.victims(pods)

    def _by_share(self, name: str, device: str) -> Callable[[frozenset[str]], bool]:
        """Whether a set frees enough memory of one device."""
        cluster = self.state.cluster
        inventory, leaving = cluster.inventories[name], leaving_on(self.state, name)
        known = next((each for each in inventory.devices if each.id == device), None)
        needs = shares_on(self.query.ask, known.memory, known.bytes) if known else None
        if known is None or needs is None:
            return lambda _: True  # a record that has only indices, or no memory
        freed = {
            entry.key: sum(part.share or known.memory for part in entry.grant.offer.parts if device in part.devices)
            for entry in cluster.ledger.on(name)
        }
        used = sum(share for key, share in freed.items() if key not in leaving and key not in self.own)
        needed = sum(needs) - (known.memory - used)
        return lambda gone: sum(freed.get(uid, 0) for uid in gone) >= needed

    def _fits_counts(self, name: str, gone: Collection[str]) -> bool:
        """Whether the node has enough of each countable resource, as kube-scheduler counts them."""
        if name not in self._counts:
            self._counts[name] = self._countable(name)
        return all(free + sum(by_pod.get(uid, 0) for uid in gone) >= 0 for free, by_pod in self._counts[name].values())

    def _countable(self, name: str) -> dict[str, tuple[int, dict[str, int]]]:
        """By resource: what would be left, and what each pod of the node frees."""
        view = self.state.cluster.nodes[name]
        pods = [pod for pod in self.state.cluster.pods_on(name) if holds_devices(pod)]
        counts = {}
        for resource in resources_of(self.pod):
            if "/" in resource and resource in view.allocatable:
                by_pod = {pod.uid: _count(pod, resource) for pod in pods}
                left = _whole(view.allocatable[resource]) - sum(by_pod.values()) - _count(self.pod, resource)
                counts[resource] = (left, by_pod)
        return counts

    def _fits_host(self, name: str, gone: Collection[str]) -> bool:
        cluster, view = self.state.cluster, self.state.cluster.nodes[name]
        load = cluster.load(name)
        for uid in gone:
            pod = cluster.pods.get(uid)
            if pod and pod.node == name and holds_devices(pod):
                load = load.minus(demand_of(pod)[0])

        def neighbours() -> Iterator[Neighbour]:
            return labels_of(pod for pod in cluster.pods_on(name) if pod.uid not in gone)

        return unfit(self._demand, view, capacity_of(view), load, neighbours) is None


def _count(pod: PodView, resource: str) -> int:
    try:
        return effective(pod, resource)
    except InputError:
        return 0


def _whole(text: str) -> int:
    try:
        return whole_quantity(text)
    except InputError:
        return 0

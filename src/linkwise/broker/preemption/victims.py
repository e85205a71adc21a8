"""Victims: the pods of a node that a pod of higher priority may evict, what evicting them frees, and what else ends with them.

A gang that falls below its minimum can't go on, so the eviction of one member may cost all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.broker.access.enforcement import barred_nodes
from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.host_fit import labels_of, needed_by
from linkwise.broker.cluster.pods import holds_devices
from linkwise.dialects.pod_resources import effective, resources_of, whole_quantity
from linkwise.engine.feasibility import unfit
from linkwise.engine.preemption import eviction_frees_enough, harm_of
from linkwise.errors import InputError
from linkwise.policies.memory_share import shares_on

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.preemption import Harm, Search
    from linkwise.model.demand import Demand
    from linkwise.model.views import PodView

__all__ = ["Preemptor", "harm_in", "leaving_on", "lower_on", "with_gangs"]


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
    own: frozenset[str] = frozenset()
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
            entry.pod: sum(part.share or known.memory for part in entry.grant.offer.parts if device in part.devices)
            for entry in cluster.ledger.on(name)
        }
        used = sum(share for uid, share in freed.items() if uid not in leaving and uid not in self.own)
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

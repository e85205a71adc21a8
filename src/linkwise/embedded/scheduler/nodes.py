"""Nodes as a scheduler sees them: what each has, and what the pods on it take, those included that it is about to get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.dialects.pod_resources import effective, whole_quantity
from linkwise.dialects.registry import is_native
from linkwise.errors import InputError
from linkwise.model.demand import Capacity, Load
from linkwise.model.views import NodeView

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.engine.feasibility import Neighbour
    from linkwise.model.demand import Demand
    from linkwise.model.views import PodView

__all__ = ["Host", "Hosts", "Placed", "placed_of"]

_OWN: Final = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod, and what it takes of its node."""

    view: PodView
    demand: Demand
    counts: Mapping[str, int]
    """of resources that Kubernetes only counts"""


@dataclass(slots=True)
class Host:
    """One node."""

    view: NodeView
    capacity: Capacity = field(default_factory=Capacity)
    has: Mapping[str, int] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    used: dict[str, int] = field(default_factory=dict)
    pods: dict[str, Placed] = field(default_factory=dict)

    def neighbours(self) -> Iterator[Neighbour]:
        """The pods on it, as conditions on other pods see them."""
        return ((pod.view.namespace, pod.view.labels) for pod in self.pods.values())

    def add(self, pod: Placed) -> None:
        """A pod more."""
        self.pods[pod.view.uid] = pod
        self.load = self.load.plus(pod.demand)
        for name, count in pod.counts.items():
            self.used[name] = self.used.get(name, 0) + count

    def remove(self, uid: str) -> Placed | None:
        """A pod less."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.load = self.load.minus(pod.demand)
            for name, count in pod.counts.items():
                self.used[name] -= count
        return pod

    def without(self, pods: Mapping[str, Placed]) -> Host:
        """The same node, if these pods were not there."""
        left = Host(self.view, self.capacity, self.has, self.load, dict(self.used), dict(self.pods))
        for uid in pods:
            left.remove(uid)
        return left


class Hosts:
    """All nodes, and where each pod is or is about to be."""

    def __init__(self) -> None:
        self.nodes: dict[str, Host] = {}
        self._lost: dict[str, Host] = {}
        """nodes that are gone, or not seen yet, with pods all the same"""
        self._where: dict[str, str] = {}

    def see(self, view: NodeView) -> bool:
        """A node as it is now; whether that may let somebody in."""
        known = self.nodes.get(view.name)
        host = known or self._lost.pop(view.name, None) or Host(view)
        before = known and (known.view.labels, known.view.taints, known.has, known.capacity, _open(known.view))
        host.view, host.capacity, host.has = view, capacity_of(view), _counted(view)
        self.nodes[view.name] = host
        return before != (view.labels, view.taints, host.has, host.capacity, _open(view))

    def lose(self, name: str) -> None:
        """A node is gone."""
        host = self.nodes.pop(name, None)
        if host is not None and host.pods:
            self._lost[name] = host

    def where(self, uid: str) -> str:
        """The node of a pod; empty if it has none."""
        return self._where.get(uid, "")

    def on(self, uid: str) -> Placed | None:
        """A pod that has a node."""
        host = self._host(self.where(uid))
        return host.pods.get(uid) if host else None

    def place(self, pod: Placed, node: str) -> None:
        """A pod is on a node, or about to be."""
        self.take_away(pod.view.uid)
        host = self._host(node)
        if host is None:
            host = self._lost[node] = Host(NodeView(node))
        host.add(pod)
        self._where[pod.view.uid] = node

    def take_away(self, uid: str) -> bool:
        """A pod is nowhere; whether it was somewhere."""
        node = self._where.pop(uid, "")
        host = self._host(node)
        if host is None:
            return False
        host.remove(uid)
        if not host.pods:
            self._lost.pop(node, None)
        return True

    def everybody(self) -> Iterator[Neighbour]:
        """All pods that have a node."""
        for host in self.nodes.values():
            yield from host.neighbours()

    def _host(self, name: str) -> Host | None:
        return self.nodes.get(name) or self._lost.get(name)


def placed_of(view: PodView) -> Placed:
    """What a pod takes of its node, wherever that is."""
    names = {name for found in view.containers for name in (*found.requests, *found.limits)}
    counts = {name: _count(view, name) for name in names if name not in _OWN and not is_native(name)}
    return Placed(view, demand_of(view)[0], counts)


def _count(view: PodView, name: str) -> int:
    try:
        return effective(view, name)
    except InputError:
        return 0  # the API server refuses such pods


def _counted(view: NodeView) -> dict[str, int]:
    amounts = {**view.capacity, **view.allocatable}
    return {name: _number(text) for name, text in amounts.items() if name not in _OWN}


def _number(text: str) -> int:
    try:
        return whole_quantity(text)
    except InputError:
        return 0


def _open(view: NodeView) -> tuple[bool, bool]:
    return view.unschedulable, view.ready

"""What-if plans of a group: without some pods or nodes, or with a smaller request.

Nothing is kept of them. All attempts of one explanation share one step limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.pods import holds_devices
from linkwise.broker.groups.planning.input import (
    Network,
    barred_for_all,
    planning_input,
    read_network,
    requirements_of,
    single_query,
)
from linkwise.engine.index.score_table import shape_of
from linkwise.engine.planning.make_plan import Making, make_plan
from linkwise.engine.planning.plan import NodeCapacity, Site, Task
from linkwise.engine.requirements import restricted
from linkwise.engine.usage import node_of, usage_of
from linkwise.model.ask import Load
from linkwise.model.verdict import Key, Offer, ReservedKey, pods_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code, Shape
    from linkwise.engine.planning.plan import Member, Plan
    from linkwise.model.node import Node

__all__ = ["AS_IT_IS", "Assumption", "WhatIf"]

STEPS: Final = 50_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assumption:
    """Hypothetical changes to the cluster or the group."""

    gone: frozenset[Key] = frozenset()
    """pods that are gone, and what is no longer kept free for pods"""
    but: frozenset[str] = frozenset()
    """nodes that are excluded"""
    only: frozenset[str] | None = None
    """nodes considered, beside those where pods are gone"""
    members: tuple[Member, ...] | None = None
    minimum: int | None = None
    mixed: bool = False
    anywhere: bool = False
    """whether no network domain is required"""


AS_IT_IS: Final = Assumption()


class WhatIf:
    """Plans one group under different assumptions."""

    def __init__(self, state: State, view: GroupView, steps: int = STEPS) -> None:
        self._state = state
        self._left = steps
        self.cut = False
        """whether an attempt was cut off by the step limit"""
        self._network = self._run(read_network(state.cluster, view.group)) or Network()
        task, sites = self._run(planning_input(state, view, self._network, every=True)) or (Task(()), [])
        self._task = task
        self._words = {member.wanted.word: member.wanted for member in task.members if member.wanted}
        self._sites = {site.node.name: site for site in sites}
        self._making = Making(task, (), state.hosts)
        self._positions = {name: place for place, name in enumerate(state.cluster.nodes)}
        self._without: dict[tuple[str, frozenset[Key]], Site | None] = {}
        """nodes without some of their pods"""
        self._restricted: dict[frozenset[str], dict[str, Site]] = {}
        """the sites of an `only`, which many assumptions have in common"""
        self._barred = barred_for_all(state, view) or frozenset[str]()
        """nodes that access policies leave out for every member"""
        self._required = requirements_of(task.members)
        self._serving: list[tuple[str, Node]] | None = None
        self._served_by: dict[int, frozenset[str]] = {}
        """by build of a node, the requests that it serves"""
        ledger = state.cluster.ledger
        keys: Iterator[Key] = (key for pod in view.waiting for key in (pod.uid, ReservedKey(pod.uid, "preemption")))
        self._own = frozenset(key for key in keys if (entry := ledger.get(key)) and entry.state == "PLANNED")
        self._is_single = single_query(state, view) is not None

    @property
    def members(self) -> tuple[Member, ...]:
        """The pending members."""
        return self._task.members

    @property
    def minimum(self) -> int:
        """The least number of pending members that a plan places."""
        return self._task.minimum

    @property
    def network(self) -> tuple[str, ...]:
        """Names of the network's levels, the broadest first."""
        return self._task.levels

    @property
    def required(self) -> str:
        """The narrowest level in which the group must share one domain; empty if there is none."""
        return self._task.levels[self._task.required - 1] if self._task.required else ""

    @property
    def mixed(self) -> bool:
        """Whether devices of different models may serve the group."""
        return self._task.mixed

    @property
    def held(self) -> frozenset[str]:
        """Nodes where members are bound."""
        return frozenset(name for name, site in self._sites.items() if site.held)

    def plan(self, change: Assumption = AS_IT_IS) -> Plan | None:
        """Return the plan; devices of the group's own plan count as free."""
        task = self._task
        task = replace(
            task,
            members=task.members if change.members is None else change.members,
            required=0 if change.anywhere else task.required,
            mixed=change.mixed or task.mixed,
            minimum=task.minimum if change.minimum is None else change.minimum,
        )
        sites = self._changed(change)
        if self._is_single and len(task.members) == 1 and (query := task.members[0].wanted):
            tried = (self._run(make_plan(task, [site], self._state.hosts)) for site in self._preferred(query, sites))
            return next((plan for plan in tried if plan), None)
        return self._run(make_plan(task, sites, self._state.hosts))

    def _preferred(self, query: Query, sites: Iterable[Site]) -> list[Site]:
        """Return the sites that have devices for a single pod, in the order of its policy."""
        scores: dict[Shape, Code | None] = {}
        for site in self._state.pausing(sites):
            if site.shape not in scores:
                offer = query.pick(site.node)
                scores[site.shape] = query.score(site.node, offer) if isinstance(offer, Offer) else None
        fitting = [(score, site) for site in sites if (score := scores[site.shape]) is not None]
        fitting.sort(key=lambda entry: entry[1].node.name)
        return [site for _, site in sorted(fitting, key=lambda entry: entry[0], reverse=True)]

    def whole(self, change: Assumption = AS_IT_IS) -> Plan | None:
        """Return the plan for all members; None if not all fit."""
        members = self.members if change.members is None else change.members
        plan = self.plan(replace(change, members=members, minimum=len(members)))
        return None if plan is None or plan.missing else plan

    def fits(self, change: Assumption) -> bool:
        """Return whether all members may fit: fast, exact for no, optimistic for yes."""
        return bool(self._run(self._making.all_fit(self._changed(change))))

    def free(self, change: Assumption) -> int:
        """Return the number of unused devices on all nodes that could serve the group."""
        return sum(len(site.node.free()) for site in self._state.pausing(self._changed(change)))

    def planned(self) -> frozenset[str]:
        """Return the nodes on which the group's own plan reserves devices."""
        ledger = self._state.cluster.ledger
        return frozenset(entry.node for key in self._own if (entry := ledger.get(key)))

    def serving(self) -> list[tuple[str, Node]]:
        """Return nodes that provide such devices, without the group's own plan."""
        if self._serving is None:
            nodes = list(self._state.cluster.index.nodes.items())
            changed = {site.node.name: site.node for site in self._changed(AS_IT_IS)}
            self._serving = [(name, changed.get(name, node)) for name, node in nodes if self._served(name)]
        return self._serving

    def kind(self, name: str) -> tuple[object, ...]:
        """Return a key of nodes that are interchangeable for a plan, apart from other resources."""
        index, view = self._state.cluster.index, self._state.cluster.nodes[name]
        node = self._sites[name].node if name in self._sites else index.nodes[name]
        return (index.shape(name), tuple(device.model for device in node.devices), self._network.path(view))

    def _served(self, name: str) -> frozenset[str]:
        self._state.pause()
        index = self._state.cluster.index
        if name not in index.nodes or name in self._barred:
            return frozenset()
        if self._required and restricted(index.nodes[name], self._required) is None:
            return frozenset()
        build = index.shape(name).build
        if build not in self._served_by:
            words = (word for word, query in self._words.items() if not index.unserved(query, name))
            self._served_by[build] = frozenset(words)
        return self._served_by[build]

    def _run(self, steps: Generator[None, None, T]) -> T | None:
        while self._left > 0:
            self._left -= 1
            self._state.pause()
            try:
                next(steps)
            except StopIteration as end:
                value: T = end.value
                return value
        self.cut = True
        return None

    def _changed(self, change: Assumption) -> list[Site]:
        gone = change.gone | self._own
        touched = self._nodes_of(gone)
        sites = dict(self._sites) if change.only is None else self._within(change.only)
        sites |= {name: self._sites[name] for name in touched if name in self._sites}
        more: dict[str, Site] = {}
        for name, own in touched.items():
            self._state.pause()
            inventory = self._state.cluster.inventories.get(name)
            key = (name, frozenset(own) | (gone & inventory.allocations.keys() if inventory else frozenset()))
            if key not in self._without:  # attempts have most of the pods that are gone in common
                self._without[key] = self._site(name, gone)
            if site := self._without[key]:
                more[name] = site
        order = sites if sites.keys() >= more.keys() else sorted({**sites, **more}, key=self._position)
        sites |= more
        return [sites[name] for name in order if name not in change.but]

    def _position(self, name: str) -> int:
        self._state.pause()
        return self._positions.get(name, len(self._positions))

    def _within(self, only: frozenset[str]) -> dict[str, Site]:
        """Return the sites of these nodes, and those of bound members."""
        if only not in self._restricted:
            sites = ((name, site) for name, site in self._sites.items() if name in only or site.held)
            self._restricted = {only: dict(sites)}
        return dict(self._restricted[only])

    def _nodes_of(self, keys: Iterable[Key]) -> dict[str, set[Key]]:
        """Return the nodes of these pods and entries, with those that are there."""
        cluster = self._state.cluster
        nodes: dict[str, set[Key]] = {}
        for key in self._state.pausing(keys):
            if entry := cluster.ledger.get(key):
                nodes.setdefault(entry.node, set()).add(key)
            if isinstance(key, str) and (view := cluster.pods.get(key)):
                nodes.setdefault(view.node, set()).add(key)
        return {name: nodes[name] for name in sorted(nodes) if name in cluster.index.nodes}

    def _site(self, name: str, gone: Collection[Key]) -> Site | None:
        """Return the node without these pods; None if it does not serve the request."""
        cluster = self._state.cluster
        served = self._served(name)
        if self._words and not served:
            return None
        inventory, view, known = cluster.inventories[name], cluster.nodes[name], self._sites.get(name)
        staying = [entry for entry in cluster.ledger.on(name) if entry.key not in gone]
        ended = [uid for uid in inventory.allocations if uid in gone or cluster.known.ended(uid)]
        node = node_of(inventory, usage_of(inventory, staying, ended))
        if self._required:
            node = restricted(node, self._required) or node
        ground = NodeCapacity(view, capacity_of(view), self._load(name, gone), self._neighbours(name, gone))
        held = known.held if known else frozenset[str]()
        shape = shape_of(cluster.index.shape(name).build, node)
        return Site(node, shape, ground, self._network.path(view), held, served)

    def _load(self, name: str, gone: Collection[Key]) -> Load:
        cluster = self._state.cluster
        assigned, there = [entry.key for entry in cluster.ledger.on(name)], cluster.pods_on(name)
        if all(key in gone for key in assigned) and all(pod.uid in gone or not holds_devices(pod) for pod in there):
            return Load()
        load = cluster.load(name)
        for pod in there:
            load = load.minus(demand_of(pod)[0]) if pod.uid in gone and holds_devices(pod) else load
        for uid in pods_of(assigned):
            view = cluster.pods.get(uid)
            load = load.minus(demand_of(view)[0]) if view and uid in gone and not view.node else load
        return load

    def _neighbours(self, name: str, gone: Collection[Key]) -> Callable[[], list[Neighbour]]:
        cluster = self._state.cluster  # not self: a cycle would leave all sites to the garbage collector

        def neighbours() -> list[Neighbour]:
            there = (pod for pod in cluster.pods_on(name) if holds_devices(pod) and pod.uid not in gone)
            return [(pod.namespace, pod.labels) for pod in there]

        return neighbours

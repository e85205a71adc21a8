"""Planner input for a group: its members, the candidate nodes and the network levels.

Levels come from the settings, from Topology objects and from HyperNodes. All of them count when nodes are chosen; the
group's own requirements take precedence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import barred_nodes
from linkwise.broker.candidates import company_in, needed_by
from linkwise.broker.cluster.demand import MOST_TERMS, capacity_of
from linkwise.broker.cluster.pods import holds_devices
from linkwise.broker.holding.reserved_devices import reserved_nodes
from linkwise.dialects.groups.network import HOSTNAME, Ladder, current_labels, same_level
from linkwise.dialects.linkwise.dialect import any_model, distinct_devices
from linkwise.engine.feasibility import HOST, is_domain, spread_limit
from linkwise.engine.index.score_table import shape_of
from linkwise.engine.planning.hosts import in_parts
from linkwise.engine.planning.plan import BoundNode, Member, NodeCapacity, Site, Task
from linkwise.engine.requirements import restricted, suitable
from linkwise.engine.selectors import selects
from linkwise.engine.usage import resolved
from linkwise.model.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.dialects.groups.network import Labels
    from linkwise.engine.feasibility import Neighbour
    from linkwise.engine.index.node_index import Query
    from linkwise.model.ask import Demand, Group, NetworkWish
    from linkwise.model.requirement import Requirement
    from linkwise.model.views import NodeView, PodTerm, PodView, SpreadConstraint

__all__ = [
    "Network",
    "minimum_of",
    "network_of",
    "planning_input",
    "read_network",
    "requirements_of",
    "single_query",
    "takes_any_model",
]

NODES_PER_STEP: Final = 100
"""nodes read between two steps"""
MEMBERS_PER_STEP: Final = 25
"""members read between two steps"""
_NOTHING: Final[frozenset[str]] = frozenset()


def planning_input(
    state: State, group_view: GroupView, network: Network, names: Sequence[str] | None = None, *, every: bool = False
) -> Generator[None, None, tuple[Task, list[Site]]]:
    """Build task and sites: nodes with enough free devices for one member, or `every` node that provides them.

    With `names`, only these nodes are considered.
    """
    barred = barred_for_all(state, group_view)
    members = yield from _members(state, group_view, one_by_one=barred is None)
    smallest = min((member.size for member in members if member.size), default=1)
    sites, bound = yield from _sites(
        state, group_view, members, network, names, least=1 if every else smallest, barred=barred or _NOTHING
    )
    task = Task(
        members,
        network.levels,
        network.required,
        mixed=takes_any_model(state, group_view),
        seed_order=state.settings.group.order == "seed",
        floor=state.settings.bandwidth.floor,
        minimum=minimum_of(group_view),
        gang=group_view.group.minimum is not None,
        distinct=any(map(distinct_devices, (*group_view.waiting, *group_view.bound))),
        bound=bound,
    )
    return task, sites


def takes_any_model(state: State, group_view: GroupView) -> bool:
    """Return whether devices of different models may serve the group."""
    return state.settings.group.models == "any" or any(map(any_model, group_view.waiting))


def single_query(state: State, view: GroupView) -> Query | None:
    """Return the query of a group of one pod, which gets whole devices by the order of its policy; None for other groups."""
    if len(view.waiting) != 1 or view.bound or view.group.network or minimum_of(view) > 1 or state.reservations.made:
        return None
    (pod,) = view.waiting
    query = state.query(pod)
    if query is None or in_parts(query) or pod.uid in state.groups.limits(view.key).allowed:
        return None
    return query


def minimum_of(group_view: GroupView) -> int:
    """Return how many pending members must be placed; for a gang that has not started, what is missing to its minimum."""
    there = 0 if group_view.group.match_policy == "only-waiting" else len(group_view.bound)
    return max(1, group_view.least - there)


def barred_for_all(state: State, group_view: GroupView) -> frozenset[str] | None:
    """Return the nodes that access policies leave out for every member; None if they differ by member."""
    if not state.access:
        return _NOTHING
    queries = [(pod, state.query(pod)) for pod in group_view.waiting]
    barred = {frozenset(barred_nodes(state, pod, query)) if query else _NOTHING for pod, query in queries}
    return barred.pop() if len(barred) == 1 else None if barred else _NOTHING


def requirements_of(members: Iterable[Member]) -> tuple[Requirement | None, ...]:
    """Return the different requirements of members on devices, None for members without one; empty if no member has any."""
    every = tuple(dict.fromkeys(member.wanted.ask.requirement for member in members if member.wanted))
    return every if any(every) else ()


def _with_required_nodes(state: State, members: Sequence[Member]) -> tuple[Member, ...]:
    """Return the members; where their requirements differ, each has the nodes with devices that meet its own."""
    if len(requirements_of(members)) < 2:  # nodes that do not meet the only one are left out for all
        return tuple(members)
    meeting: dict[tuple[Requirement, int], frozenset[str]] = {}
    found = []
    for member in members:
        requirement = member.wanted.ask.requirement if member.wanted else None
        if requirement:
            # rule 002.versions: a member goes only to nodes that meet its requirement.
            key = (requirement, member.size)
            if key not in meeting:
                nodes = state.cluster.index.nodes.items()
                meeting[key] = frozenset(name for name, node in nodes if isinstance(suitable(node, *key), Node))
            only = member.demand.only
            allowed = meeting[key] if only is None else only & meeting[key]
            member = replace(member, demand=replace(member.demand, only=allowed))  # noqa: PLW2901 - the same member
        found.append(member)
    return tuple(found)


def _members(state: State, group_view: GroupView, *, one_by_one: bool) -> Generator[None, None, tuple[Member, ...]]:
    """Return the members; with `one_by_one` each has the nodes that access policies leave for it."""
    members, company, allowed = [], company_in(state.cluster), state.groups.limits(group_view.key).allowed
    spread = _Spread(state, group_view.waiting)
    for place, pod in enumerate(group_view.waiting):
        if place % MEMBERS_PER_STEP == 0:
            yield
        demand = needed_by(state.cluster, pod, company)
        if pod.uid in allowed:
            demand = replace(demand, only=allowed[pod.uid])
        query = state.query(pod)
        if pod.spread:
            demand = replace(demand, crowd=(yield from spread.crowd(pod, demand, query)))
        # rule 002.access: a member goes only to nodes of permitted models.
        if one_by_one and query and (barred := barred_nodes(state, pod, query)):
            nodes = frozenset(state.cluster.nodes) if demand.only is None else demand.only
            demand = replace(demand, only=nodes.difference(barred))
        members.append(Member(pod.uid, pod.name, query, demand, place, pod.created))
    return _with_required_nodes(state, members)


class _Spread:
    """How many pods topology spread allows on one node, when members are placed beside those that run.

    kube-scheduler compares each member with the nodes as they are when it is tried. A plan is for all of them, so that
    none is planned where the constraint would leave the node out.
    """

    def __init__(self, state: State, members: Sequence[PodView]) -> None:
        self._state, self._members = state, members
        self._known: dict[Hashable, int] = {}

    def crowd(
        self, pod: PodView, demand: Demand, query: Query | None
    ) -> Generator[None, None, tuple[tuple[PodTerm, int], ...]]:
        """Return the limit of each constraint between nodes; others are between domains of several."""
        crowd = []
        for constraint in pod.spread[:MOST_TERMS]:
            if constraint.topology_key != HOST or len(constraint.term.expressions) > MOST_TERMS:
                continue
            size = query.ask.devices if query else 0
            selector = (tuple(sorted(demand.selector.items())), demand.affinity, demand.tolerations)
            key = (str(constraint), selector, query.word if query else "", size)
            if key not in self._known:
                self._known[key] = yield from self._limit(constraint, demand, query)
            crowd.append((constraint.term, self._known[key]))
        return tuple(crowd)

    def _limit(self, constraint: SpreadConstraint, demand: Demand, query: Query | None) -> Generator[None, None, int]:
        cluster = self._state.cluster
        open_: list[int] = []
        full: list[int] = []
        for number, view in enumerate(list(cluster.nodes.values())):
            if number % NODES_PER_STEP == 0:
                yield
            if not is_domain(constraint, demand, view):
                continue
            there = (pod for pod in _pods_on(self._state, view.name) if not pod.deleting)
            count = sum(1 for pod in there if selects(constraint.term, pod.namespace, pod.labels))
            (open_ if self._may_take(view.name, query) else full).append(count)
        own = sum(1 for pod in self._members if selects(constraint.term, pod.namespace, pod.labels))
        return spread_limit(constraint, open_, full, own)

    def _may_take(self, name: str, query: Query | None) -> bool:
        index = self._state.cluster.index
        if query is None:
            return True
        if name not in index.nodes or index.unserved(query, name):
            return False
        return index.shape(name).free.bit_count() >= query.ask.devices


def _sites(  # noqa: PLR0913 - all that decides on a node
    state: State,
    group_view: GroupView,
    members: tuple[Member, ...],
    network: Network,
    names: Sequence[str] | None,
    *,
    least: int,
    barred: frozenset[str],
) -> Generator[None, None, tuple[list[Site], tuple[BoundNode, ...]]]:
    """Return nodes that serve the request with at least that many free devices, and all nodes of bound members."""
    cluster, index, sites = state.cluster, state.cluster.index, []
    paths: dict[tuple[str, ...], tuple[str, ...]] = {}  # nodes of one rack have one
    words = {member.wanted.word: member.wanted for member in members if member.wanted}
    parts = any(member.wanted and not member.wanted.ask.devices for member in members)
    across_nodes = any(query.policy.across_nodes for query in words.values())
    required = requirements_of(members)
    avoided = state.groups.limits(group_view.key).avoided | barred
    held, bound = _held(cluster, group_view), []
    reserved = reserved_nodes(state, [member.pod for member in members]) if state.reservations.made else {}
    least = 0 if parts or not words else least
    served: dict[int, frozenset[str]] = {}  # by build: nodes of one build serve the same requests
    for number, name in enumerate(
        list(cluster.nodes) if names is None else names
    ):  # nodes may come and go between steps
        if number % NODES_PER_STEP == 0:
            yield
        view, node = cluster.nodes.get(name), index.nodes.get(name)
        if view is None or node is None:
            continue
        shape = index.shape(name)
        usable = _usable_by(
            reserved.get(name, node), required, across_nodes=across_nodes and name in cluster.unreachable
        )
        if usable is not node:
            node, shape = usable, shape_of(shape.build, usable)
        if shape.build not in served:
            served[shape.build] = frozenset(word for word in words if not index.unserved(words[word], name))
        unserved = (words and not served[shape.build]) or shape.free.bit_count() < least or name in avoided
        if unserved and name not in held:
            continue
        path, own = network.path(view), frozenset(chain.from_iterable(held[name])) if name in held else _NOTHING
        ground = NodeCapacity(view, capacity_of(view), cluster.load(name), partial(_neighbours, state, name))
        site = Site(node, shape, ground, paths.setdefault(path, path), own, served[shape.build])
        if name in held:
            bound.append(BoundNode(name, site.path, len(held[name]), site))
        if name not in avoided:
            sites.append(site)
    unknown = [(name, view) for name in held if name not in index.nodes and (view := cluster.nodes.get(name))]
    bound += [BoundNode(name, network.path(view), len(held[name])) for name, view in unknown]
    return sites, tuple(bound)


def _usable_by(node: Node, required: tuple[Requirement | None, ...], *, across_nodes: bool) -> Node:
    """Return the node with the devices that its members can't use marked as used; the same object if there are none."""
    if across_nodes:
        node = node.reachable()
    return (restricted(node, required) or node.with_only(())) if required else node


def _held(cluster: Cluster, group_view: GroupView) -> dict[str, list[frozenset[str]]]:
    """Return by node the devices of each bound member that has any."""
    held: dict[str, list[frozenset[str]]] = {}
    for pod in group_view.bound:
        entry = cluster.ledger.get(pod.uid)
        if entry:
            inventory = cluster.inventories.get(pod.node)
            named = entry.grant.offer.devices
            if inventory and inventory.by_claims:  # after a restart only the claim has them
                named = inventory.allocations.get(pod.uid, named)
            devices = resolved(inventory, named) if inventory else _NOTHING
            held.setdefault(pod.node, []).append(devices)
    return held


def _neighbours(state: State, name: str) -> list[Neighbour]:
    return [(pod.namespace, pod.labels) for pod in _pods_on(state, name)]


def _pods_on(state: State, name: str) -> Iterator[PodView]:
    """Yield the pods that run on a node or are being bound to it."""
    cluster = state.cluster
    yield from (pod for pod in cluster.pods_on(name) if holds_devices(pod))
    for entry in cluster.ledger.on(name):
        if entry.state == "ASSUMED" and (pod := cluster.pods.get(entry.pod)) and not pod.node:
            yield pod


ANYWHERE: Final = "-"
"""the domain of nodes without a label, in a level that only separates narrower ones"""


@dataclass(frozen=True, slots=True)
class Network:
    """Levels, the broadest first."""

    levels: tuple[str, ...] = ()
    required: int = 0
    """number of leading levels in which the group must share one domain"""
    must: frozenset[str] = frozenset()
    """required levels that the group names; nodes without that label are not eligible"""
    tiers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """domains by node, for levels that are not labels"""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """levels by the labels that other nodes have for them; empty where all nodes use the same labels"""

    def path(self, view: NodeView) -> tuple[str, ...]:
        """Return the node's domains; empty where it has none."""
        labels, tiers = self._labels(view), self.tiers
        words = [tiers[level].get(view.name, "") if level in tiers else labels.get(level, "") for level in self.levels]
        if not self.required:
            return tuple(words)
        for number, level in enumerate(self.levels[: self.required]):
            if not words[number] and level not in self.must:
                words[number] = ANYWHERE
        return tuple(words)

    def _labels(self, view: NodeView) -> Labels:
        if not self.renamed:
            return view.labels
        labels = current_labels(view.labels)
        return {**{self.renamed[label]: value for label, value in labels.items() if label in self.renamed}, **labels}


def network_of(cluster: Cluster, group: Group) -> Network:
    """Return the network as one group sees it."""
    finder = _LevelFinder(cluster)
    head, must = finder.required(group.network)
    tail = [level for level in finder.all(group.network) if level not in head]
    tiers = {level: finder.tiers[level] for level in (*head, *tail) if level in finder.tiers}
    renamed = {label: level for level in (*head, *tail) for label in finder.labels(level) if label != level}
    return Network((*head, *tail), len(head), must, tiers, renamed)


def read_network(cluster: Cluster, group: Group) -> Generator[None, None, Network]:
    """Do the same in steps, because reading the labels of many nodes is slow."""
    ladders = (
        *cluster.settings.group.network,
        *(level for ladder in cluster.shared.ladders.values() for level in ladder.levels),
    )
    named = (*ladders, *(wish.level for wish in group.network))
    yield from cluster.shared.read_words({label for level in named for label in same_level(level)}, cluster.nodes)
    return network_of(cluster, group)


class _LevelFinder:
    """Orders the network levels of the cluster for one group."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        shared, nodes = cluster.shared, cluster.nodes
        self._tiers = shared.tiers(nodes)
        self.tiers = {
            level: {name: path[number] for name, path in self._tiers.paths.items()}
            for number, level in enumerate(self._tiers.levels)
        }
        # What objects say was said for this cluster; the settings hold what is usual.
        self._ladders = [shared.ladders[key] for key in sorted(shared.ladders)]
        self._usual = Ladder.of(cluster.settings.group.network)

    def required(self, wishes: Iterable[NetworkWish]) -> tuple[tuple[str, ...], frozenset[str]]:
        """Return the levels the group must share, with the broader ones that distinct their domains; and those it names."""
        head: dict[str, None] = {}
        must = set()
        for wish in wishes:
            if wish.required:
                level, ladder = self._resolve(wish.level)
                must.add(level)
                head |= dict.fromkeys(ladder[: ladder.index(level) + 1])
        return tuple(level for level in head if level in must or self._count(level)), frozenset(must)

    def all(self, wishes: Iterable[NetworkWish]) -> list[str]:
        """Return all levels in use, in one order."""
        named = [(self._resolve(wish.level)[0],) for wish in wishes]
        ladders = [self._usual.levels, *(ladder.levels for ladder in self._ladders), self._tiers.levels, *named]
        present = [
            [level for level in self._levels(ladder) if level != HOSTNAME and self._count(level)] for ladder in ladders
        ]
        return _merged(present, self._count)

    def labels(self, level: str) -> tuple[str, ...]:
        """Return the labels under which nodes have a level, the newest first."""
        return tuple(label for label in same_level(level) if self._words(label)) if level not in self.tiers else ()

    def _levels(self, ladder: Iterable[str]) -> tuple[str, ...]:
        """Return the levels of a ladder, each once and by the newest label that nodes have for it."""
        return tuple(dict.fromkeys(next(iter(self.labels(level)), level) for level in ladder))

    def _resolve(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return the level of a name and the ladder it belongs to; an unknown label is its own ladder."""
        if level := self._tiers.level(name):
            return level, self._tiers.levels
        for ladder in (*self._ladders, self._usual):
            if level := ladder.level(name):
                return self._levels((level,))[0], self._levels(ladder.levels)
        return self._levels((name,))[0], self._levels((name,))

    def _count(self, level: str) -> int:
        """Return the number of domains of a level."""
        if level in self.tiers:
            return len(set(self.tiers[level].values()) - {""})
        words = [self._words(label) for label in same_level(level)]
        return len(words[0] if len(words) == 1 else frozenset().union(*words))

    def _words(self, label: str) -> frozenset[str]:
        return self._cluster.shared.words(label, self._cluster.nodes)


def _merged(ladders: Iterable[Sequence[str]], count: Callable[[str], int]) -> list[str]:
    """Merge several orders: a level follows its predecessor, else precedes its successor, else goes by its domain count."""
    levels: list[str] = []
    for ladder in ladders:
        place: int | None = None
        for number, level in enumerate(ladder):
            if level in levels:
                place = levels.index(level) + 1
                continue
            if place is None:
                later = [levels.index(other) for other in ladder[number + 1 :] if other in levels]
                fewer = (place for place, other in enumerate(levels) if count(other) > count(level))
                place = min(later) if later else next(fewer, len(levels))
            levels.insert(place, level)
            place += 1
    return levels

"""A group as a planner is asked about it: its members, and the nodes that may take some of them.

The network as one group sees it: its levels in order, how many of them it must share, and each node's path.

Levels come from the settings, from Topology objects and from HyperNodes. All of them count when nodes are chosen; which
go first is what the group itself asks for.
"""
# Joined from group_posing, network: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of
from linkwise.broker.cluster.host_fit import company_in, needed_by
from linkwise.broker.cluster.pods import holds_devices
from linkwise.dialects.groups.network_topology import HOSTNAME, Ladder
from linkwise.dialects.linkwise.dialect import any_model
from linkwise.engine.planning.node_capacity import NodeCapacity
from linkwise.engine.planning.plan import Member
from linkwise.engine.planning.task import Site, Task
from linkwise.engine.usage import resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour
    from linkwise.model.ask import Group, NetworkWish
    from linkwise.model.views import NodeView

__all__ = ["Network", "minimum_of", "network_of", "posed", "read_network", "takes_any_model"]

AT_ONCE: Final = 100
"""nodes gathered between two steps"""
MEMBERS_AT_ONCE: Final = 25
"""members whose words are read between two steps"""
_NOTHING: Final[frozenset[str]] = frozenset()


def posed(
    state: State, found: GroupView, network: Network, *, every: bool = False
) -> Generator[None, None, tuple[Task, list[Site]]]:
    """What a plan of the group is made of; the nodes with devices for one member at least, or `every` one with any."""
    members = yield from _members(state, found)
    smallest = min((member.size for member in members if member.size), default=1)
    sites = yield from _sites(state, found, members, network, 1 if every else smallest)
    task = Task(
        members,
        network.levels,
        network.required,
        mixed=takes_any_model(state, found),
        seed_order=state.settings.group.order == "seed",
        floor=state.settings.bandwidth.floor,
        minimum=minimum_of(state, found),
        fixed=frozenset(site.model for site in sites if site.held),
    )
    return task, sites


def takes_any_model(state: State, found: GroupView) -> bool:
    """Whether devices of different models may serve the group."""
    return state.settings.group.models == "any" or any(map(any_model, found.waiting))


def minimum_of(state: State, found: GroupView) -> int:
    """How many of the waiting members must be placed: for a gang that has not started those that it still lacks."""
    minimum, key = found.group.minimum, found.group.key
    if minimum is None or key in state.groups.satisfied:
        return 1
    there = 0 if found.group.match_policy == "only-waiting" else len(found.bound)
    return max(1, minimum - there)


def _members(state: State, found: GroupView) -> Generator[None, None, tuple[Member, ...]]:
    members, company = [], company_in(state.cluster)
    for place, pod in enumerate(found.waiting):
        if place % MEMBERS_AT_ONCE == 0:
            yield
        wanted = state.query(pod)
        members.append(Member(pod.uid, pod.name, wanted, needed_by(state.cluster, pod, company), place, pod.created))
    return tuple(members)


def _sites(
    state: State, found: GroupView, members: tuple[Member, ...], network: Network, least: int
) -> Generator[None, None, list[Site]]:
    """The nodes that serve what the members ask for and have so many devices free, and those that they run on."""
    cluster, index, sites = state.cluster, state.cluster.index, []
    paths: dict[tuple[str, ...], tuple[str, ...]] = {}  # nodes of one rack have one
    words = {member.wanted.word: member.wanted for member in members if member.wanted}
    parts = any(member.wanted and not member.wanted.ask.devices for member in members)
    avoided = state.groups.avoided.get(found.group.key, ())
    held: dict[str, set[str]] = {}
    for pod in found.bound:
        entry = cluster.ledger.get(pod.uid)
        if entry:
            stock = cluster.inventories.get(pod.node)
            held.setdefault(pod.node, set()).update(resolved(stock, entry.grant.offer.devices) if stock else ())
    least = 0 if parts or not words else least
    served: dict[int, frozenset[str]] = {}  # by build: nodes of one build are asked in the same words
    for number, name in enumerate(list(cluster.nodes)):  # nodes may come and go between steps
        if number % AT_ONCE == 0:
            yield
        view, node = cluster.nodes.get(name), index.nodes.get(name)
        if view is None or node is None or name in avoided:
            continue
        shape = index.shape(name)
        if shape.build not in served:
            served[shape.build] = frozenset(word for word in words if not index.unserved(words[word], name))
        if words and not served[shape.build]:
            continue
        if shape.free.bit_count() < least and name not in held:
            continue
        path, own = network.path(view), frozenset(held[name]) if name in held else _NOTHING
        ground = NodeCapacity(view, capacity_of(view), cluster.load(name), partial(_neighbours, state, name))
        sites.append(Site(node, shape, ground, paths.setdefault(path, path), own, served[shape.build]))
    return sites


def _neighbours(state: State, name: str) -> list[Neighbour]:
    return [(pod.namespace, pod.labels) for pod in state.cluster.known.on(name) if holds_devices(pod)]


ANYWHERE: Final = "-"
"""the domain of nodes that do not say where they are, in a level that only tells narrower ones apart"""


@dataclass(frozen=True, slots=True)
class Network:
    """Levels, the broadest first."""

    levels: tuple[str, ...] = ()
    required: int = 0
    """so many of the levels must hold the whole group in one domain"""
    must: frozenset[str] = frozenset()
    """those of them that the group names: who says nothing there is not eligible"""
    tiers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """domains by node, of levels that are no labels"""

    def path(self, view: NodeView) -> tuple[str, ...]:
        """The node's domains; empty text where it does not say."""
        labels, tiers = view.labels, self.tiers
        words = [tiers[level].get(view.name, "") if level in tiers else labels.get(level, "") for level in self.levels]
        if not self.required:
            return tuple(words)
        for number, level in enumerate(self.levels[: self.required]):
            if not words[number] and level not in self.must:
                words[number] = ANYWHERE
        return tuple(words)


def network_of(cluster: Cluster, group: Group) -> Network:
    """The network for a group."""
    found = _Finding(cluster)
    head, must = found.required(group.network)
    tail = [level for level in found.all(group.network) if level not in head]
    tiers = {level: found.tiers[level] for level in (*head, *tail) if level in found.tiers}
    return Network((*head, *tail), len(head), must, tiers)


def read_network(cluster: Cluster, group: Group) -> Generator[None, None, Network]:
    """The same in steps: the labels of many nodes take a while to read."""
    ladders = (
        *cluster.settings.group.network,
        *(level for found in cluster.shared.ladders.values() for level in found.levels),
    )
    yield from cluster.shared.read_words((*ladders, *(wish.level for wish in group.network)), cluster.nodes)
    return network_of(cluster, group)


class _Finding:
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
        """The levels that the group must share, with those above that tell their domains apart; and those it names."""
        head: dict[str, None] = {}
        must = set()
        for wish in wishes:
            if wish.required:
                level, ladder = self._meant(wish.level)
                must.add(level)
                head |= dict.fromkeys(ladder[: ladder.index(level) + 1])
        return tuple(level for level in head if level in must or self._count(level)), frozenset(must)

    def all(self, wishes: Iterable[NetworkWish]) -> list[str]:
        """Every level that some node is in, in one order."""
        named = [(self._meant(wish.level)[0],) for wish in wishes]
        ladders = [self._usual.levels, *(ladder.levels for ladder in self._ladders), self._tiers.levels, *named]
        present = [[level for level in ladder if level != HOSTNAME and self._count(level)] for ladder in ladders]
        return _merged(present, self._count)

    def _meant(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The level that a wish names, and all that it is ordered with; a label that nobody orders stands alone."""
        if level := self._tiers.level(name):
            return level, self._tiers.levels
        for ladder in (*self._ladders, self._usual):
            if level := ladder.level(name):
                return level, ladder.levels
        return name, (name,)

    def _count(self, level: str) -> int:
        """How many domains there are."""
        if level in self.tiers:
            return len(set(self.tiers[level].values()) - {""})
        return len(self._cluster.shared.words(level, self._cluster.nodes))


def _merged(ladders: Iterable[Sequence[str]], count: Callable[[str], int]) -> list[str]:
    """Several orders as one: a level goes after the one before it, else before the one after it, else by its domains."""
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

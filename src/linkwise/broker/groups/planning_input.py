"""The network as one group sees it: its levels in order, how many of them it must share, and each node's path.

Levels come from the settings, from Topology objects and from HyperNodes. All of them count when nodes are chosen; which
go first is what the group itself asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.dialects.groups.network_topology import HOSTNAME, Ladder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.model.ask__group import Group, NetworkWish
    from linkwise.model.views import NodeView

__all__ = ["Network", "network_of", "read_network"]

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

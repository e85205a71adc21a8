"""Candidates: the nodes that fit one pod, as if its own open offer or reservation were not there.

The index counts the devices of an offer or reservation as used. That is right for every other pod, and wrong for the pod
they are for, so its verdict on that node is worked out without them. A pod never has both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.reservations.devices import reserved_entry
from linkwise.engine.index.node_index import choices
from linkwise.model.verdict import Reject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code
    from linkwise.model.node import Node
    from linkwise.model.verdict import Offer

__all__ = ["Candidates"]


FEW: Final = 16
"""names in which duplicates are looked for; no scheduler sends any"""


class Candidates:
    """The nodes for one query of the pod with that UID; `budget` as in `choices`."""

    def __init__(self, state: State, query: Query, uid: str, budget: int | None = None) -> None:
        self._index = state.cluster.index
        self.query = query
        self._lookup = choices(self._index, query) if budget is None else choices(self._index, query, budget)
        entry = state.cluster.ledger.offered(uid) or (state.reservations.made and reserved_entry(state, uid))
        self._own = state.cluster.node_without(entry.node, {entry.pod}) if entry else None
        self._verdict = self._index.judge(query, self._own) if self._own else None

    @property
    def partial(self) -> bool:
        """Whether some nodes were not evaluated, because the budget was exhausted."""
        return self._lookup.partial

    def best(self, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()) -> list[str]:
        """At most `breadth` of the names that are not in `without`: the best, in the order of their names."""
        if self._own is None and breadth == 1:
            return self._lookup.best(names, 1, without)
        own = self._own.name if self._own else ""
        nodes = self._lookup.best(names, breadth, without | {own} if own else without)
        if own and own in names and own not in without and not isinstance(self._verdict, Reject):
            nodes.append(own)
        scores = self.scores(nodes)
        best = max(scores.values(), default=None)
        return sorted(name for name, score in scores.items() if score == best)[:breadth]

    def all(self, names: Sequence[str]) -> list[str]:
        """Every one of the names that fits, in their order."""
        fitting = self._lookup.all(names)
        if self._own is None or self._own.name not in names:
            return fitting if len(fitting) > FEW else list(dict.fromkeys(fitting))
        own = self._own.name
        others = {name for name in fitting if name != own}
        fits = not isinstance(self._verdict, Reject)
        return [name for name in dict.fromkeys(names) if name in others or (fits and name == own)]

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        """The score of each of the names that fits."""
        names = tuple(names)
        scores = self._lookup.scores(names)
        if self._own is None or self._own.name not in names or self._verdict is None:
            return scores
        others = {name: score for name, score in scores.items() if name != self._own.name}
        return others if isinstance(self._verdict, Reject) else {**others, self._own.name: self._verdict}

    def refusal(self, name: str) -> Reject | None:
        """The refusal of a node; None if it fits."""
        if self._own is None or name != self._own.name:
            return self._lookup.refusal(name)
        return self._verdict if isinstance(self._verdict, Reject) else None

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Short refusal texts of names that all do not fit: resolvable by other pods ending, and unresolvable."""
        return self._lookup.why(names)

    def pick(self, name: str) -> Offer | Reject:
        """The devices that the node would allocate now, or a refusal."""
        return self._index.unserved(self.query, name) or self.query.pick(self.node(name))

    def node(self, name: str) -> Node:
        """A node as it is for this pod."""
        return self._own if self._own and self._own.name == name else self._index.nodes[name]

    def after(self, name: str, score: Code, count: int) -> tuple[tuple[str, Code], ...]:
        """The next nodes behind one with this score, by score and name, whether the scheduler named them or not."""
        own = self._own.name if self._own else ""
        behind = self._lookup.after(name, score, count + bool(own))
        return tuple(other for other in behind if other[0] != own)[:count]

"""Lookup: one interface to the score tables (whole devices) and to the share index (parts of devices)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from linkwise.engine.index.best_nodes import best_names
from linkwise.engine.index.node_index import ALL
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.model.verdict import Reason, Reject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from linkwise.engine.index.node_index import Index, Query
    from linkwise.engine.index.score_table import Code

__all__ = ["Lookup", "choices"]


class Lookup(Protocol):
    """Evaluation of one query on the current nodes."""

    partial: bool
    """whether some nodes were not evaluated, because the budget was exhausted"""

    def best(self, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()) -> list[str]:
        """At most `breadth` of the names that are not in `without`, of the best class that any of them is in."""

    def all(self, names: Sequence[str]) -> list[str]:
        """Every one of the names that fits, in their order."""

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        """The score of each of the names that fits."""

    def refusal(self, name: str) -> Reject | None:
        """The refusal of a node; None if it fits."""

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Short refusal texts of names that all do not fit: resolvable by other pods ending, and unresolvable."""

    def after(self, name: str, score: Code, count: int) -> list[tuple[str, Code]]:
        """The next `count` nodes behind one with this score: by score, equal ones by name."""


def choices(index: Index, query: Query, budget: int = ALL) -> Lookup:
    """The lookup for a query; at most `budget` shapes are evaluated, and `partial` tells whether that was enough."""
    return _TableLookup(index, query, budget) if query.ask.devices else _ShareLookup(index, query)


class _TableLookup:
    """Whole devices, by a score table."""

    def __init__(self, index: Index, query: Query, budget: int) -> None:
        self._index = index
        self._query = query
        self._table = index.table(query, budget)
        self.partial = bool(self._table.owing)

    def best(self, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()) -> list[str]:
        best = best_names(self._table, names, breadth, without)
        if not best and self.partial:
            self._catch_up()
            best = best_names(self._table, names, breadth, without)
        return best

    def all(self, names: Sequence[str]) -> list[str]:
        self._catch_up()
        return self._table.fits(names)

    def _catch_up(self) -> None:
        """Evaluate the rest, because no pod is refused for an exhausted budget."""
        if self.partial:
            self._table = self._index.table(self._query)
            self.partial = False

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        table, known = self._table, self._index.nodes
        scores = {name: code for name in names if (code := table.codes.get(name)) is not None}
        for name in table.owing.keys() & names if table.owing else ():
            verdict = self._index.judge(self._query, known[name]) if name in known else None
            if isinstance(verdict, tuple):
                scores[name] = verdict
        return scores

    def refusal(self, name: str) -> Reject | None:
        if name in self._table.codes:
            return None
        return self._table.refused.get(name) or unknown_node(name)

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return self._table.why(names, _UNKNOWN)

    def after(self, name: str, score: Code, count: int) -> list[tuple[str, Code]]:
        return self._table.after(name, score, count)


class _ShareLookup:
    """Parts of devices, by free share."""

    partial = False

    def __init__(self, index: Index, query: Query) -> None:
        self._index = index
        self._query = query
        self._shares = index.share_index(query.word)

    def best(self, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()) -> list[str]:
        return self._shares.fitting(names, self._query.ask, breadth, without)

    def all(self, names: Sequence[str]) -> list[str]:
        return self._shares.all_fitting(names, self._query.ask)

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        return self._shares.scores(names, self._query.ask)

    def refusal(self, name: str) -> Reject | None:
        verdict = self._verdict(name)
        return verdict if isinstance(verdict, Reject) else None

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return self._index.table(self._query).why(names, _UNKNOWN)

    def after(self, name: str, score: Code, count: int) -> list[tuple[str, Code]]:
        return self._shares.after(name, score, self._query.ask, count)

    def _verdict(self, name: str) -> Code | Reject:
        node = self._index.nodes.get(name)
        return unknown_node(name) if node is None else self._index.judge(self._query, node)


def unknown_node(name: str) -> Reject:
    """The refusal of a node that the watch has not delivered."""
    return Reject(name, _UNOBSERVED)


_UNOBSERVED: Final = Reason("002.inventory", kind="unknown node")
_UNKNOWN: Final = short_refusal(_UNOBSERVED)

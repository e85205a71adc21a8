"""How nodes answer one ask, whichever index it is that knows."""

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
    """Answers about the nodes as they are now."""

    partial: bool
    """whether some nodes were not judged, because that would have taken too long"""

    def best(self, names: Sequence[str], breadth: int, last: AbstractSet[str]) -> list[str]:
        """At most `breadth` of the names, of the best class that has any; those in `last` at the end."""

    def all(self, names: Sequence[str]) -> list[str]:
        """Every one of the names that fits, in their order."""

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        """How good each of the names that fit is."""

    def refusal(self, name: str) -> Reject | None:
        """Why a node does not fit."""

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Why none of the names fits, as short texts: what may pass, and what will not."""


def choices(index: Index, wanted: Query, budget: int = ALL) -> Lookup:
    """The answers to an ask; with a budget, past it only those that were worked out."""
    return _ByTable(index, wanted, budget) if wanted.ask.devices else _ByRoom(index, wanted)


class _ByTable:
    """Whole devices: a table of scores."""

    def __init__(self, index: Index, wanted: Query, budget: int) -> None:
        self._index = index
        self._wanted = wanted
        self._table = index.table(wanted, budget)
        self.partial = bool(self._table.owing)

    def best(self, names: Sequence[str], breadth: int, last: AbstractSet[str]) -> list[str]:
        found = best_names(self._table, names, breadth, last)
        if not found and self.partial:
            self._catch_up()
            found = best_names(self._table, names, breadth, last)
        return found

    def all(self, names: Sequence[str]) -> list[str]:
        self._catch_up()
        return self._table.fits(names)

    def _catch_up(self) -> None:
        """Nobody is refused because time ran out."""
        if self.partial:
            self._table = self._index.table(self._wanted)
            self.partial = False

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        table, known = self._table, self._index.nodes
        found = {name: code for name in names if (code := table.codes.get(name)) is not None}
        for name in table.owing.keys() & names if table.owing else ():
            verdict = self._index.judge(self._wanted, known[name]) if name in known else None
            if isinstance(verdict, tuple):
                found[name] = verdict
        return found

    def refusal(self, name: str) -> Reject | None:
        if name in self._table.codes:
            return None
        return self._table.refused.get(name) or unknown_node(name)

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return self._table.why(names, _UNKNOWN)


class _ByRoom:
    """Parts of devices: an index by room."""

    partial = False

    def __init__(self, index: Index, wanted: Query) -> None:
        self._index = index
        self._wanted = wanted
        self._rooms = index.rooms(wanted.word)

    def best(self, names: Sequence[str], breadth: int, last: AbstractSet[str]) -> list[str]:
        # How tight it would be is packing alone, so that all nodes that fit are equals: those in `last` come after all.
        ask = self._wanted.ask
        found = self._rooms.fitting(names, ask, breadth, last)
        if last and len(found) < breadth:
            found += self._rooms.fitting(list(filter(last.__contains__, names)), ask, breadth - len(found))
        return found

    def all(self, names: Sequence[str]) -> list[str]:
        return self._rooms.all_fitting(names, self._wanted.ask)

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        return self._rooms.scores(names, self._wanted.ask)

    def refusal(self, name: str) -> Reject | None:
        verdict = self._verdict(name)
        return verdict if isinstance(verdict, Reject) else None

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return self._index.table(self._wanted).why(names, _UNKNOWN)

    def _verdict(self, name: str) -> Code | Reject:
        node = self._index.nodes.get(name)
        return unknown_node(name) if node is None else self._index.judge(self._wanted, node)


def unknown_node(name: str) -> Reject:
    """The answer for a node that was never seen."""
    return Reject(name, _NEVER_SEEN)


_NEVER_SEEN: Final = Reason("002.inventory", kind="unknown node")
_UNKNOWN: Final = short_refusal(_NEVER_SEEN)

"""Selection of the best nodes of a request from a score table: by class, score and name.

Nodes with equal scores are ordered by name, because kube-scheduler sends the names in a different order every time.
Bound: one pass over the names of the request. Hashing each name costs more than parsing it, so the best node of all is
searched among the names first, then a small pool of the best, and only then all names are hashed and kept.
"""

from __future__ import annotations

from itertools import filterfalse, groupby, islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet

    from linkwise.engine.index.score_table import ClassTable, Code

__all__ = ["best_names", "first_named", "pool_size"]

FEW: Final = 4
"""if there are this many times more nodes than names, the names are looked up one by one"""

GUESSES: Final = 3
"""nodes that are searched among the names one by one: three searches take as long as hashing all names"""


def best_names(
    table: ClassTable, names: Sequence[str], breadth: int, last: AbstractSet[str] = frozenset()
) -> list[str]:
    """At most `breadth` of the names, all of the best class that any name is in; those in `last` at the end.

    The best come first, and equal ones by name. Empty only if none of the names fits.
    """
    if not table.codes or not names:
        return []
    if len(names) * FEW <= len(table):
        return _by_name(table, names, breadth, last)
    pool, complete = _leading(table, pool_size(breadth, len(names), len(table)), last)
    best = first_named(pool, names, breadth)
    if len(best) == breadth or (best and complete and not last):
        return best
    wanted = set(names)
    for codes in _classes(table):
        hits = [filter(wanted.__contains__, table.names(code)) for code in codes]
        if best := _fresh_first(hits, breadth, last):
            return best
    return []


def pool_size(breadth: int, names: int, nodes: int) -> int:
    """The number of best nodes that almost always has enough of the names."""
    return int((2 * breadth + 14) * max(1.0, nodes / max(1, names)))


def first_named(pool: Sequence[str], names: Sequence[str], breadth: int) -> list[str]:
    """The first `breadth` nodes of an ordered pool that are among the names."""
    if breadth == 1:
        for name in pool[:GUESSES]:
            if name in names:
                return [name]
    in_pool = set(pool).intersection(names)
    return list(islice(filter(in_pool.__contains__, pool), breadth))


def _leading(table: ClassTable, enough: int, last: AbstractSet[str]) -> tuple[list[str], bool]:
    """The best nodes of the best class that are not in `last`, about `enough`; whether these are all."""
    pool: list[str] = []
    for code in next(_classes(table)):
        if len(pool) >= enough:
            return pool, False
        names = table.names(code)
        missing = enough - len(pool) + len(last)
        pool += filterfalse(last.__contains__, names[:missing]) if last else names[:missing]
        if missing < len(names):
            return pool, False
    return pool, True


def _classes(table: ClassTable) -> Iterator[Iterator[Code]]:
    """The scores of each class, the best first."""
    return (codes for _, codes in groupby(reversed(table.order), key=lambda code: code[: table.leading]))


def _by_name(table: ClassTable, names: Sequence[str], breadth: int, last: AbstractSet[str]) -> list[str]:
    """The best names by looking up every name."""
    known = table.codes
    fitting = {name: code for name in names if (code := known.get(name)) is not None}
    if not fitting:
        return []
    # The best leading terms are a prefix: exactly the codes that begin with them compare greater or equal.
    best = max(fitting.values())[: table.leading]
    by_code: dict[Code, list[str]] = {}
    for name, code in fitting.items():
        if code >= best:
            by_code.setdefault(code, []).append(name)
    return _fresh_first((sorted(by_code[code]) for code in sorted(by_code, reverse=True)), breadth, last)


def _fresh_first(hits: Iterable[Iterable[str]], breadth: int, last: AbstractSet[str]) -> list[str]:
    """The first `breadth` of the hits; those in `last` only if the others are not enough."""
    best: list[str] = []
    avoided: list[str] = []
    for equal in hits:
        for name in islice(equal, breadth - len(best)) if not last else equal:
            (avoided if name in last else best).append(name)
            if len(best) == breadth:
                return best
    return (best + avoided)[:breadth]

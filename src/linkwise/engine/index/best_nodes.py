"""Selection of the best nodes of a request from a score table.

Bound: one pass over the names of the request. Hashing each name costs more than parsing it, so the names are checked
against a small pool of the best nodes first, and looked up one by one only if the pool has too few of them.
"""

from __future__ import annotations

from itertools import filterfalse, islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence, Set as AbstractSet

    from linkwise.engine.index.score_table import ClassTable, Code

__all__ = ["best_names"]

WORTH: Final = 3
"""largest pool, as a multiple of the names: a larger one takes longer to build than looking up every name"""
PLENTY: Final = 4
"""expected hits, as a multiple of the breadth, above which the first hits are taken without sorting"""


def best_names(
    table: ClassTable, names: Sequence[str], breadth: int, last: AbstractSet[str] = frozenset()
) -> list[str]:
    """At most `breadth` of the names, all of the best class that any name is in, best first; those in `last` at the end.

    Empty only if none of the names fits.
    """
    if not table.codes:
        return []
    pool = 1.5 * breadth * len(table) / max(1, len(names))
    if pool <= WORTH * len(names) and (best := _by_pool(table, names, breadth, last, pool)) is not None:
        return best
    return _by_name(table, names, breadth, last)


def _by_pool(
    table: ClassTable, names: Sequence[str], breadth: int, last: AbstractSet[str], enough: float
) -> list[str] | None:
    """The best names by one pass against a pool of about `enough` nodes; None if the pool has too few of them."""
    sets, size, complete = _leading(table, enough, last)
    if not sets:
        return None
    if len(sets) == 1 and size * len(names) > PLENTY * breadth * len(table):
        # Nodes of equal score are interchangeable: take the first hits.
        hits = filter(sets[0].__contains__, names)
        first = list(islice(filterfalse(last.__contains__, hits) if last else hits, breadth))
        return first if len(first) == breadth else None
    pool = sets[0] if len(sets) == 1 else set[str]().union(*sets)
    in_pool = pool.intersection(names)
    fresh = in_pool.difference(last) if last else in_pool
    if len(fresh) < breadth and not complete:
        return None
    best = _first(sets, fresh, breadth, names)
    if len(best) < breadth and last:
        best += _first(sets, in_pool.intersection(last), breadth - len(best), names)
    return best or None


def _first(sets: list[set[str]], hits: set[str], most: int, names: Sequence[str]) -> list[str]:
    """At most `most` hits, best set first; within a set by name, or in request order if the set has many hits."""
    first: list[str] = []
    for equal in sets:
        in_set, missing = equal & hits, most - len(first)
        first += (
            islice(filter(in_set.__contains__, names), missing) if len(in_set) > PLENTY * missing else sorted(in_set)
        )
        if len(first) >= most:
            break
    return first[:most]


def _leading(table: ClassTable, enough: float, last: AbstractSet[str]) -> tuple[list[set[str]], int, bool]:
    """Sets of the best class, best score first, up to `enough` nodes not in `last`; their size; whether that is all."""
    sets: list[set[str]] = []
    size = 0
    best: Code | None = None
    for code in reversed(table.order):
        leading = code[: table.leading]
        if best is not None and leading != best:
            return sets, size, True
        if size >= enough:
            return sets, size, False
        best = leading
        equal = table.sets[code]
        sets.append(equal)
        size += len(equal) - (len(equal.intersection(last)) if last else 0)
    return sets, size, True


def _by_name(table: ClassTable, names: Sequence[str], breadth: int, last: AbstractSet[str]) -> list[str]:
    """The best names by looking up every name."""
    known = table.codes
    codes = list(map(known.get, names))
    fitting = list(filter(None, codes))
    if not fitting:
        return []
    # The best leading terms are a prefix: exactly the codes that begin with them compare greater or equal.
    best = max(fitting)[: table.leading]
    hits = [name for name, code in zip(names, codes, strict=True) if code and code >= best]
    hits.sort(key=known.__getitem__, reverse=True)
    if not last:
        return hits[:breadth]
    return [*(name for name in hits if name not in last), *(name for name in hits if name in last)][:breadth]

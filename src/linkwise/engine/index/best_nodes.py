"""The best of the names given, by classes that were worked out before.

Hashing the names of a request costs more than reading them, so the request is walked once against a small set of the
best nodes, and looked up name by name only where that finds nothing.
"""

from __future__ import annotations

from itertools import filterfalse, islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence, Set as AbstractSet

    from linkwise.engine.index.score_table import ClassTable, Code

__all__ = ["best_names"]

WORTH: Final = 3
"""times the names: a pool of more nodes takes longer to make than looking at the names one by one"""
PLENTY: Final = 4
"""times the breadth: of so many expected hits the first will do"""


def best_names(
    table: ClassTable, names: Sequence[str], breadth: int, last: AbstractSet[str] = frozenset()
) -> list[str]:
    """At most `breadth` of the names, all of the best class that has any, the best first; those in `last` at the end.

    Empty only if none of the names fits.
    """
    if not table.codes:
        return []
    pool = 1.5 * breadth * len(table) / max(1, len(names))
    if pool <= WORTH * len(names) and (found := _by_pool(table, names, breadth, last, pool)) is not None:
        return found
    return _by_name(table, names, breadth, last)


def _by_pool(
    table: ClassTable, names: Sequence[str], breadth: int, last: AbstractSet[str], enough: float
) -> list[str] | None:
    """By one walk over the names, against so many of the best nodes; None if that does not settle it."""
    sets, size, whole = _leading(table, enough, last)
    if not sets:
        return None
    if len(sets) == 1 and size * len(names) > PLENTY * breadth * len(table):
        # Nodes of one code are as good as each other: the first that are met.
        met = filter(sets[0].__contains__, names)
        found = list(islice(filterfalse(last.__contains__, met) if last else met, breadth))
        return found if len(found) == breadth else None
    pool = sets[0] if len(sets) == 1 else set[str]().union(*sets)
    hits = pool.intersection(names)
    fresh = hits.difference(last) if last else hits
    if len(fresh) < breadth and not whole:
        return None
    found = _first(sets, fresh, breadth, names)
    if len(found) < breadth and last:
        found += _first(sets, hits.intersection(last), breadth - len(found), names)
    return found or None


def _first(sets: list[set[str]], hits: set[str], most: int, names: Sequence[str]) -> list[str]:
    """So many hits, of the first sets first; of one set by name, or those met first where it has many."""
    found: list[str] = []
    for each in sets:
        met, wanted = each & hits, most - len(found)
        found += islice(filter(met.__contains__, names), wanted) if len(met) > PLENTY * wanted else sorted(met)
        if len(found) >= most:
            break
    return found[:most]


def _leading(table: ClassTable, enough: float, last: AbstractSet[str]) -> tuple[list[set[str]], int, bool]:
    """The sets of the best class, best code first, until they hold enough names but the last; whether they are all."""
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
        found = table.sets[code]
        sets.append(found)
        size += len(found) - (len(found.intersection(last)) if last else 0)
    return sets, size, True


def _by_name(table: ClassTable, names: Sequence[str], breadth: int, last: AbstractSet[str]) -> list[str]:
    known = table.codes
    codes = list(map(known.get, names))
    found = list(filter(None, codes))
    if not found:
        return []
    # The best leading terms are a prefix: only codes that begin with them are not below it.
    best = max(found)[: table.leading]
    hits = [name for name, code in zip(names, codes, strict=True) if code and code >= best]
    hits.sort(key=known.__getitem__, reverse=True)
    return _untouched_first(hits, breadth, last)


def _untouched_first(found: list[str], breadth: int, last: AbstractSet[str]) -> list[str]:
    if not last:
        return found[:breadth]
    return [*(name for name in found if name not in last), *(name for name in found if name in last)][:breadth]

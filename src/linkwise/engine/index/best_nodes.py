"""Selection of the best nodes of a request from a score table: by class, score and name.

Nodes with equal scores are ordered by name, because kube-scheduler sends the names in a different order every time.
Bound: one pass over the names of the request. Names are thousands, and counting or hashing them costs more than the rest of
the call, so the best nodes are searched among them first, then a small pool of the best, and only then all are hashed.
"""

from __future__ import annotations

from itertools import chain, filterfalse, groupby, islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set as AbstractSet

    from linkwise.engine.index.score_table import ClassTable, Code

__all__ = ["GUESSES", "best_names", "first_guess", "named", "pool_size"]

FEW: Final = 4
"""if there are this many times more nodes than names, the names are looked up one by one"""

GUESSES: Final = 3
"""nodes that are searched among the names one by one: three searches take as long as hashing all names"""


def best_names(
    table: ClassTable, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()
) -> list[str]:
    """At most `breadth` of the names that are not in `without`, all of the best class that any of them is in.

    The best come first, and equal ones by name. Empty only if none of these names fits.
    """
    if not table.codes or not names:
        return []
    if breadth == 1 and (best := first_guess(_leading(table, GUESSES, without)[0], names)):
        return best
    if len(names) * FEW <= len(table):
        return _by_name(table, names, breadth, without)
    pool, complete = _leading(table, pool_size(breadth, len(names), len(table)), without)
    best = named(pool, names, breadth)
    if len(best) == breadth or (best and complete):
        return best
    wanted = set(names)
    wanted -= without
    for codes in _classes(table):
        hits = chain.from_iterable(filter(wanted.__contains__, table.names(code)) for code in codes)
        if best := list(islice(hits, breadth)):
            return best
    return []


def pool_size(breadth: int, names: int, nodes: int) -> int:
    """The number of best nodes that almost always has enough of the names."""
    return int((2 * breadth + 14) * max(1.0, nodes / max(1, names)))


def first_guess(guesses: Sequence[str], names: Sequence[str]) -> list[str]:
    """The first of the guesses that is among the names, in a list."""
    return next(([name] for name in guesses if name in names), [])


def named(pool: Sequence[str], names: Sequence[str], breadth: int) -> list[str]:
    """The first `breadth` nodes of an ordered pool that are among the names."""
    in_pool = set(pool).intersection(names)
    return list(islice(filter(in_pool.__contains__, pool), breadth))


def _leading(table: ClassTable, enough: int, without: AbstractSet[str]) -> tuple[list[str], bool]:
    """The best nodes of the best class that are not in `without`, about `enough`; whether these are all."""
    pool: list[str] = []
    for code in next(_classes(table)):
        if len(pool) >= enough:
            return pool, False
        names = table.names(code)
        missing = enough - len(pool) + len(without)
        pool += filterfalse(without.__contains__, names[:missing]) if without else names[:missing]
        if missing < len(names):
            return pool, False
    return pool, True


def _classes(table: ClassTable) -> Iterator[Iterator[Code]]:
    """The scores of each class, the best first."""
    return (codes for _, codes in groupby(reversed(table.order), key=lambda code: code[: table.leading]))


def _by_name(table: ClassTable, names: Sequence[str], breadth: int, without: AbstractSet[str]) -> list[str]:
    """The best names by looking up every name."""
    known = table.codes
    fitting = {name: code for name in names if (code := known.get(name)) is not None and name not in without}
    if not fitting:
        return []
    # The best leading terms are a prefix: exactly the codes that begin with them compare greater or equal.
    best = max(fitting.values())[: table.leading]
    by_code: dict[Code, list[str]] = {}
    for name, code in fitting.items():
        if code >= best:
            by_code.setdefault(code, []).append(name)
    ordered = chain.from_iterable(sorted(by_code[code]) for code in sorted(by_code, reverse=True))
    return list(islice(ordered, breadth))

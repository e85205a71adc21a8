"""What was worked out about a machine, kept for as long as memory allows.

A machine's links do not change, so tables and answers are kept by matrix and shared by every question about it. This is
the one place of this layer that keeps state: a memory of pure results, bounded to LIMIT bytes for the whole process.

What was worked out of an object, remembered by the object itself: comparing large values takes as long as the work.
"""
# Joined from memory, once: one docstring for all.

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["LIMIT", "BoundedCache", "Kept", "cached_by_identity", "recall"]

LIMIT: Final = 48_000_000  # bytes, estimated from above
_ANSWER: Final = 1200  # bytes of a remembered answer with its key
_ANSWERS: Final = 8000  # remembered answers of one machine
_EMPTY: Final = 3000  # bytes of a machine without its matrices and tables
_CELL: Final = 96  # bytes of a pair in the key and in the matrices made from it

K = TypeVar("K", bound="Kept")


class Kept:
    """Something with tables and answers; it reports what they take."""

    __slots__ = ("_answers", "cost", "memory")

    def __init__(self, devices: int = 0) -> None:
        self.cost = _EMPTY + _CELL * devices * devices
        self.memory: BoundedCache | None = None
        self._answers: dict[Hashable, object] = {}

    def remembered(self, question: Hashable) -> object | None:
        """The answer to a question asked before."""
        return self._answers.get(question)

    def remember(self, question: Hashable, answer: object) -> None:
        """Keep an answer; all of this machine's are dropped when they are too many."""
        if len(self._answers) >= _ANSWERS:
            self._answers.clear()
            self.spend(-_ANSWERS * _ANSWER)
        self._answers[question] = answer
        self.spend(_ANSWER)

    def spend(self, amount: int) -> None:
        """Report so many bytes more."""
        self.cost += amount
        if self.memory:
            self.memory.spend(self, amount)


class BoundedCache:
    """Kept things by key; the one not asked for the longest goes first when memory is short."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit: Final = limit
        self._kept: dict[Hashable, Kept] = {}
        self.spent = 0

    def recall(self, kind: type[K], key: Hashable, make: Callable[[], K]) -> K:
        """The thing of that key, made if it is not here."""
        entry = (kind, key)
        found = self._kept.pop(entry, None)
        if not isinstance(found, kind):
            found = make()
            found.memory = self
            self.spent += found.cost
        self._kept[entry] = found  # now the last: dictionaries keep the order of entry
        self._trim(found)
        return found

    def spend(self, spender: Kept, amount: int) -> None:
        """Count so many bytes more, and make room for them."""
        self.spent += amount
        self._trim(spender)

    def _trim(self, spender: Kept) -> None:
        while self.spent > self._limit and len(self._kept) > 1:
            key, oldest = next(item for item in self._kept.items() if item[1] is not spender)
            del self._kept[key]
            oldest.memory = None
            self.spent -= oldest.cost


_process: Final = BoundedCache()
recall: Final = _process.recall


T = TypeVar("T")
R = TypeVar("R")


def cached_by_identity(work: Callable[[T], R], most: int) -> Callable[[T], R]:
    """The same function, which works once for each object that is never changed; the oldest of more than `most` is forgotten."""
    known: dict[int, tuple[T, R]] = {}  # the object is kept, so that no other one gets its number

    def answer(asked: T) -> R:
        found = known.get(id(asked))
        if found is None:
            found = known[id(asked)] = (asked, work(asked))
            if len(known) > most:
                del known[next(iter(known))]
        return found[1]

    return answer

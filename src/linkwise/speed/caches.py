"""Caches of pure results: per machine, bounded by memory, and per object, keyed by identity.

Buys: a machine's links do not change, so tables and answers are computed once per matrix and shared by every question
about it, within LIMIT bytes for the process. `cached_by_identity` avoids hashing large values, which would take as long
as the work itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["LIMIT", "BoundedCache", "CachedMachine", "cached_by_identity", "recall"]

LIMIT: Final = 48_000_000  # bytes, estimated from above
_ANSWER: Final = 1200  # bytes of a cached answer with its key
_ANSWERS: Final = 8000  # cached answers per machine
_EMPTY: Final = 3000  # bytes of a machine without its matrices and tables
_CELL: Final = 96  # bytes of a pair in the key and in the matrices computed from it

K = TypeVar("K", bound="CachedMachine")


class CachedMachine:
    """Base of machines with tables and cached answers, which reports their size to the cache."""

    __slots__ = ("_answers", "cost", "memory")

    def __init__(self, devices: int = 0) -> None:
        self.cost = _EMPTY + _CELL * devices * devices
        self.memory: BoundedCache | None = None
        self._answers: dict[Hashable, object] = {}

    def remembered(self, question: Hashable) -> object | None:
        """The cached answer to a question."""
        return self._answers.get(question)

    def remember(self, question: Hashable, answer: object) -> None:
        """Cache an answer; all answers of this machine are dropped if there are too many."""
        if len(self._answers) >= _ANSWERS:
            self._answers.clear()
            self.spend(-_ANSWERS * _ANSWER)
        self._answers[question] = answer
        self.spend(_ANSWER)

    def spend(self, amount: int) -> None:
        """Report additional bytes."""
        self.cost += amount
        if self.memory:
            self.memory.spend(self, amount)


class BoundedCache:
    """Machines by key, within a limit of bytes; the least recently used is dropped first."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit: Final = limit
        self._machines: dict[Hashable, CachedMachine] = {}
        self.spent = 0

    def recall(self, kind: type[K], key: Hashable, make: Callable[[], K]) -> K:
        """The machine of a key, made if it is not cached."""
        entry = (kind, key)
        machine = self._machines.pop(entry, None)
        if not isinstance(machine, kind):
            machine = make()
            machine.memory = self
            self.spent += machine.cost
        self._machines[entry] = machine  # moved to the end: dictionaries keep insertion order
        self._trim(machine)
        return machine

    def spend(self, spender: CachedMachine, amount: int) -> None:
        """Count additional bytes and drop other machines if they exceed the limit."""
        self.spent += amount
        self._trim(spender)

    def _trim(self, spender: CachedMachine) -> None:
        while self.spent > self._limit and len(self._machines) > 1:
            key, oldest = next(item for item in self._machines.items() if item[1] is not spender)
            del self._machines[key]
            oldest.memory = None
            self.spent -= oldest.cost


_process: Final = BoundedCache()
recall: Final = _process.recall


T = TypeVar("T")
R = TypeVar("R")


def cached_by_identity(work: Callable[[T], R], most: int) -> Callable[[T], R]:
    """A function of immutable objects, cached by identity for at most `most` objects; the oldest is dropped first."""
    known: dict[int, tuple[T, R]] = {}  # holds the object as well, so that its id is not reused

    def answer(value: T) -> R:
        entry = known.get(id(value))
        if entry is None:
            entry = known[id(value)] = (value, work(value))
            if len(known) > most:
                del known[next(iter(known))]
        return entry[1]

    return answer

"""What was worked out of an object, remembered by the object itself: comparing large values takes as long as the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["once"]

T = TypeVar("T")
R = TypeVar("R")


def once(work: Callable[[T], R], most: int) -> Callable[[T], R]:
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

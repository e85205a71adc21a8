"""How work grows with what it is done on, in seconds of the processor: a machine that is busy or slow tells the same."""

from __future__ import annotations

from time import thread_time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TIMES", "growth"]

TIMES: Final = 10
"""as much is done the second time"""
_LEAST: Final = 0.05  # seconds; less is told by chance


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as long it takes for ten times the size: about 10 where each piece costs the same, else up to 100."""
    small, large = _seconds(work, size // TIMES), _seconds(work, size)
    return large / max(small, _LEAST)


def _seconds(work: Callable[[int], object], size: int) -> float:
    begin = thread_time()
    work(size)
    return thread_time() - begin

"""Pods that the scheduler asked about and that the watch has not delivered yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.engine.queue.unschedulable import UnschedulablePod

__all__ = ["MAX_UNOBSERVED", "UNOBSERVED_TIME", "UnobservedPods"]

MAX_UNOBSERVED: Final = 10_000
"""pods that are kept though they were not observed"""
UNOBSERVED_TIME: Final = 90.0  # seconds
"""for which each is kept; a silent watch is restarted after a minute"""


class UnobservedPods:
    """Those pods by UID."""

    def __init__(self) -> None:
        self.asked: dict[str, float] = {}
        """time of the last filter call of each pod, oldest first"""
        self.refused: dict[str, UnschedulablePod] = {}
        """refused pods; they become unschedulable pods once the watch delivers them"""
        self.shown: dict[str, None] = {}
        """pods that the watch delivered since this was last emptied"""

    def note(self, uid: str, now: float) -> None:
        """The pod asks."""
        self.drop(uid)
        self.asked[uid] = now

    def drop(self, uid: str) -> None:
        """The pod was seen, or is forgotten."""
        for book in (self.asked, self.refused, self.shown):
            book.pop(uid, None)

    def next_end(self) -> float | None:
        """When the next one is to be forgotten."""
        return next(iter(self.asked.values())) + UNOBSERVED_TIME if self.asked else None

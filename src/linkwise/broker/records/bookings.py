"""Booking records: what is known about allocations of another scheduler beside the ledger.

Pods that its session has evicted and that still hold their devices, and the attempts to write the devices of pods that it
has bound. Both can be lost: an eviction is announced again, and a record that is missing is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LONGEST", "Attempt", "Bookings"]

FIRST: Final = 2.0  # seconds
LONGEST: Final = 60.0  # seconds
"""between two attempts"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempts to choose or to write the devices of a pod that another scheduler has bound."""

    due: float = 0.0
    """when the next one is made, if the pod is not observed with its devices before"""
    tries: int = 0
    problem: str = ""
    """why no devices could be chosen"""

    def again(self, now: float, problem: str = "") -> Attempt:
        """The next attempt, after a time that doubles."""
        return Attempt(now + min(LONGEST, FIRST * 2**self.tries), min(self.tries + 1, 10), problem)


@dataclass(slots=True)
class Bookings:
    """Records by the UID of the pod."""

    leaving: dict[str, float] = field(default_factory=dict)
    """bound pods that a Volcano session evicts, and until when that counts"""
    attempts: dict[str, Attempt] = field(default_factory=dict)

    def restore(self, leaving: Mapping[str, float], attempts: Mapping[str, Attempt]) -> None:
        """Replace the content with that of a snapshot."""
        self.leaving, self.attempts = dict(leaving), dict(attempts)

"""Records beside the ledger: bookings of another scheduler, and preemptions that Linkwise requested itself.

Bookings are of pods that its session has evicted and that still hold their devices, and of attempts to write the devices
of pods that it has bound. Both can be lost: an eviction is announced again, and a record that is missing is written.

One preemption record per preemptor, a group or a single pod. It ends when the preemptor has its devices, is gone or found
others, when an eviction was refused, and at its deadline; then everything that it holds is released.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.engine.planning.plan import Plan  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["LONGEST", "Attempt", "Bookings", "Preemption", "Preemptions"]

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
        # The count stops at ten: the longest pause is reached by then, and the power stays small.
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


@dataclass(frozen=True, slots=True)
class Preemption:
    """Pods that are evicted for one preemptor, and the room that is held for it."""

    preemptor: str
    """key of the group, or UID of the pod"""
    plan: Plan
    """where the preemptor goes when the victims are gone"""
    victims: tuple[str, ...]
    """UIDs of the pods whose end is awaited; empty once all are gone"""
    until: float
    namespace: str = "default"
    """of the preemptor"""
    is_ready: bool = False
    """whether all victims are gone, and the pod was woken to take its room"""


@dataclass(slots=True)
class Preemptions:
    """Records by preemptor."""

    records: dict[str, Preemption] = field(default_factory=dict)
    avoided: dict[str, float] = field(default_factory=dict)
    """pods whose eviction was refused, and until when no other is requested"""
    attempts: dict[str, int] = field(default_factory=dict)
    """requests sent, by victim"""
    later: dict[str, float] = field(default_factory=dict)
    """preemptors that no eviction helped, and when that is looked into again"""
    next_scan: float = 0.0
    """when unschedulable groups and pods are looked into again"""
    _by_victim: dict[str, str] = field(default_factory=dict)

    def of_victim(self, uid: str) -> str:
        """The preemptor for which a pod is evicted; empty if there is none."""
        return self._by_victim.get(uid, "")

    def put(self, record: Preemption) -> None:
        """Set the record of a preemptor."""
        before = self.records.get(record.preemptor)
        for uid in before.victims if before else ():
            self._by_victim.pop(uid, None)
        self.records[record.preemptor] = record
        self._by_victim |= dict.fromkeys(record.victims, record.preemptor)

    def remove(self, preemptor: str) -> Preemption | None:
        """Remove the record of a preemptor."""
        record = self.records.pop(preemptor, None)
        for uid in record.victims if record else ():
            self._by_victim.pop(uid, None)
            self.attempts.pop(uid, None)
        return record

    def restore(self, records: Iterable[Preemption], avoided: Mapping[str, float]) -> None:
        """Replace the content with that of a snapshot."""
        for preemptor in list(self.records):
            self.remove(preemptor)
        for record in records:
            self.put(record)
        self.avoided = dict(avoided)

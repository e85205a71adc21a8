"""Election: what a replica does about the Lease, decided from what it has seen of it; no I/O, and no clock inside.

Times are seconds of this replica's own monotonic clock. The timestamps in the Lease are for people: clocks of different
machines are never compared. A replica may take a Lease of another one when it has seen no renewal of it for a full lease
duration. The other one has stopped writing by then: it writes only as long as the start of its last successful renewal is
less than the renew deadline ago, and the replica that takes over saw that renewal later than it was started.

What is done with a Lease, by its holder:

    absent               create it; if another replica held it before, only when its time is over
    released             take it at once: its holder had stopped writing before it released it
    this replica         renew it
    another, renewed     wait
    another, overdue     take it

A replica that led and finds the Lease in any other state than held by itself has lost it for good: another replica may have
led in between, and what this one believes may be outdated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

__all__ = [
    "Action",
    "Fence",
    "LeaseSpec",
    "LeaseTimes",
    "Sighting",
    "decide",
    "observe",
    "released",
    "renewed",
    "taken",
]

Action = Literal["create", "take", "renew", "wait", "lost"]


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times of an election, in seconds."""

    duration: float = 15.0
    """for which no renewal is seen before another replica takes the Lease"""
    renew_deadline: float = 10.0
    """from the start of a renewal, for which its replica may write"""
    retry_period: float = 2.0
    """between two renewals, or two looks"""


@dataclass(frozen=True, slots=True)
class LeaseSpec:
    """The fields of a Lease that an election writes, as other clients of Kubernetes do."""

    holder: str = ""
    """empty if it was released"""
    duration: int = 0  # seconds
    acquired: str = ""
    """timestamp, for people"""
    renewed: str = ""
    """timestamp, for people"""
    transitions: int = 0
    """how often the holder changed"""
    version: str = ""
    """resourceVersion: a renewal is seen by it, since the clock of the holder may have been set back"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a replica knows of the Lease."""

    spec: LeaseSpec | None = None
    """as last seen; None if there is none"""
    seen: bool = False
    """whether it was looked for at all"""
    free_at: float = -math.inf
    """from when on another replica, which held it when it was last seen, is certain not to write"""
    led: bool = False
    """whether this replica has held it"""


def observe(last: Sighting, spec: LeaseSpec | None, me: str, now: float, times: LeaseTimes) -> Sighting:
    """Note the Lease as it was read; `now` is when the answer was there."""
    if spec is None:
        return replace(last, spec=None, seen=True)  # who held it before may not know yet
    if spec.holder == me:
        return replace(last, spec=spec, seen=True, led=True)
    if not spec.holder:
        return replace(last, spec=spec, seen=True, free_at=now)
    if last.seen and spec == last.spec:
        return last
    # The holder's own duration counts if it is longer: its deadline may be, too.
    return replace(last, spec=spec, seen=True, free_at=now + max(times.duration, float(spec.duration)))


def decide(last: Sighting, me: str, now: float) -> Action:
    """What to do about the Lease as it was last seen."""
    if not last.seen:
        return "wait"
    holder = last.spec.holder if last.spec else None
    if holder == me:
        return "renew"
    if last.led:
        return "lost"
    if now < last.free_at:
        return "wait"
    return "create" if holder is None else "take"


def taken(before: LeaseSpec | None, me: str, duration: int, stamp: str) -> LeaseSpec:
    """The Lease as this replica takes it, or creates it."""
    return LeaseSpec(me, duration, stamp, stamp, before.transitions + 1 if before else 0)


def renewed(before: LeaseSpec, duration: int, stamp: str) -> LeaseSpec:
    """The Lease with another renewal."""
    return replace(before, duration=duration, renewed=stamp)


def released(before: LeaseSpec, stamp: str) -> LeaseSpec:
    """The Lease without a holder, so that the next replica need not wait."""
    return replace(before, holder="", duration=1, renewed=stamp)


@dataclass(slots=True)
class Fence:
    """Whether this replica may write now: it has taken over, and its last successful renewal started recently."""

    deadline: float
    """seconds from the start of a renewal"""
    started: float | None = None
    """when the last successful renewal was sent"""
    open: bool = False
    """whether it has taken over: it has seen all that an earlier leader wrote"""

    def renew(self, started: float) -> None:
        """Note a successful renewal, by when it was sent."""
        self.started = started

    def holds(self, now: float) -> bool:
        """Whether the last renewal is recent."""
        return self.started is not None and now - self.started < self.deadline

    def left(self, now: float) -> float:
        """Seconds for which the last renewal stays recent."""
        return 0.0 if self.started is None else max(0.0, self.started + self.deadline - now)

    def may_write(self, now: float) -> bool:
        """Whether a write may be sent at this moment."""
        return self.open and self.holds(now)

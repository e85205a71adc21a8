"""Reservations: nodes that are drained for the first in the queue, because smaller pods would pass it forever.

A reservation belongs to a pod or to a group. It says on which node each of the pods should go and until when that is tried;
which devices are kept free for it follows from the state of these nodes, by `reserved_room`. When its time is over without
success, its owner waits for as long again before the next attempt, so that others get their turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkwise.engine.queue.reserved_room import ReservedRoom

__all__ = ["RESERVED", "Refused", "Reservation", "Reservations"]

RESERVED: Final = "/reserved"
"""ends the names of ledger entries that keep devices free for a pod"""
MOST_SCHEDULERS: Final = 64
MOST_REFUSED: Final = 10_000
"""owners that are remembered though nothing could be reserved for them"""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are drained for one pod or group."""

    owner: str
    """UID of the pod, or key of the group"""
    seats: tuple[tuple[str, str], ...]
    """UID and node of each pod"""
    priority: int
    made: float
    until: float
    ready: float | None = None
    """when its room was complete and the owner was woken last; None while something is in use"""
    tries: int = 0
    """how often the owner was refused since then"""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, in order."""
        return tuple(sorted({node for _, node in self.seats}))


@dataclass(frozen=True, slots=True)
class Refused:
    """An owner that gets no reservation for a while."""

    until: float
    avoided: frozenset[str] = frozenset()
    """nodes that its scheduler did not accept"""


class Reservations:
    """Reservations by owner, the oldest first, and what is derived from them."""

    def __init__(self) -> None:
        self.made: dict[str, Reservation] = {}
        """by owner, the oldest first; only verbs of this class change it"""
        self.refused: dict[str, Refused] = {}
        self.rooms: dict[str, dict[str, ReservedRoom]] = {}
        """by owner and node; derived, and worked out again when a node changes"""
        self.checked = 0
        """how far the nodes were checked: changes, as the index counts them"""
        self.searched: float | None = None
        """when an owner for the next reservation was last looked for"""
        self.schedulers: set[str] = set()
        """the schedulers that ask here; pods of others are none of the queue's"""

    def __len__(self) -> int:
        return len(self.made)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(list(self.made.values()))

    def get(self, owner: str) -> Reservation | None:
        """The reservation of a pod or group."""
        return self.made.get(owner)

    def of_pod(self, uid: str) -> Reservation | None:
        """The reservation that has a seat for a pod."""
        return next((each for each in self.made.values() if any(uid == pod for pod, _ in each.seats)), None)

    def put(self, reservation: Reservation) -> None:
        """Add or change a reservation."""
        self.made[reservation.owner] = reservation

    def end(self, owner: str) -> None:
        """Remove a reservation."""
        self.made.pop(owner, None)
        self.rooms.pop(owner, None)

    def refuse(self, owner: str, until: float, avoided: Iterable[str] = ()) -> None:
        """Reserve nothing for an owner until then."""
        known = self.refused.pop(owner, None)
        self.refused[owner] = Refused(until, (known.avoided if known else frozenset()).union(avoided))
        if len(self.refused) > MOST_REFUSED:
            del self.refused[next(iter(self.refused))]

    def asked_by(self, scheduler: str) -> None:
        """A scheduler asked about a pod of its own."""
        if len(self.schedulers) < MOST_SCHEDULERS:
            self.schedulers.add(scheduler)

    def taken(self) -> set[str]:
        """The nodes of all reservations."""
        return {node for each in self.made.values() for _, node in each.seats}

    def restore(self, made: Iterable[Reservation], refused: Mapping[str, Refused], schedulers: Iterable[str]) -> None:
        """Replace the content with that of a snapshot."""
        self.made = {each.owner: each for each in made}
        self.refused, self.schedulers = dict(refused), set(schedulers)
        self.rooms, self.checked = {}, 0

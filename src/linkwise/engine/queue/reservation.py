"""Reservations: nodes drained for the first in the queue, which smaller pods would pass forever.

A reservation belongs to a pod or to a group. It says on which node each of the pods should go and until when that is tried;
which devices are kept free for it follows from the state of these nodes. When its time is over without success, its owner
waits for as long again before the next attempt, so that others get their turn.

As little as possible is waited for: fewest devices in use (or least memory, for a share of one), then fewest pods. Whatever
the waiting pods do not need stays available to others. Worked out again whenever the node changes, so that a pod that ends
elsewhere on the node than expected helps as well.

Bound: a few dozen picks on one node. Pods are kept one by one as long as the rest would fit, once per pod that is kept first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.engine.ledger import is_whole
from linkwise.engine.usage import node_after, node_of, usage_of
from linkwise.model.node import FREE
from linkwise.model.verdict import Offer, key_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry, Key
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Node
    from linkwise.model.verdict import Part

__all__ = ["Refused", "Reservation", "Reservations", "ReservedRoom", "room_on"]

# Bounded, because any user may write any name into a pod.
MOST_SCHEDULERS: Final = 64
MOST_REFUSED: Final = 10_000
"""owners that are remembered though nothing could be reserved for them"""
WHOLE_CORE: Final = 100  # percent
PASSES: Final = 16
"""pods that are tried as the first to be kept"""


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
            # The one that was refused first, whose pause ends soonest.
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


@dataclass(frozen=True, slots=True)
class ReservedRoom:
    """What is kept free on one node, and what is still in use."""

    kept: tuple[Offer, ...]
    """for each waiting pod what is free now of the devices that it should get; without parts if nothing is"""
    free: int
    """devices that are kept, or memory of one device if a share is waited for"""
    needed: int
    """the same once nothing is in use any more"""
    awaited: tuple[Key, ...] = ()
    """pods that must end first, or for which others keep devices free; none if there is room for all waiting pods"""

    @property
    def lacking(self) -> tuple[int, int]:
        """How much is waited for: fewer devices or less memory is better, then fewer pods."""
        return self.needed - self.free, len(self.awaited)


def room_on(
    inventory: NodeInventory, entries: Sequence[Entry], queries: Sequence[Query], ended: Collection[Key] = ()
) -> ReservedRoom | None:
    """The room that a node has or would have for these queries; None if it can never serve all of them.

    `entries` are those of the node without what is reserved for the same pods; devices reserved for others are not waited for.
    """
    here = _node(inventory, entries, (), ended)
    if any(here.mode not in {"any", query.ask.mode} for query in queries):
        return None  # which pods the other mode ends with is not known
    now = _seated(here, queries)
    if now is not None:
        return _still_free(here, now, queries, ())
    rooms = [
        _still_free(here, offers, queries, gone)
        for gone in _leavers(inventory, entries, queries, ended)
        if (offers := _seated(_node(inventory, entries, gone, ended), queries)) is not None
    ]
    return min(rooms, key=lambda room: (room.lacking, [*map(key_order, room.awaited)])) if rooms else None


def _leavers(
    inventory: NodeInventory, entries: Sequence[Entry], queries: Sequence[Query], ended: Collection[Key]
) -> Iterator[tuple[Key, ...]]:
    """Minimal sets of pods whose end makes room for the queries."""

    def fits(gone: Collection[Key]) -> bool:
        return _seated(_node(inventory, entries, gone, ended), queries) is not None

    # Kept first: pods that are not about to end, the largest, the youngest.
    pods = sorted(
        (entry for entry in entries if entry.state != "RESERVED"),
        key=lambda entry: (entry.state == "RELEASING", -_size(entry), -entry.created, key_order(entry.key)),
    )
    everyone = [entry.key for entry in pods]
    starts = [everyone]
    if not any(query.ask.devices for query in queries):  # a share is on one device: only pods on that device matter
        starts += [[entry.key for entry in pods if device.id in _devices(entry)] for device in inventory.devices]
    for start in starts:
        if fits(start):
            yield _pruned(start, fits)
    for first in everyone[:PASSES]:
        rest = [pod for pod in everyone if pod != first]
        if fits(rest):
            yield _pruned(rest, fits)


def _pruned(pods: Sequence[Key], fits: Callable[[Collection[Key]], bool]) -> tuple[Key, ...]:
    """The pods that must go, after keeping one after the other as long as the rest makes enough room."""
    gone = dict.fromkeys(pods)
    for pod in pods:
        if fits(gone.keys() - {pod}):
            del gone[pod]
    return tuple(sorted(gone, key=key_order))


def _node(inventory: NodeInventory, entries: Sequence[Entry], gone: Collection[Key], ended: Collection[Key]) -> Node:
    staying = [entry for entry in entries if entry.key not in gone]
    return node_of(inventory, usage_of(inventory, staying, {*gone, *ended}))


def _seated(node: Node, queries: Sequence[Query]) -> list[Offer] | None:
    """An offer for each query, one after the other; None if one does not fit."""
    offers: list[Offer] = []
    for query in queries:
        offer = query.pick(node)
        if not isinstance(offer, Offer):
            return None
        offers.append(offer)
        node = node_after(node, offer, query.ask.domain, query.ask.mode)
    return offers


def _still_free(here: Node, offers: Sequence[Offer], queries: Sequence[Query], gone: tuple[Key, ...]) -> ReservedRoom:
    """What of the offers is free on the node as it is."""
    free_offers: list[Offer] = []
    needed = free = 0
    for offer, query in zip(offers, queries, strict=True):
        parts: list[Part] = []
        for part in offer.parts:
            own = list(_free_parts(here, part))
            parts += own
            needed += len(part.devices) if is_whole(part) else part.share
            free += sum(len(each.devices) if is_whole(part) else each.share for each in own if _is_like(each, part))
            here = node_after(here, Offer(here.name, tuple(own)), query.ask.domain, query.ask.mode)
        free_offers.append(Offer(here.name, tuple(parts)))
    return ReservedRoom(tuple(free_offers), free, needed, gone)


def _free_parts(node: Node, part: Part) -> Iterator[Part]:
    """What is free of a part: unused devices, and what is left of devices that others share."""
    unused, rooms = {device.id for device in node.free()}, node.room()
    if is_whole(part) and (devices := tuple(device for device in part.devices if device in unused)):
        yield replace(part, devices=devices)
    for device in part.devices:
        use = node.used.get(device, FREE)
        if use.whole or (is_whole(part) and device in unused):
            continue
        share, core = rooms.get(device, 0), max(0, WHOLE_CORE - use.core - node.unattributed_core)
        if not is_whole(part):
            share, core = min(share, part.share), min(core, part.core)
        if share or core:
            yield replace(part, devices=(device,), share=share, core=core)


def _is_like(own: Part, part: Part) -> bool:
    """Whether both are whole devices, or both are shares."""
    return is_whole(own) == is_whole(part)


def _devices(entry: Entry) -> set[str]:
    return {device for part in entry.grant.offer.parts for device in part.devices}


def _size(entry: Entry) -> int:
    parts = entry.grant.offer.parts
    return sum(len(part.devices) if is_whole(part) else part.share for part in parts)

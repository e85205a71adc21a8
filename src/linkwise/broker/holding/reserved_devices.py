"""Reserved devices: the ledger entries that keep devices free for the owner of a reservation, and what they mean to others.

`broker.reservations` decides for whom nodes are drained. For every other pod reserved devices are in use; its owner sees them
as free, and a pod of higher priority that fits nowhere else ends the reservation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.readers import outbid_text, pod_events
from linkwise.broker.wake_ups import flush
from linkwise.engine.preemption import eviction_frees_enough
from linkwise.engine.reasons.phrases import count_text, groups_text, pod_text, with_unit
from linkwise.engine.usage import node_of, usage_of
from linkwise.model.verdict import Reason, ReservedKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.broker.effects import Event
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry
    from linkwise.engine.queue.reservation import Reservation
    from linkwise.model.node import Node
    from linkwise.model.views import PodView

__all__ = [
    "drain_text",
    "drained_for",
    "end_reservation",
    "events",
    "give_up",
    "outranked",
    "owner_text",
    "release",
    "reserved_entry",
    "reserved_nodes",
    "reserved_reason",
    "yield_reservation",
]

MOST_NAMED: Final = 3
"""nodes that are named in a sentence"""


def reserved_entry(state: State, uid: str) -> Entry | None:
    """Return what is kept free for a pod."""
    return state.cluster.ledger.get(ReservedKey(uid, "reservation"))


def reserved_nodes(state: State, uids: Iterable[str]) -> dict[str, Node]:
    """Return the nodes on which devices are kept free for these pods, as the pods see them: with the devices free."""
    cluster, kept = state.cluster, {ReservedKey(uid, "reservation") for uid in uids}
    nodes: dict[str, Node] = {}
    for name in {entry.node for key in kept if (entry := cluster.ledger.get(key))} & cluster.inventories.keys():
        inventory = cluster.inventories[name]
        staying = [entry for entry in cluster.ledger.on(name) if entry.key not in kept]
        nodes[name] = node_of(inventory, usage_of(inventory, staying, cluster.ended_on(inventory)))
    return nodes


def release(state: State, uids: Iterable[str]) -> list[str]:
    """Release what is kept free for these pods, which get other devices or none; return the nodes."""
    return state.cluster.ledger.drop_reserved(uids, "reservation")


def end_reservation(state: State, reservation: Reservation) -> None:
    """End a reservation, and release its devices."""
    release(state, (uid for uid, _ in reservation.seats))
    state.reservations.end(reservation.owner)


def reserved_reason(state: State, query: Query, name: str, uid: str = "") -> Reason | None:
    """Return a refusal if the node has enough free devices for a query, and they are reserved for others than this pod."""
    cluster = state.cluster
    inventory = cluster.inventories.get(name)
    kept = [entry for entry in cluster.ledger.on(name) if entry.purpose == "reservation" and entry.pod != uid]
    if inventory is None or not kept or cluster.index.unserved(query, name):
        return None
    keys = {entry.key for entry in kept}
    if not eviction_frees_enough(cluster.ledger, inventory, query, keys, cluster.ended_on(inventory)):
        return None
    reservation = state.reservations.of_pod(kept[0].pod)
    return Reason("001.hold", found=owner_text(state, reservation) if reservation else "another pod", kind="reserved")


def outranked(state: State, priority: int, uids: Iterable[str] = ()) -> list[Reservation]:
    """Return the reservations of lower priority, the lowest first, then the newest; none that has a seat for these pods."""
    own = set(uids)
    lower = [
        each for each in state.reservations if each.priority < priority and own.isdisjoint(uid for uid, _ in each.seats)
    ]
    return sorted(lower, key=lambda each: (each.priority, -each.made, each.owner))


def yield_reservation(state: State, pod: PodView, query: Query, names: Sequence[str]) -> bool:
    """End a reservation of lower priority if the pod fits on one of the nodes then; false if that helps nowhere."""
    cluster = state.cluster
    for each in outranked(state, pod.priority, (pod.uid,)):
        kept = {ReservedKey(uid, "reservation") for uid, _ in each.seats}
        for name in each.nodes:
            inventory = cluster.inventories.get(name)
            if name not in names or inventory is None or cluster.index.unserved(query, name):
                continue
            if eviction_frees_enough(cluster.ledger, inventory, query, kept, cluster.ended_on(inventory)):
                give_up(state, each, pod.uid, pod.priority)
                flush(state)
                return True
    return False


def give_up(state: State, reservation: Reservation, winner: str, priority: int) -> None:
    """End a reservation for a pod or group of higher priority: the UID of the pod, or the key of the group."""
    end_reservation(state, reservation)
    sentence = lambda reader: f"its reservation ended for {outbid_text(reader, winner, priority)}"  # noqa: E731 - a text in a line
    state.outbox.add(events(state, reservation, "ReservationEnded", sentence))


def events(state: State, reservation: Reservation, reason: str, sentence: str | Callable[[State], str]) -> list[Event]:
    """Return an event for the owner, or for each pending member of a group."""
    pods = [pod for uid, _ in reservation.seats if (pod := state.cluster.pods.get(uid)) and not pod.node]
    return pod_events(state, pods, "Normal", reason, sentence)


def owner_text(state: State, reservation: Reservation) -> str:
    """Return the owner for a sentence: `pod default/trainer`, `group default/gang`."""
    if reservation.owner in state.groups:
        return groups_text([state.group_name(reservation.owner)])
    return pod_text(state.name_of(reservation.owner))


def drained_for(state: State, uid: str) -> str:
    """Return how far nodes are drained for a pod; empty if none is."""
    reservation = state.reservations.of_pod(uid)
    return drain_text(state, reservation) if reservation else ""


def drain_text(state: State, reservation: Reservation) -> str:
    """Return how far its nodes are drained: `node n2 is being drained for it: 5 of 8 devices are free`."""
    nodes, rooms = reservation.nodes, state.reservations.rooms.get(reservation.owner, {})
    free, needed = sum(room.free for room in rooms.values()), sum(room.needed for room in rooms.values())
    pod = state.pod(reservation.seats[0][0])
    query, inventory = state.query(pod) if pod else None, state.cluster.inventories.get(nodes[0])
    if query and not query.ask.devices:
        unit = inventory.unit if inventory else ""
        amount = f"{free} of {with_unit(needed, unit)} is free"
    else:
        amount = f"{free} of {count_text(needed, 'device')} {'is' if needed == 1 else 'are'} free"
    named = ", ".join(nodes[:MOST_NAMED])
    more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
    several = "s" if len(nodes) > 1 else ""
    return f"node{several} {named}{more} {'are' if several else 'is'} being drained for it: {amount}"

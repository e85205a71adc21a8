"""Reserved room on a node: the free devices to keep for pods that wait for more of them, and the pods they wait for.

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
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Node
    from linkwise.model.verdict import Part

__all__ = ["ReservedRoom", "room_on"]

WHOLE_CORE: Final = 100  # percent
PASSES: Final = 16
"""pods that are tried as the first to be kept"""


@dataclass(frozen=True, slots=True)
class ReservedRoom:
    """What is kept free on one node, and what is still in use."""

    kept: tuple[Offer, ...]
    """for each waiting pod what is free now of the devices that it should get; without parts if nothing is"""
    free: int
    """devices that are kept, or memory of one device if a share is waited for"""
    needed: int
    """the same once nothing is in use any more"""
    awaited: tuple[str, ...] = ()
    """pods that must end first; none if there is room for all waiting pods"""

    @property
    def lacking(self) -> tuple[int, int]:
        """How much is waited for: fewer devices or less memory is better, then fewer pods."""
        return self.needed - self.free, len(self.awaited)


def room_on(
    inventory: NodeInventory, entries: Sequence[Entry], queries: Sequence[Query], ended: Collection[str] = ()
) -> ReservedRoom | None:
    """The room that a node has or would have for these queries; None if it can never serve all of them.

    `entries` are those of the node without what is reserved for the same pods; devices reserved for others are not waited for.
    """
    here = _node(inventory, entries, (), ended)
    if any(here.mode not in {"any", query.ask.mode} for query in queries):
        return None  # which pods the other mode ends with is not known
    now = _seated(here, queries)
    if now is not None:
        return _kept(here, now, queries, ())
    rooms = [
        _kept(here, offers, queries, gone)
        for gone in _leavers(inventory, entries, queries, ended)
        if (offers := _seated(_node(inventory, entries, gone, ended), queries)) is not None
    ]
    return min(rooms, key=lambda room: (room.lacking, room.awaited)) if rooms else None


def _leavers(
    inventory: NodeInventory, entries: Sequence[Entry], queries: Sequence[Query], ended: Collection[str]
) -> Iterator[tuple[str, ...]]:
    """Minimal sets of pods whose end makes room for the queries."""

    def fits(gone: Collection[str]) -> bool:
        return _seated(_node(inventory, entries, gone, ended), queries) is not None

    # Kept first: pods that are not about to end, the largest, the youngest.
    pods = sorted(
        (entry for entry in entries if entry.state != "RESERVED"),
        key=lambda entry: (entry.state == "RELEASING", -_size(entry), -entry.created, entry.pod),
    )
    everyone = [entry.pod for entry in pods]
    starts = [everyone]
    if not any(query.ask.devices for query in queries):  # a share is on one device: only pods on that device matter
        starts += [[entry.pod for entry in pods if device.id in _devices(entry)] for device in inventory.devices]
    for start in starts:
        if fits(start):
            yield _pruned(start, fits)
    for first in everyone[:PASSES]:
        rest = [pod for pod in everyone if pod != first]
        if fits(rest):
            yield _pruned(rest, fits)


def _pruned(pods: Sequence[str], fits: Callable[[Collection[str]], bool]) -> tuple[str, ...]:
    """The pods that must go, after keeping one after the other as long as the rest makes enough room."""
    gone = dict.fromkeys(pods)
    for pod in pods:
        if fits(gone.keys() - {pod}):
            del gone[pod]
    return tuple(sorted(gone))


def _node(inventory: NodeInventory, entries: Sequence[Entry], gone: Collection[str], ended: Collection[str]) -> Node:
    staying = [entry for entry in entries if entry.pod not in gone]
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


def _kept(here: Node, offers: Sequence[Offer], queries: Sequence[Query], gone: tuple[str, ...]) -> ReservedRoom:
    """What of the offers is free on the node as it is."""
    kept: list[Offer] = []
    needed = free = 0
    for offer, query in zip(offers, queries, strict=True):
        parts: list[Part] = []
        for part in offer.parts:
            own = list(_free_parts(here, part))
            parts += own
            needed += len(part.devices) if is_whole(part) else part.share
            free += sum(len(each.devices) if is_whole(part) else each.share for each in own if _is_like(each, part))
            here = node_after(here, Offer(here.name, tuple(own)), query.ask.domain, query.ask.mode)
        kept.append(Offer(here.name, tuple(parts)))
    return ReservedRoom(tuple(kept), free, needed, gone)


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

"""Devices of one node for the members that go there, container by container."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from linkwise.engine.planning.hosts import by_links, in_parts, only_with, open_devices
from linkwise.engine.planning.seating import share_out
from linkwise.engine.planning.seating__pairs import slowest_pair
from linkwise.engine.usage import node_after
from linkwise.model.verdict import Offer, Part
from linkwise.topology.device_sets__bits import mask_of
from linkwise.topology.fabric import fabric_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from linkwise.engine.index.node_index import Wanted
    from linkwise.engine.planning.plan import Member
    from linkwise.model.node import Node

__all__ = ["seated", "takes"]


def seated(node: Node, held: Collection[str], members: Sequence[Member], floor: float = 0.0) -> list[Offer | None]:
    """An offer for each member, in their order.

    None for all where there are too few devices, or those of one would be slower than the floor, in GB/s.
    """
    asked = [member.wanted for member in members if member.wanted]
    whole = [wanted for wanted in asked if not in_parts(wanted)]
    if asked and (not whole or by_links(whole[0])):
        free = [device.id for device in node.free()] if whole else open_devices(node, asked, held)
        sizes = [member.size for member in members]
        if sum(sizes) > len(free):
            return [None for _ in members]
        devices = _by_links(node, free, held, sizes, floor)
        if floor and any(len(own) > 1 and (slowest_pair(node, own) or 0.0) < floor for own in devices):
            return [None for _ in members]
        return [_offer(node, member, own) for member, own in zip(members, devices, strict=True)]
    return _picked(node, members)


def takes(node: Node, wanted: Wanted, offer: Offer) -> bool:
    """Whether the node can still give these very devices."""
    if node.mode not in {"any", wanted.ask.mode}:
        return False  # rule 004.mode: it may hand them out in another way now
    if wanted.ask.devices:
        return {device.id for device in node.free()} >= set(offer.devices)
    return isinstance(wanted.policy.pick(wanted.ask, only_with(node, offer.devices)), Offer)


def _by_links(
    node: Node, free: Sequence[str], held: Collection[str], sizes: Sequence[int], floor: float
) -> list[list[str]]:
    if list(sizes) == [len(free)]:
        return [list(free)]  # there is nothing to choose
    places, topology = node.positions(), node.topology
    if topology is None or not (topology.links or topology.bandwidth) or not all(name in places for name in free):
        found = iter(free)
        return [list(islice(found, size)) for size in sizes]
    fabric = fabric_of(topology.bandwidth, topology.links)
    names = {place: name for name, place in places.items()}
    taken = mask_of(places[name] for name in held if name in places)
    shares = share_out(fabric, mask_of(places[name] for name in free), taken, sizes, floor)
    return [[names[place] for place in share] for share in shares]


def _offer(node: Node, member: Member, devices: Collection[str]) -> Offer | None:
    """The member's devices among its containers, as its policy divides them."""
    if member.wanted is None:
        return None
    asking = [container for container in member.wanted.ask.containers if container.devices]
    if len(asking) == 1:
        return Offer(node.name, (Part(asking[0].container, tuple(devices)),))
    alone = only_with(node, devices)
    if member.wanted.ask.devices:  # how many of the others are taken was counted when the node was chosen
        alone = replace(alone, unattributed=0, unattributed_share=0, unattributed_core=0)
    offer = member.wanted.policy.pick(member.wanted.ask, alone)
    return offer if isinstance(offer, Offer) else None


def _picked(node: Node, members: Sequence[Member]) -> list[Offer | None]:
    """As the policy picks, the largest member first."""
    offers: dict[str, Offer] = {}
    for member in sorted(members, key=lambda member: -member.size):
        offer = member.wanted.policy.pick(member.wanted.ask, node) if member.wanted else None
        if isinstance(offer, Offer) and member.wanted:
            offers[member.pod] = offer
            node = node_after(node, offer, member.wanted.ask.namespace, member.wanted.ask.mode)
    return [offers.get(member.pod) for member in members]

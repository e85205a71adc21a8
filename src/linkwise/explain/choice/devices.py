"""Explains the choice of devices on one node: their worth, the reason, and the runner-up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.explain.choice.links import by_bandwidth, by_links
from linkwise.explain.choice.rings import by_rings
from linkwise.explain.reports.choice import Choice, indices_of
from linkwise.model.verdict import Offer
from linkwise.policies.memory_share import losses_of_unused, shares_on
from linkwise.topology.fabric import NO_LOSS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.model.node import Node

__all__ = ["why_chosen"]


def why_chosen(query: Query, node: Node, devices: Sequence[str]) -> Choice | None:
    """Explain a set of devices, with the node as it would be without the pod; None if the node lacks one of them."""
    known = {device.id for device in node.devices}
    if not devices or not set(devices) <= known:
        return None
    if not query.ask.devices:
        return _by_free_share(query, node, devices[0])
    match query.policy.name:
        case "link-affinity":
            return by_links(node, devices)
        case "bandwidth":
            return by_bandwidth(node, devices)
        case "ring-affinity":
            return by_rings(node, devices)
        case _:
            return _by_count(query, node, devices)


def _by_count(query: Query, node: Node, devices: Sequence[str]) -> Choice:
    best = query.pick(node)
    now = best.devices if isinstance(best, Offer) and set(best.devices) != set(devices) else ()
    because = "" if now else query.policy.summary or f"by the policy {query.policy.name}"
    return Choice(indices_of(node, devices), because=because, now=indices_of(node, now))


def _by_free_share(query: Query, node: Node, device: str) -> Choice:
    rooms, sizes = node.room(), {each.id: shares_on(query.ask, each.memory, each.bytes) for each in node.devices}
    left = rooms.get(device, 0)
    worth = f"{left} free before, {max(0, left - sum(sizes[device] or ()))} after"
    best, second = _pick(query, node), _pick(query, _without(node, device))
    chosen, other = indices_of(node, (device,)), indices_of(node, second)
    if best and best[0] != device:
        return Choice(chosen, worth, now=indices_of(node, best))
    if not second:
        return Choice(chosen, worth, "the only device with enough free memory")
    there = rooms[second[0]]
    order = "least" if there >= left else "most"
    lost = f"it has {there} free, {'the same' if there == left else 'more' if there > left else 'less'}"
    because = f"the feasible device with the {order} free memory"
    if there == left:
        losses = losses_of_unused(node)
        more = losses.get(second[0], NO_LOSS) > losses.get(device, NO_LOSS)
        lost += (
            ", but pods that request several devices need it more" if more else "; tie broken by lowest device index"
        )
    return Choice(chosen, worth, because, other, lost)


def _pick(query: Query, node: Node) -> tuple[str, ...]:
    offer = query.pick(node)
    return offer.devices if isinstance(offer, Offer) else ()


def _without(node: Node, device: str) -> Node:
    return replace(node, devices=tuple(each for each in node.devices if each.id != device))

"""Capacity of one node: whether it grew, and what is left of it once a query is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.engine.usage import node_after
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from linkwise.engine.index.node_index import Query
    from linkwise.model.node import Node

__all__ = ["gained_capacity", "node_with"]


def node_with(query: Query, node: Node | None) -> Node | None:
    """The node once the query is placed on it; None if it does not fit."""
    offer = query.policy.pick(query.ask, node) if node else None
    if node is None or not isinstance(offer, Offer):
        return None
    return node_after(node, offer, query.ask.namespace, query.ask.mode)


def gained_capacity(before: Node | None, after: Node) -> bool:
    """Whether a node can serve something now that it could not serve before."""
    if before is None:
        return bool(after.devices)
    if after.unattributed < before.unattributed or after.mode != before.mode:
        return True
    if _only_more_is_used(before, after):
        return False
    rooms, healthy = before.room(), after.healthy()
    if any(rooms.get(device, -1) < room for device, room in after.room().items()):
        return True
    if any(not before.use(device).namespaces <= after.use(device).namespaces for device in healthy):
        return True  # a namespace left the device: others may share it now
    return not {device.id for device in after.free()} <= {device.id for device in before.free()}


def _only_more_is_used(before: Node, after: Node) -> bool:
    """Whether `after` differs by additional usage only, as after every bind: the cheap check."""
    if before.devices is not after.devices or after.unattributed_share < before.unattributed_share:
        return False
    return all(after.used.get(device) == use for device, use in before.used.items())

"""Devices of a node that a pod could choose from, as they are remembered with its grant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.model.node import FREE
from linkwise.policies.memory_share import WHOLE_CORE, may_share

if TYPE_CHECKING:
    from linkwise.engine.index.node_index import Query
    from linkwise.model.node import Node
    from linkwise.model.settings import ShareSettings
    from linkwise.model.verdict import Offer

    Rooms = tuple[tuple[int, int, int], ...]
    """index, free memory and free compute of each device"""

__all__ = ["available_devices"]


def available_devices(
    sharing: ShareSettings, query: Query, node: Node, own: Offer | None = None
) -> tuple[tuple[int, ...], Rooms]:
    """Return the devices that could be chosen: free indices, or free memory and compute; `own` counts as not used."""
    mine = own.devices if own else ()
    if query.ask.devices:
        used = node.used
        free = (each.index for each in node.devices if each.healthy and (each.id not in used or each.id in mine))
        return tuple(free), ()
    returned = sum(part.share for part in own.parts) if own else 0
    returned_core = sum(part.core for part in own.parts) if own else 0
    room, rows = node.room(), []
    for device in node.devices:
        use, back = node.used.get(device.id, FREE), device.id in mine
        if device.id not in room or not may_share(query.ask, use, sharing):
            continue
        core = 0 if use.whole else WHOLE_CORE - use.core - node.unattributed_core + (returned_core if back else 0)
        rows.append((device.index, room[device.id] + (returned if back else 0), max(0, core)))
    return (), tuple(rows)

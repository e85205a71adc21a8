"""Devices that a pending pod carries in its annotations.

Volcano binds a pod with the annotations of its own copy, and the API server writes them over newer ones. So the devices in
that copy are those that the pod will have: they must be its own, or it is not scheduled until they are cleared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.cluster.recorded_grants import mismatch
from linkwise.broker.state import pod_name
from linkwise.dialects.registry import held_by, is_record
from linkwise.engine.usage import resolved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.verdict import Offer
    from linkwise.model.views import PodView

__all__ = ["carried_devices"]


def carried_devices(state: State, pod: PodView, node: str, own: Entry | None) -> tuple[Offer | None, str]:
    """Return the devices that a pending pod must get because it carries them, and why it can't; None if it carries none.

    `own` is what it has booked or planned.
    """
    if not any(text and is_record(key) for key, text in pod.annotations.items()):
        return None, ""
    held = held_by(replace(pod, node="")).grant
    inventory, there = state.cluster.inventories.get(node), state.cluster.index.nodes.get(node)
    query = state.query(pod)
    if held is None or not held.offer.parts or query is None or mismatch(query.ask, held):
        return None, ""
    if inventory is None or there is None or held.offer.node not in ("", node):
        return None, _stale(pod, held.offer)
    parts = tuple(replace(part, devices=tuple(_ids(inventory, part.devices))) for part in held.offer.parts)
    devices = {device for part in parts for device in part.devices}
    if own:
        return None, "" if own.node == node and devices == set(own.grant.offer.devices) else _stale(pod, held.offer)
    offer = replace(held.offer, node=node, parts=parts)
    return (offer, "") if query.takes(there, offer) else (None, _stale(pod, held.offer))


def _ids(inventory: NodeInventory, devices: Iterable[str]) -> Iterable[str]:
    """Yield the ids of devices, of which a record may have only the index; in their order."""
    return (next(iter(resolved(inventory, (device,)))) for device in devices)


def _stale(pod: PodView, offer: Offer) -> str:
    place = f" of node {offer.node}" if offer.node else ""
    return (
        f"pod {pod_name(pod)} carries devices {', '.join(offer.devices)}{place} in its annotations, which are not its own "
        "any more; it is scheduled when they are cleared"
    )

"""What one pod holds of a node, counted as the ledger counts it: what the agent saw, else what is recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.engine.drift import Drift
from linkwise.engine.ledger import is_whole
from linkwise.engine.usage import Usage, usage_of
from linkwise.model.node import FREE, Use
from linkwise.model.verdict import Grant, Offer, Part

if TYPE_CHECKING:
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.engine.ledger import Entry
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.views import PodView

__all__ = ["elsewhere", "held_alone", "parts_held", "untold"]


def held_alone(stock: NodeInventory, entry: Entry) -> Usage:
    """What the pod takes, as if nobody else took anything."""
    if entry.pod not in stock.allocations and entry.unrecorded_ask is None:
        known = {device.id for device in stock.devices}
        if known.issuperset(entry.grant.offer.devices):
            return Usage(_used(entry))  # as recorded: the usual case, in a fraction of the time
    by_entry = replace(stock, mode="any")  # how the node hands out its devices is no matter of one pod
    return usage_of(by_entry, [entry], stock.allocations)


def _used(entry: Entry) -> dict[str, Use]:
    used: dict[str, Use] = {}
    for part in entry.grant.offer.parts:
        for device in part.devices:
            use = used.get(device, FREE)
            whole = use.whole or is_whole(part)
            used[device] = Use(use.share + part.share, use.core + part.core, whole, frozenset({entry.namespace}))
    return used


def parts_held(stock: NodeInventory, entry: Entry) -> tuple[Part, ...]:
    """The same by container; without the containers where the record tells of other devices."""
    by_index = {f"#{device.index}": device.id for device in stock.devices}
    recorded = tuple(
        replace(part, devices=tuple(by_index.get(device, device) for device in part.devices))
        for part in entry.grant.offer.parts
    )
    used = held_alone(stock, entry).used
    known = {device.id for device in stock.devices}
    if {device for part in recorded for device in part.devices if device in known} == set(used):
        return recorded
    return tuple(Part("", (device,), use.share, use.core) for device, use in used.items())


def untold(view: PodView, wish: PodRequest | None) -> Grant:
    """The grant of a bound pod without a record: nobody knows which devices it has."""
    mode = wish.ask.mode if wish and wish.ask else "whole"
    return Grant(view.uid, wish.policy if wish else "", Offer(view.node, ()), mode=mode)


def elsewhere(uid: str, seen: str, promised: str) -> Drift:
    """A pod is on another node than the one it was promised."""
    return Drift("elsewhere", seen, (uid,), (), (promised,))

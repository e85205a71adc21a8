"""Preemption check: whether evicting pods frees devices that a pending pod can use.

The number of devices alone does not decide that: the freed ones must form a layout that the pod's policy accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.engine.usage import node_of, usage_of
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Ledger
    from linkwise.model.inventory import NodeInventory

__all__ = ["eviction_frees_enough"]


def eviction_frees_enough(
    ledger: Ledger, inventory: NodeInventory, query: Query, victims: Collection[str], ended: Collection[str] = ()
) -> bool:
    """Whether the devices of the victims and the free ones together serve the query; `ended` pods use nothing any more."""
    remaining = [entry for entry in ledger.on(inventory.name) if entry.pod not in victims]
    node = node_of(inventory, usage_of(inventory, remaining, {*victims, *ended}))
    return isinstance(query.policy.pick(query.ask, node), Offer)

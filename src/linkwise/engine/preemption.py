"""Whether evicting pods would make room: a device too few is not always enough when devices must lie together."""

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
    ledger: Ledger, stock: NodeInventory, wanted: Query, victims: Collection[str], ended: Collection[str] = ()
) -> bool:
    """Whether the devices of the victims, with those that are free, serve the ask; `ended` pods use nothing any more."""
    staying = [entry for entry in ledger.on(stock.name) if entry.pod not in victims]
    node = node_of(stock, usage_of(stock, staying, {*victims, *ended}))
    return isinstance(wanted.policy.pick(wanted.ask, node), Offer)

"""Access to a broker's state, for tests of the broker itself and for invariants over all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.broker.state import State

__all__ = ["state_of"]


def state_of(broker: Broker) -> State:
    """The state as the last verb left it; other tests use verbs and queries."""
    return broker._state  # noqa: SLF001 - the one place

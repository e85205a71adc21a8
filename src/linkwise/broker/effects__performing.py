"""The seam between decisions and the world: whoever carries out effects looks like this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Annotate, Bind, Event, Evict, Wake
    from linkwise.engine.ledger import Outcome

__all__ = ["Ended", "Performer"]


class Ended(Protocol):
    """How a bind ended."""

    @property
    def outcome(self) -> Outcome:
        """Written, refused or unknown."""
        ...

    @property
    def sentence(self) -> str:
        """What the API server said about it; empty if it is written."""
        ...


class Performer(Protocol):
    """Carries out effects, each as often as it is told without harm."""

    async def bind(self, effect: Bind) -> Ended:
        """Write node and annotations of a pod."""
        ...

    async def settle(self, effect: Bind) -> Ended:
        """Find out what became of a bind that is unknown; it takes as long as that takes."""
        ...

    def tell(self, effects: Iterable[Wake | Annotate | Evict | Event]) -> None:
        """Take in what may be done later and does not hold up any answer."""
        ...

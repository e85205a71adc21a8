"""What the ledger holds of one pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from linkwise.model.ask import Ask
    from linkwise.model.verdict import Grant

__all__ = ["Entry", "Outcome", "State"]

State = Literal["PLANNED", "ASSUMED", "ASSIGNED", "RELEASING"]
"""how far a promise has come"""
Outcome = Literal["written", "refused", "unknown"]
"""how a bind ended"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one pod was promised, and how far that has come."""

    grant: Grant
    state: State
    namespace: str = "default"
    created: float = 0.0
    """of the pod: of two claims on one device the older is named first"""
    untold: Ask | None = None
    """what it asked for, where no record tells which devices it got"""
    serial: int = 0
    """of the bind asked for last, so that late news of an earlier one are told apart; 0 if it was only seen"""
    open: tuple[int, ...] = ()
    """binds that may still be written; one that was refused says nothing of the others"""
    outcome: Outcome | None = None
    """of the bind, as far as it is known"""
    expires: float | None = None
    """only of what is planned"""

    @property
    def pod(self) -> str:
        """The pod's UID."""
        return self.grant.pod

    @property
    def node(self) -> str:
        """Where the devices are."""
        return self.grant.offer.node

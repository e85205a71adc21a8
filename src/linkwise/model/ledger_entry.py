"""Ledger entry: the devices reserved for one pod, and the state of that reservation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from linkwise.model.ask import Ask  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.decision import Decision  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.verdict import Grant  # noqa: TC001 - snapshots are decoded by these annotations

__all__ = ["Entry", "Outcome", "State"]

State = Literal["OFFERED", "RESERVED", "PLANNED", "ASSUMED", "ASSIGNED", "RELEASING"]
"""drawn in `engine.ledger`"""
Outcome = Literal["written", "refused", "unknown"]
"""result of a bind; unknown if the API server may or may not have written it"""
_TENTATIVE: Final[tuple[State, ...]] = ("OFFERED", "RESERVED", "PLANNED")


@dataclass(frozen=True, slots=True)
class Entry:
    """The devices reserved for one pod, and their state."""

    grant: Grant
    state: State
    namespace: str = "default"
    created: float = 0.0
    """creation time of the pod: of two claims on one device the older pod's is named first"""
    unrecorded_ask: Ask | None = None
    """the ask of a bound pod that has no record of the devices it got"""
    serial: int = 0
    """number of the latest bind, so that a late result of an earlier one is recognised; 0 if the pod was only observed"""
    open: tuple[int, ...] = ()
    """binds that may still be written; the refusal of one does not end the others"""
    outcome: Outcome | None = None
    """result of the bind, None while it is in flight"""
    expires: float | None = None
    """deadline of an OFFERED, RESERVED or PLANNED entry, None for all others"""
    decision: Decision | None = None
    """why these devices, until the pod is observed as bound: then its record has it"""

    @property
    def tentative(self) -> bool:
        """Whether the devices are only offered, reserved or planned: no bind has begun, and the entry ends at its deadline."""
        return self.state in _TENTATIVE

    @property
    def pod(self) -> str:
        """The pod's UID; with a suffix behind a slash if it is one of several entries for the pod."""
        return self.grant.pod

    @property
    def node(self) -> str:
        """The node of the devices."""
        return self.grant.offer.node

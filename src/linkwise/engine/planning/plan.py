"""A group's plan: where each member goes, with which devices, and what the plan is worth level by level."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.planner import Level
    from linkwise.model.demand import Demand
    from linkwise.model.verdict import Offer

__all__ = ["Member", "Placement", "Plan"]


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of a group that is not bound yet."""

    pod: str
    """its UID"""
    name: str
    wanted: Query | None
    """None if it asks for no device"""
    demand: Demand
    rank: int | None = None
    created: float = 0.0

    @property
    def size(self) -> int:
        """Devices that it needs: of a part of one, that one."""
        return (self.wanted.ask.devices or 1) if self.wanted else 0

    @property
    def order(self) -> tuple[object, ...]:
        """Its place among the members: by rank, then age, then name with numbers in their order."""
        return (self.rank is None, self.rank or 0, self.created, self.name, self.pod)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one member goes."""

    node: str
    offer: Offer | None = None
    """None for a member without devices"""


@dataclass(frozen=True, slots=True)
class Plan:
    """All members that are placed together; who is missing did not fit."""

    placements: Mapping[str, Placement]
    """by pod UID"""
    levels: tuple[Level, ...] = ()
    region: tuple[str, ...] = ()
    missing: tuple[str, ...] = field(default=())
    """UIDs of members that did not fit, where the others may start without them"""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it uses, each once."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements.values()))

"""Plan of a group: node and devices of each member, and the plan's value at each level of the planner."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - snapshots are decoded by these annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.engine.planning.planner import Level  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.verdict import Offer  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from linkwise.engine.index.node_index import Query
    from linkwise.model.demand import Demand

__all__ = ["Member", "Placement", "Plan"]


@dataclass(frozen=True, slots=True)
class Member:
    """A pending pod of a group."""

    pod: str
    """its UID"""
    name: str
    wanted: Query | None
    """None if it requests no devices"""
    demand: Demand
    rank: int | None = None
    created: float = 0.0

    @property
    def size(self) -> int:
        """The number of devices it needs; 1 for a share of a device."""
        return (self.wanted.ask.devices or 1) if self.wanted else 0

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key among the members: by rank, then age, then name."""
        return (self.rank is None, self.rank or 0, self.created, self.name, self.pod)


@dataclass(frozen=True, slots=True)
class Placement:
    """Node and devices of one member."""

    node: str
    offer: Offer | None = None
    """None for a member without devices"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The placements of all members that fit."""

    placements: Mapping[str, Placement]
    """by pod UID"""
    levels: tuple[Level, ...] = ()
    region: tuple[str, ...] = ()
    missing: tuple[str, ...] = field(default=())
    """UIDs of members that did not fit, if the others may start without them"""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The distinct nodes of the plan."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements.values()))

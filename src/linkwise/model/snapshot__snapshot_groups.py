"""What a snapshot keeps of groups; groups are named by their keys, pods by UID."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.verdict import Offer, Reason

__all__ = ["GroupsKept", "LevelKept", "PlacementKept", "PlanKept", "ShortKept", "ToldKept"]


@dataclass(frozen=True, slots=True)
class PlacementKept:
    """Where one member of a plan goes."""

    pod: str
    node: str
    offer: Offer | None = None
    """None for a member without devices"""


@dataclass(frozen=True, slots=True)
class LevelKept:
    """What a plan is worth in one level."""

    name: str
    value: tuple[float, ...] = ()
    proven: bool = True


@dataclass(frozen=True, slots=True)
class PlanKept:
    """A plan that holds."""

    group: str
    placements: tuple[PlacementKept, ...]
    id: str
    generation: int
    expires: float  # seconds since the epoch
    priority: int = 0
    mates: tuple[str, ...] = ()
    """groups that hold plans together with it"""
    levels: tuple[LevelKept, ...] = ()
    region: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """members that did not fit"""


@dataclass(frozen=True, slots=True)
class ShortKept:
    """A group that did not fit, or not with all members."""

    group: str
    reason: Reason
    members: tuple[str, ...]
    until: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class ToldKept:
    """What was said about an odd group."""

    pod: str
    word: str
    sentence: str


@dataclass(frozen=True, slots=True)
class GroupsKept:
    """What no view tells of groups."""

    plans: tuple[PlanKept, ...] = ()
    """the first to be held first"""
    short: tuple[ShortKept, ...] = ()
    """the first that did not fit first"""
    satisfied: tuple[str, ...] = ()
    """gangs that have started once"""
    first_seen: Mapping[str, float] = field(default_factory=dict)
    """when the first member was tried"""
    alarms: Mapping[str, float] = field(default_factory=dict)
    """when members are worth another try; the first to be set first"""
    rests: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """how often plans were not carried out, and until when none is made"""
    refused: Mapping[str, int] = field(default_factory=dict)
    """by pod how often the scheduler did not take the planned node"""
    avoided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """nodes that did not work"""
    places: Mapping[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """places kept for members to come: until when, and under which names they are in the ledger"""
    told: Mapping[str, tuple[ToldKept, ...]] = field(default_factory=dict)
    halved: tuple[str, ...] = ()
    """gangs of which it was said that they are stuck halfway"""
    written: tuple[str, ...] = ()
    """groups that carry a plan which may hold again"""
    touched: tuple[str, ...] = ()
    """groups whose members changed, of which nothing was said yet"""
    past: Mapping[str, int] = field(default_factory=dict)
    """the newest plan that was held or given up here"""
    generations: Mapping[str, int] = field(default_factory=dict)
    """how often each was planned"""
    evicting: Mapping[str, float] = field(default_factory=dict)
    """gangs that are stuck halfway, and when their bound members are evicted"""
    evicted: tuple[str, ...] = ()
    """pods whose eviction was asked for"""

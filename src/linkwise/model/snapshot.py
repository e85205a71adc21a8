"""What a snapshot keeps of groups; groups are named by their keys, pods by UID.

All that answers depend on, at one moment, as a value: what a broker saw, and what it keeps beside that.
"""
# Joined from snapshot_groups, snapshot: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.model.settings import PlacingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ledger_entry import Entry
    from linkwise.model.verdict import Grant, Offer, Reason
    from linkwise.model.views import NodeView, PodView

__all__ = [
    "BrokerState",
    "EffectKept",
    "GroupsKept",
    "LevelKept",
    "OfferKept",
    "PlacementKept",
    "PlanKept",
    "ShortKept",
    "Snapshot",
    "ToldKept",
    "Tried",
]


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


@dataclass(frozen=True, slots=True)
class OfferKept:
    """A pod that was offered nodes a moment ago."""

    pod: str
    """its UID"""
    nodes: tuple[str, ...]
    expires: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Tried:
    """What a pod was offered in vain."""

    nodes: tuple[str, ...] = ()
    """by name"""
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class EffectKept:
    """Something that must be done or told, and was not handed out yet."""

    effect: str
    """its kind"""
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What no view tells; pods are named by UID."""

    entries: tuple[Entry, ...] = ()
    """of the ledger, the oldest pod first"""
    serial: int = 0
    """of the last promise"""
    asked: tuple[PodView, ...] = ()
    """pods that asked for nodes, as they asked, by UID"""
    unseen: Mapping[str, float] = field(default_factory=dict)
    """those of them that were not seen before, and when they asked; the first to ask first"""
    pending: tuple[OfferKept, ...] = ()
    """the first to be offered nodes first"""
    offered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """the last offer of pods that were not bound yet"""
    tried: Mapping[str, Tried] = field(default_factory=dict)
    freed: tuple[str, ...] = ()
    """nodes that some pod no longer needs, which may wake others"""
    refused: tuple[str, ...] = ()
    """pods that wait for room"""
    woken: Mapping[str, str] = field(default_factory=dict)
    """pods that were woken and did not ask again yet, with the node that had room"""
    passed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by node, pods that were woken for its room and refused all the same"""
    left: tuple[str, ...] = ()
    """nodes with room that somebody was woken for and did not take"""
    times: Mapping[str, int] = field(default_factory=dict)
    """the last time that was written down on a node, in nanoseconds"""
    gone: Mapping[str, bool] = field(default_factory=dict)
    """pods that are gone, the first to go first, and whether they were seen to have ended before"""
    changed: Mapping[str, Grant] = field(default_factory=dict)
    """what records of bound pods say now, where they said something else at first"""
    moved: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """where a pod is seen, and where it was promised to"""
    late: tuple[EffectKept, ...] = ()
    """effects that go out with the next answer"""
    groups: GroupsKept = field(default_factory=GroupsKept)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster; without `kept` all that is known of grants is what the pods' own records say."""

    now: float = 0.0  # seconds since the epoch
    settings: PlacingSettings = field(default_factory=PlacingSettings)
    nodes: tuple[NodeView, ...] = ()
    """by name"""
    objects: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    """what else is known of a node, by the node's name and the object's kind"""
    pods: tuple[PodView, ...] = ()
    """by UID"""
    kept: BrokerState | None = None
    shared: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    """objects that are not of one node, by their kind and name"""

"""Snapshot: everything that decisions depend on at one moment, as a value.

Observed objects, and the broker's own state that can't be derived from them. Groups are referenced by key, pods by UID.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - snapshots are decoded by these annotations
from dataclasses import dataclass, field

from linkwise.model.ledger_entry import Entry  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.settings import PlacingSettings
from linkwise.model.verdict import Grant, Offer, Reason  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.views import NodeView, PodView  # noqa: TC001 - snapshots are decoded by these annotations

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
    """Node and devices of one member of a plan."""

    pod: str
    node: str
    offer: Offer | None = None
    """None for a member without devices"""


@dataclass(frozen=True, slots=True)
class LevelKept:
    """The value of a plan at one level of the planner."""

    name: str
    value: tuple[float, ...] = ()
    proven: bool = True


@dataclass(frozen=True, slots=True)
class PlanKept:
    """A plan that reserves devices."""

    group: str
    placements: tuple[PlacementKept, ...]
    id: str
    generation: int
    expires: float  # seconds since the epoch
    priority: int = 0
    mates: tuple[str, ...] = ()
    """groups of the same bundle, whose plans are kept or dropped with it"""
    levels: tuple[LevelKept, ...] = ()
    region: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """members that did not fit"""


@dataclass(frozen=True, slots=True)
class ShortKept:
    """A group of which not all members fit."""

    group: str
    reason: Reason
    members: tuple[str, ...]
    until: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class ToldKept:
    """A notice already sent about a group."""

    pod: str
    word: str
    sentence: str


@dataclass(frozen=True, slots=True)
class GroupsKept:
    """The state of groups that can't be derived from observed objects."""

    plans: tuple[PlanKept, ...] = ()
    """the oldest first"""
    short: tuple[ShortKept, ...] = ()
    """the oldest first"""
    satisfied: tuple[str, ...] = ()
    """gangs that have started once"""
    first_seen: Mapping[str, float] = field(default_factory=dict)
    """when the first member was tried"""
    allowed: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """by group and pod, the nodes that passed the scheduler's own filters"""
    rests: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """the number of plans that expired, and the end of the backoff"""
    refused: Mapping[str, int] = field(default_factory=dict)
    """by pod, how often the scheduler did not take the planned node"""
    avoided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """nodes on which a bind failed"""
    places: Mapping[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """devices reserved for replacements of deleted members: the deadline, and their keys in the ledger"""
    told: Mapping[str, tuple[ToldKept, ...]] = field(default_factory=dict)
    """notices already sent, by group"""
    halved: tuple[str, ...] = ()
    """partially bound gangs that were reported"""
    touched: tuple[str, ...] = ()
    """groups whose members changed and that were not checked for warnings yet"""
    generations: Mapping[str, int] = field(default_factory=dict)
    """how often each group was planned"""
    evicting: Mapping[str, float] = field(default_factory=dict)
    """partially bound gangs, and when their bound members are evicted"""
    evicted: tuple[str, ...] = ()
    """pods whose eviction was requested"""


@dataclass(frozen=True, slots=True)
class OfferKept:
    """An open offer to a pod."""

    pod: str
    """its UID"""
    nodes: tuple[str, ...]
    expires: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Tried:
    """The failed offers of a pod."""

    nodes: tuple[str, ...] = ()
    """by name"""
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class EffectKept:
    """An effect in the outbox."""

    effect: str
    """its kind"""
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The state of a broker that can't be derived from observed objects."""

    entries: tuple[Entry, ...] = ()
    """of the ledger, the oldest pod first"""
    serial: int = 0
    """number of the last bind"""
    asked: tuple[PodView, ...] = ()
    """pods of filter calls, as they were in the call, by UID"""
    unseen: Mapping[str, float] = field(default_factory=dict)
    """those that the watch has not delivered, and the time of the call; the first call first"""
    pending: tuple[OfferKept, ...] = ()
    """open offers, the oldest first"""
    offered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """the last offer of pods that are not bound"""
    tried: Mapping[str, Tried] = field(default_factory=dict)
    freed: tuple[str, ...] = ()
    """nodes whose offer to a pod ended, which may wake others"""
    refused: tuple[str, ...] = ()
    """unschedulable pods"""
    woken: Mapping[str, str] = field(default_factory=dict)
    """woken pods that were not retried yet, with the node they were woken for"""
    passed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by node, pods that were woken for it and refused again"""
    left: tuple[str, ...] = ()
    """nodes that a pod was woken for and did not take"""
    times: Mapping[str, int] = field(default_factory=dict)
    """the last timestamp written to a node, in nanoseconds"""
    gone: Mapping[str, bool] = field(default_factory=dict)
    """deleted pods, the first first, and whether they were observed as ended before"""
    changed: Mapping[str, Grant] = field(default_factory=dict)
    """current records of bound pods whose record was changed"""
    moved: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """the node that a pod is bound to, and the node it was assumed on"""
    late: tuple[EffectKept, ...] = ()
    """the outbox: effects that leave with the next answer"""
    groups: GroupsKept = field(default_factory=GroupsKept)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster; without `kept` grants are known only from the records on pods."""

    now: float = 0.0  # seconds since the epoch
    settings: PlacingSettings = field(default_factory=PlacingSettings)
    nodes: tuple[NodeView, ...] = ()
    """by name"""
    objects: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    """other objects of a node, by the node's name and the object's kind"""
    pods: tuple[PodView, ...] = ()
    """by UID"""
    kept: BrokerState | None = None
    shared: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    """cluster-wide objects, by kind and name"""

"""All that answers depend on, at one moment, as a value: what a broker saw, and what it keeps beside that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.model.settings import PlacingSettings
from linkwise.model.snapshot__snapshot_groups import GroupsKept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ledger_entry import Entry
    from linkwise.model.verdict import Grant
    from linkwise.model.views import NodeView, PodView

__all__ = ["EffectKept", "Kept", "OfferKept", "Snapshot", "Tried"]


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
class Kept:
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
    kept: Kept | None = None
    shared: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    """objects that are not of one node, by their kind and name"""

"""Snapshot records of pod groups; unknown fields are errors."""

from __future__ import annotations

from math import inf

import msgspec

from linkwise.model.snapshot import GroupsKept, LevelKept, PlacementKept, PlanKept, ShortKept, ToldKept
from linkwise.model.verdict import Offer, Part, Reason
from linkwise.wire.snapshot.records import PartRecord, Strict

__all__ = ["GroupsRecord", "LevelRecord", "PlacementRecord", "PlanRecord", "ReasonRecord", "ShortRecord", "ToldRecord"]


class PlacementRecord(Strict, frozen=True):
    """The node and devices of one member of a plan."""

    pod: str
    node: str
    parts: tuple[PartRecord, ...] | None = None
    score: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, placement: PlacementKept) -> PlacementRecord:
        """The record of a placement."""
        offer = placement.offer
        if offer is None:
            return cls(placement.pod, placement.node)
        parts = tuple(PartRecord(part.devices, part.container, part.share, part.core) for part in offer.parts)
        return cls(placement.pod, placement.node, parts, offer.score, offer.notes)

    def value(self) -> PlacementKept:
        """The placement."""
        if self.parts is None:
            return PlacementKept(self.pod, self.node)
        parts = tuple(Part(part.container, part.devices, part.share, part.core) for part in self.parts)
        return PlacementKept(self.pod, self.node, Offer(self.node, parts, self.score, self.notes))


class LevelRecord(Strict, frozen=True):
    """The score of a plan at one network level; null stands for infinity, which JSON lacks."""

    name: str
    value: tuple[int | float | None, ...] = ()
    proven: bool = True

    @classmethod
    def of(cls, level: LevelKept) -> LevelRecord:
        """The record of a level."""
        return cls(level.name, tuple(None if number == inf else number for number in level.value), level.proven)

    def level(self) -> LevelKept:
        """The level."""
        return LevelKept(self.name, tuple(inf if number is None else number for number in self.value), self.proven)


class PlanRecord(Strict, frozen=True):
    """A plan that reserves devices."""

    group: str
    placements: tuple[PlacementRecord, ...]
    id: str
    generation: int
    expires: float
    priority: int = 0
    mates: tuple[str, ...] = ()
    levels: tuple[LevelRecord, ...] = ()
    region: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: PlanKept) -> PlanRecord:
        """The record of a plan."""
        return cls(
            plan.group,
            tuple(map(PlacementRecord.of, plan.placements)),
            plan.id,
            plan.generation,
            plan.expires,
            plan.priority,
            plan.mates,
            tuple(map(LevelRecord.of, plan.levels)),
            plan.region,
            plan.missing,
        )

    def value(self) -> PlanKept:
        """The plan."""
        return PlanKept(
            self.group,
            tuple(placement.value() for placement in self.placements),
            self.id,
            self.generation,
            self.expires,
            self.priority,
            self.mates,
            tuple(level.level() for level in self.levels),
            self.region,
            self.missing,
        )


class ReasonRecord(Strict, frozen=True):
    """The reason of a refusal."""

    rule: str
    asked: int | float | str | tuple[str, ...] | None = None
    found: int | float | str | tuple[str, ...] | None = None
    kind: str = ""
    noun: str = ""
    unit: str = ""


class ShortRecord(Strict, frozen=True):
    """A group that did not fit, or not completely."""

    group: str
    reason: ReasonRecord
    members: tuple[str, ...]
    until: float

    @classmethod
    def of(cls, short: ShortKept) -> ShortRecord:
        """The record of a group that did not fit."""
        record = msgspec.convert(short.reason, ReasonRecord, from_attributes=True)
        return cls(short.group, record, short.members, short.until)

    def value(self) -> ShortKept:
        """The group that did not fit."""
        record = self.reason
        reason = Reason(record.rule, record.asked, record.found, record.kind, record.noun, record.unit)
        return ShortKept(self.group, reason, self.members, self.until)


class ToldRecord(Strict, frozen=True):
    """A message about an invalid group, as it was sent to one pod."""

    pod: str
    word: str
    sentence: str


class GroupsRecord(Strict, frozen=True):
    """State of groups that can't be derived from objects."""

    plans: tuple[PlanRecord, ...] = ()
    short: tuple[ShortRecord, ...] = ()
    satisfied: tuple[str, ...] = ()
    first_seen: dict[str, float] = msgspec.field(default_factory=dict)
    allowed: dict[str, dict[str, tuple[str, ...]]] = msgspec.field(default_factory=dict)
    rests: dict[str, tuple[int, float]] = msgspec.field(default_factory=dict)
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    avoided: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    places: dict[str, tuple[float, tuple[str, ...]]] = msgspec.field(default_factory=dict)
    told: dict[str, tuple[ToldRecord, ...]] = msgspec.field(default_factory=dict)
    halved: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    generations: dict[str, int] = msgspec.field(default_factory=dict)
    evicting: dict[str, float] = msgspec.field(default_factory=dict)
    evicted: tuple[str, ...] = ()

    @classmethod
    def of(cls, kept: GroupsKept) -> GroupsRecord:
        """The record of all groups."""
        return cls(
            tuple(map(PlanRecord.of, kept.plans)),
            tuple(map(ShortRecord.of, kept.short)),
            kept.satisfied,
            dict(kept.first_seen),
            {key: dict(nodes) for key, nodes in kept.allowed.items()},
            dict(kept.rests),
            dict(kept.refused),
            dict(kept.avoided),
            dict(kept.places),
            {
                key: tuple(ToldRecord(each.pod, each.word, each.sentence) for each in messages)
                for key, messages in kept.told.items()
            },
            kept.halved,
            kept.touched,
            dict(kept.generations),
            dict(kept.evicting),
            kept.evicted,
        )

    def value(self) -> GroupsKept:
        """All groups."""
        return GroupsKept(
            tuple(plan.value() for plan in self.plans),
            tuple(short.value() for short in self.short),
            self.satisfied,
            self.first_seen,
            self.allowed,
            self.rests,
            self.refused,
            self.avoided,
            self.places,
            {
                key: tuple(ToldKept(each.pod, each.word, each.sentence) for each in messages)
                for key, messages in self.told.items()
            },
            self.halved,
            self.touched,
            self.generations,
            self.evicting,
            self.evicted,
        )

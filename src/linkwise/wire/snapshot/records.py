"""Snapshot records of the ledger and of offers; unknown fields are errors."""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.ledger_entry import Entry, Outcome, State
from linkwise.model.node import AskMode  # noqa: TC001 - msgspec reads it when it decodes
from linkwise.model.snapshot import OfferKept, Tried
from linkwise.model.verdict import Grant, Offer, Part

__all__ = ["EntryRecord", "GrantRecord", "MovedRecord", "OfferRecord", "Strict", "TriedRecord", "written"]


class Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A record of Linkwise."""


_fields: Final = cache(msgspec.structs.fields)
"""cached: computing them takes far longer than everything else, and a large snapshot has many records"""


def written(value: object) -> object:
    """A record as plain data without defaults; msgspec's omit_defaults compares by identity, which is not enough."""
    if isinstance(value, Strict):
        pairs = ((field, getattr(value, field.name)) for field in _fields(type(value)))
        return {field.encode_name: written(each) for field, each in pairs if each not in (field.default, {})}
    if isinstance(value, dict):
        return {key: written(entry) for key, entry in value.items()}
    return [written(entry) for entry in value] if isinstance(value, tuple) else value


class PartRecord(Strict, frozen=True):
    """The devices of one container."""

    devices: tuple[str, ...]
    container: str = ""
    share: int = 0
    core: int = 0


class GrantRecord(Strict, frozen=True):
    """The grant of a pod: devices that are assumed or recorded for it."""

    pod: str
    node: str
    parts: tuple[PartRecord, ...] = ()
    policy: str = ""
    mode: AskMode = "whole"
    score: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    plan: str = ""
    generation: int = 0

    @classmethod
    def of(cls, grant: Grant) -> GrantRecord:
        """The record of a grant."""
        offer = grant.offer
        parts = tuple(PartRecord(part.devices, part.container, part.share, part.core) for part in offer.parts)
        return cls(
            grant.pod,
            offer.node,
            parts,
            grant.policy,
            grant.mode,
            offer.score,
            offer.notes,
            grant.plan,
            grant.generation,
        )

    def value(self) -> Grant:
        """The grant."""
        parts = tuple(Part(part.container, part.devices, part.share, part.core) for part in self.parts)
        offer = Offer(self.node, parts, self.score, self.notes)
        return Grant(self.pod, self.policy, offer, self.plan, self.generation, self.mode)


class ContainerRecord(Strict, frozen=True):
    """What one container requests."""

    container: str
    devices: int = 0
    share: int = 0
    core: int = 0


class AskRecord(Strict, frozen=True):
    """What a pod requests."""

    resource: str
    containers: tuple[ContainerRecord, ...] = ()
    namespace: str = "default"
    profile: str = ""
    mode: AskMode = "whole"
    required: tuple[str, ...] = ()
    in_bytes: bool = False

    @classmethod
    def of(cls, ask: Ask) -> AskRecord:
        """The record of an ask."""
        containers = tuple(
            ContainerRecord(each.container, each.devices, each.share, each.core) for each in ask.containers
        )
        return cls(ask.resource, containers, ask.namespace, ask.profile, ask.mode, ask.required, ask.in_bytes)

    def value(self) -> Ask:
        """The ask."""
        containers = tuple(
            ContainerAsk(each.container, each.devices, each.share, each.core) for each in self.containers
        )
        return Ask(self.resource, containers, self.namespace, self.profile, self.mode, self.required, self.in_bytes)


class EntryRecord(Strict, frozen=True):
    """An entry of the ledger."""

    grant: GrantRecord
    state: State
    namespace: str = "default"
    created: float = 0.0
    unrecorded_ask: AskRecord | None = msgspec.field(default=None, name="untold")
    serial: int = 0
    open: tuple[int, ...] = ()
    outcome: Outcome | None = None
    expires: float | None = None

    @classmethod
    def of(cls, entry: Entry) -> EntryRecord:
        """The record of an entry."""
        return cls(
            GrantRecord.of(entry.grant),
            entry.state,
            entry.namespace,
            entry.created,
            AskRecord.of(entry.unrecorded_ask) if entry.unrecorded_ask else None,
            entry.serial,
            entry.open,
            entry.outcome,
            entry.expires,
        )

    def value(self) -> Entry:
        """The entry."""
        return Entry(
            self.grant.value(),
            self.state,
            self.namespace,
            self.created,
            self.unrecorded_ask.value() if self.unrecorded_ask else None,
            self.serial,
            self.open,
            self.outcome,
            self.expires,
        )


class OfferRecord(Strict, frozen=True):
    """An open offer: the nodes a pod was offered last."""

    pod: str
    nodes: tuple[str, ...]
    expires: float

    @classmethod
    def of(cls, offer: OfferKept) -> OfferRecord:
        """The record of an offer."""
        return cls(offer.pod, offer.nodes, offer.expires)

    def value(self) -> OfferKept:
        """The offer."""
        return OfferKept(self.pod, self.nodes, self.expires)


class TriedRecord(Strict, frozen=True):
    """Earlier offers to a pod that did not lead to a bind."""

    nodes: tuple[str, ...] = ()
    rounds: int = 0

    @classmethod
    def of(cls, tried: Tried) -> TriedRecord:
        """The record of earlier offers."""
        return cls(tried.nodes, tried.rounds)

    def value(self) -> Tried:
        """The earlier offers."""
        return Tried(self.nodes, self.rounds)


class MovedRecord(Strict, frozen=True):
    """A pod that runs on another node than the one it was assumed on."""

    seen: str
    promised: str

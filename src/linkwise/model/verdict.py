"""Verdicts: a node's offer or refusal for an ask, with the reason as data; and problems in user input."""

from __future__ import annotations

from dataclasses import dataclass, field

from linkwise.model.node import AskMode  # noqa: TC001 - snapshots are decoded by these annotations

__all__ = ["Fact", "Grant", "Offer", "Part", "Problem", "Reason", "Reject"]

Fact = int | float | str | tuple[int, ...] | tuple[str, ...] | tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class Part:
    """The devices of one container, and the share of each."""

    container: str
    devices: tuple[str, ...]
    share: int = 0  # of each device, in the resource's own unit; 0 means the whole device
    core: int = 0  # percent of each device's compute; 0 means all or not counted
    indices: tuple[int, ...] = field(default=(), compare=False)
    """of the devices, if a record has them: they identify a device while its node reports no ids"""


@dataclass(frozen=True, slots=True)
class Offer:
    """Devices that a node could allocate, an entry per container."""

    node: str
    parts: tuple[Part, ...]
    score: tuple[int, ...] = ()
    """the policy's terms, compared in order; larger is better"""
    notes: tuple[str, ...] = ()
    """remarks for users, such as inferred link kinds or incomplete link data"""

    @property
    def devices(self) -> tuple[str, ...]:
        """The distinct devices of the offer, in order."""
        return tuple(dict.fromkeys(device for part in self.parts for device in part.devices))


@dataclass(frozen=True, slots=True)
class Grant:
    """An offer reserved for one pod."""

    pod: str
    """the pod's UID"""
    policy: str
    offer: Offer
    plan: str = ""
    """id of the group plan it belongs to"""
    generation: int = 0
    mode: AskMode = "whole"
    """the sharing mode in which it was granted"""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is refused: the rule, the request and what was found; the sentences are in `engine.reasons`."""

    rule: str
    asked: Fact = None
    found: Fact = None
    kind: str = ""
    """distinguishes several refusals of one rule"""
    noun: str = ""
    """the vendor's word for a group of devices (ring, mesh, module, card), or the name of a profile or a task"""
    unit: str = ""
    """the unit of the amounts, if known: MiB, GiB, %"""


@dataclass(frozen=True, slots=True)
class Reject:
    """A refusal by one node."""

    node: str
    reason: Reason
    final: bool = field(default=False)
    """whether other pods ending can't resolve it"""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in user input: its place and a sentence that says what to do."""

    where: str
    """the object: `pod default/trainer-0`, `node gpu-1`"""
    key: str
    """the label, annotation, resource or field"""
    sentence: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.sentence}"

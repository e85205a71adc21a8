"""What a node answers to an ask: an offer, or a reject with its reason as data.

Something in a user's words that is broken: where it stands, and what to do about it.
"""
# Joined from verdict, problem: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.model.node import AskMode

__all__ = ["Fact", "Grant", "Offer", "Part", "Problem", "Reason", "Reject"]

Fact = int | float | str | tuple[int, ...] | tuple[str, ...] | tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class Part:
    """The devices of one container, and how much of each."""

    container: str
    devices: tuple[str, ...]
    share: int = 0  # of each device, in the resource's own unit; 0 means the whole device
    core: int = 0  # percent of each device's compute; 0 means all or not counted


@dataclass(frozen=True, slots=True)
class Offer:
    """Devices a node could give, an entry per container."""

    node: str
    parts: tuple[Part, ...]
    score: tuple[int, ...] = ()
    """terms compared in order, larger is better; what they mean is the policy's"""
    notes: tuple[str, ...] = ()
    """what a person should know about the choice: link kinds were inferred, nothing is known"""

    @property
    def devices(self) -> tuple[str, ...]:
        """All devices of the offer, each once, in the order given."""
        return tuple(dict.fromkeys(device for part in self.parts for device in part.devices))


@dataclass(frozen=True, slots=True)
class Grant:
    """An offer promised to one pod."""

    pod: str
    """the pod's UID"""
    policy: str
    offer: Offer
    plan: str = ""
    """id of the group plan it belongs to"""
    generation: int = 0
    mode: AskMode = "whole"
    """how the node hands out what was granted"""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is refused: the rule, what was asked and what was found; sentences are made in `explain`."""

    rule: str
    asked: Fact = None
    found: Fact = None
    kind: str = ""
    """tells apart several refusals under one rule"""
    noun: str = ""
    """what the hardware calls its groups of devices: ring, mesh, module, card"""
    unit: str = ""
    """of the amounts, where one is told: MiB, GiB, %"""


@dataclass(frozen=True, slots=True)
class Reject:
    """A refusal by one node."""

    node: str
    reason: Reason
    final: bool = field(default=False)
    """whether nothing that other pods do can change it"""


@dataclass(frozen=True, slots=True)
class Problem:
    """Reported, never guessed at."""

    where: str
    """the object: `pod default/trainer-0`, `node gpu-1`"""
    key: str
    """the label, annotation, resource or field"""
    sentence: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.sentence}"

"""What the verbs of the broker answer: plain values, with the effects that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.effects import Effect
    from linkwise.model.verdict import Offer, Problem, Reason

__all__ = ["Admission", "BindAnswer", "DryRun", "FilterAnswer"]


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a pod may be made as it is."""

    refusal: str = ""
    """why not; empty if it may"""
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Nodes of the best class, or why there are none."""

    nodes: list[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    """by node, in few and equal texts; only where no node is left"""
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """the same for nodes on which nothing that other pods do can help"""
    partial: bool = False
    """whether some nodes were not judged, because that would have taken too long"""
    effects: tuple[Effect, ...] = ()
    policy: str = ""
    """by which it was decided; empty for a pod that asks for no device"""


@dataclass(frozen=True, slots=True)
class BindAnswer:
    """What has to be done for a bind, or why it can't be; neither if it is done already."""

    error: str = ""
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class DryRun:
    """Where a pod would go now, and why not elsewhere; nothing is kept of it."""

    offer: Offer | None
    ranking: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """nodes that fit with their scores, the best first"""
    refused: Mapping[str, Reason] = field(default_factory=dict)
    """every other node with the first thing that stops the pod there"""
    stranded: Mapping[str, Reason] = field(default_factory=dict)
    """nodes whose devices would do, and what else they lack"""

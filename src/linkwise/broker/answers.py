"""Answers of the broker's verbs: plain values with their effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.effects import Effect
    from linkwise.model.verdict import Offer, Problem, Reason

__all__ = ["Additions", "Admission", "BindAnswer", "DryRun", "FilterAnswer"]


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a pod may be created as it is."""

    refusal: str = ""
    """why not; empty if it may"""
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Additions:
    """What a pod gets when it is created, beside what its manifest has."""

    creator: Mapping[str, str] = field(default_factory=dict)
    """annotations about who created it"""
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """by container, what is added to its requests and limits: a policy's default share"""
    in_gang: bool = False
    """whether it must start together with others, or its PodGroup object may require it"""
    planned_for_volcano: bool = False
    """whether it requests devices that are planned before a Volcano scheduler tries it"""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """resources that it requests under names that no node has, with those that replace them"""
    refusal: str = ""
    """why no vendor's resource can replace one that any vendor could serve; empty if there is none, or one can"""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Nodes of the best class, or why there are none."""

    nodes: list[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    """short reasons by node; only if no node is feasible"""
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """the same for nodes where preemption can't help"""
    partial: bool = False
    """whether some nodes were skipped to stay within the budget"""
    effects: tuple[Effect, ...] = ()
    policy: str = ""
    """the policy used; empty if the pod requests no devices"""

    def joined(self, other: FilterAnswer) -> FilterAnswer:
        """One answer from two about different nodes."""
        nodes = [*self.nodes, *other.nodes]
        failed = {} if nodes else {**self.failed, **other.failed}
        unresolvable = {} if nodes else {**self.unresolvable, **other.unresolvable}
        partial, effects = self.partial or other.partial, (*self.effects, *other.effects)
        return FilterAnswer(nodes, failed, unresolvable, partial, effects, self.policy or other.policy)


@dataclass(frozen=True, slots=True)
class BindAnswer:
    """The effects of a bind, or an error; neither if it was done before."""

    error: str = ""
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class DryRun:
    """Where a pod would go now, and why other nodes refuse it; nothing is kept."""

    offer: Offer | None
    ranking: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """feasible nodes with their scores, the best first"""
    refused: Mapping[str, Reason] = field(default_factory=dict)
    """every other node with its first refusal"""
    stranded: Mapping[str, Reason] = field(default_factory=dict)
    """nodes with enough devices, and the other resource they lack"""

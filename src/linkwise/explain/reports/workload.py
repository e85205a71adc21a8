"""Report on a workload: its pods by state, equal ones together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from linkwise.engine.reasons.codes import ReasonCode
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.pod import Explanation

__all__ = ["PartState", "WorkloadExplanation", "WorkloadPart"]

PartState = Literal["pending", "starting", "running", "terminating", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """Pods that are explained by one answer."""

    state: PartState
    pods: tuple[str, ...]
    """names, the oldest first"""
    explanation: Explanation | None = None
    """of the first of them; None if it has ended"""


@dataclass(frozen=True, slots=True)
class WorkloadExplanation:
    """One workload."""

    kind: str
    """in lower case: job, deployment"""
    namespace: str
    name: str
    parts: tuple[WorkloadPart, ...]
    """pending pods first"""
    group: GroupExplanation | None = None
    """of its pending pods, if all of them are scheduled as one group"""
    groups: tuple[str, ...] = ()
    """keys of the groups that its pending pods belong to"""
    code: ReasonCode | Literal[""] = ""
    """the stable code of the first reason for which pods are pending"""

    def counts(self) -> dict[PartState, int]:
        """Return the number of pods by state."""
        states: Counter[PartState] = Counter()
        for part in self.parts:
            states[part.state] += len(part.pods)
        return dict(states)

"""Disruption budgets: the fields of PodDisruptionBudget objects that Linkwise reads."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - a field of a dataclass
from dataclasses import dataclass, field

from linkwise.model.views import SelectorRequirement  # noqa: TC001 - same

__all__ = ["DisruptionBudget"]


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """How many pods of a selection may be disrupted now."""

    namespace: str
    name: str
    allowed: int = 0
    """`status.disruptionsAllowed`; 0 if the controller has not set it"""
    match_labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[SelectorRequirement, ...] = ()
    disrupted: frozenset[str] = frozenset()
    """names of pods whose eviction the API server has counted already"""

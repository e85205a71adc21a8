"""PodDisruptionBudgets (policy/v1): the selector and the number of disruptions allowed now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.json_fields import Fields, Report
from linkwise.model.disruption_budget import DisruptionBudget
from linkwise.model.views import SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.verdict import Problem

__all__ = ["BUDGET", "budget_of"]

BUDGET: Final = "PodDisruptionBudget.policy"


def budget_of(name: str, document: Mapping[str, object]) -> tuple[DisruptionBudget | None, tuple[Problem, ...]]:
    """The budget with that namespace and name, and what is wrong with it; None if it selects no pod.

    As in policy/v1, an empty selector selects every pod of the namespace, and a missing one selects none.
    """
    report = Report(f"PodDisruptionBudget {name}", "spec.selector")
    spec = Fields.of(document.get("spec"), "spec", report)
    raw = spec.raw.get("selector") if spec else None
    selector = None if raw is None else Fields.of(raw, "spec.selector", report)
    if selector is None:
        return None, tuple(report.problems)
    labels = selector.raw.get("matchLabels") or {}
    pairs = Fields.of(labels, "spec.selector.matchLabels", report)
    wanted = {str(key): str(value) for key, value in pairs.raw.items()} if pairs else {}
    expressions = tuple(
        SelectorRequirement(entry.text("key") or "", entry.text("operator") or "", entry.texts("values", ()) or ())
        for entry in (selector.objects("matchExpressions") if selector.raw.get("matchExpressions") else ())
    )
    allowed, disrupted = _status(document.get("status"))
    namespace, _, own = name.rpartition("/")
    budget = DisruptionBudget(namespace, own, allowed, wanted, expressions, disrupted)
    return None if report.broken else budget, tuple(report.problems)


def _status(status: object) -> tuple[int, frozenset[str]]:
    if not isinstance(status, dict):
        return 0, frozenset()
    allowed, disrupted = status.get("disruptionsAllowed"), status.get("disruptedPods")
    count = allowed if isinstance(allowed, int) and not isinstance(allowed, bool) else 0
    return max(0, count), frozenset(map(str, disrupted)) if isinstance(disrupted, dict) else frozenset()

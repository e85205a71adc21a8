"""Status of AcceleratorPolicies: conditions and counters, as far as they differ from what the objects have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from linkwise.broker.effects import PolicyStatus
from linkwise.dialects.linkwise.accelerator_policy import POLICY
from linkwise.engine.access_conditions import Condition, conditions_of, conflicts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.state import State
    from linkwise.model.access_policy import AcceleratorPolicy

__all__ = ["PolicyReport", "policy_reports", "policy_statuses"]


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """A policy, what counts for it, and its conditions."""

    policy: AcceleratorPolicy
    pods: int
    """pods with devices to which it applies"""
    devices: int
    """that these have"""
    conditions: tuple[Condition, ...]


def policy_reports(state: State) -> tuple[PolicyReport, ...]:
    """Return a report per policy, by name."""
    if not state.access:
        return ()
    rules, labels = state.cluster.shared.access, state.cluster.shared.namespaces
    models = {device.model for node in state.cluster.index.nodes.values() for device in node.devices if device.model}
    disagreements = conflicts(rules)
    return tuple(
        PolicyReport(
            policy,
            *state.access.totals(name),
            conditions_of(policy, disagreements[name], labels, models, state.access.by_namespace(name)),
        )
        for name, policy in rules.policies.items()
    )


def policy_statuses(state: State, now: float) -> tuple[PolicyStatus, ...]:
    """Return the statuses to be written."""
    effects = []
    for report in policy_reports(state):
        name, generation = report.policy.name, report.policy.generation
        found = state.cluster.shared.documents.get(POLICY, {}).get(name, {}).get("status")
        observed = found if isinstance(found, dict) else {}
        status = {
            "observedGeneration": generation,
            "pods": report.pods,
            "devices": report.devices,
            "refusals": state.access.all_refusals(name, observed.get("refusals")),
            "conditions": _conditions(report.conditions, observed, generation, now),
        }
        if status != {key: observed.get(key) for key in status}:
            effects.append(PolicyStatus(name, status))
    return tuple(effects)


def _conditions(
    conditions: tuple[Condition, ...], observed: Mapping[str, Any], generation: int, now: float
) -> list[dict[str, object]]:
    """The conditions in the form of the API; one whose status is the same keeps the time of its last transition."""
    listed = observed.get("conditions")
    before = {
        known.get("type"): known for known in (listed if isinstance(listed, list) else ()) if isinstance(known, dict)
    }
    time = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    made: list[dict[str, object]] = []
    for condition in conditions:
        known, status = before.get(condition.type, {}), condition.status
        since = known.get("lastTransitionTime") if known.get("status") == status else None
        made.append(
            {
                "type": condition.type,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": since or time,
                "reason": condition.reason,
                "message": condition.message,
            }
        )
    return made

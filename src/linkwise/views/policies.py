"""Rows of `linkwise get policies`: access and sharing of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.views.documents import plain
from linkwise.views.table import Cell, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.access.policy_status import PolicyReport
    from linkwise.views.cluster import ClusterView

__all__ = ["policy_rows"]


def policy_rows(cluster: ClusterView, name: str) -> list[Row]:
    """Return a row per policy, or that of one policy."""
    reports = cluster.broker.policy_reports()
    return [_row(report) for report in reports if name in {"", report.policy.name}]


def _row(report: PolicyReport) -> Row:
    policy, conditions = report.policy, {condition.type: condition for condition in report.conditions}
    bad = ("Invalid", "Exceeded", "Conflicting")
    wrong = next((conditions[kind] for kind in bad if conditions[kind].status == "True"), None)
    if wrong is None and conditions["Effective"].status == "False":
        wrong = conditions["Effective"]
    subjects = _subjects(report)
    resources = ["all"] if policy.resources is None else list(policy.resources) or ["none"]
    cells = {
        "name": Cell(policy.name),
        "subjects": Cell(", ".join(subjects), brief=_brief(subjects)),
        "resources": Cell(", ".join(resources), brief=_brief(resources)),
        "devices": Cell(
            f"{report.devices}/{policy.max_devices}" if policy.max_devices is not None else str(report.devices)
        ),
        "pods": Cell(str(report.pods)),
        "condition": Cell(wrong.reason if wrong else "Enforced", "red" if wrong else "green"),
        "models": Cell("" if policy.models is None else ", ".join(policy.models), wide=True),
        "sharing": Cell(policy.share_with or "", wide=True),
        "message": Cell(wrong.message if wrong else "", wide=True),
    }
    return Row(f"acceleratorpolicy.linkwise.dev/{policy.name}", cells, lambda: {"name": policy.name, **plain(report)})


def _brief(words: Sequence[str]) -> str:
    """Return the first of several, and how many there are beside it."""
    return words[0] if len(words) == 1 else f"{words[0]} + {len(words) - 1}"


def _subjects(report: PolicyReport) -> list[str]:
    subjects = report.policy.subjects
    if subjects.selects_all:
        return ["all"]
    named = (
        *(f"user {user}" for user in subjects.users),
        *(f"group {group}" for group in subjects.groups),
        *(f"service account {namespace}/{name}" for namespace, name in subjects.service_accounts),
        *(f"namespace {name}" for name in subjects.namespaces),
        *(("namespaces by labels",) if subjects.selector else ()),
    )
    return list(named) or ["none"]

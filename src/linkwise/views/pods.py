"""Rows of `linkwise get pods`: pods that request devices, with a short reason for pending ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from linkwise.explain.published import lists
from linkwise.views.blocks import plain, rfc3339
from linkwise.views.explanations import without_offers
from linkwise.views.table import Cell, Row, age_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.explain.published.lists import PodRow
    from linkwise.model.views import PodView
    from linkwise.views.cluster import ClusterView

__all__ = ["pod_row", "pod_rows"]

_PLACED: Final = frozenset({"Running", "Starting", "Terminating"})
_STYLES: Final = {"Pending": "yellow", "Invalid": "red", "Running": "green", "Starting": "green"}


def pod_rows(
    cluster: ClusterView, namespace: str | None, uid: str, selects: Callable[[PodView], bool] = lists.any_pod
) -> list[Row]:
    """Return a row for the pod of that UID, or for all pods of a namespace: pending pods first, then by age."""
    rows = lists.pod_rows(cluster.broker, cluster.now, namespace, uid, selects, readable=cluster.only)
    if not cluster.is_service:
        rows = list(map(_known, rows))
    return [pod_row(row, cluster.now, partial(_document, row), everywhere=namespace is None) for row in rows]


def _known(row: PodRow) -> PodRow:
    """Return the row without what only the service knows."""
    explanation = without_offers(row.explanation) if row.explanation else None
    return replace(row, explanation=explanation, code=explanation.code if explanation else "")


def pod_row(row: PodRow, now: float, document: Callable[[], Any], *, everywhere: bool) -> Row:
    """Return a row of the table; `everywhere` if pods of several namespaces are listed."""
    cells = {
        **({"namespace": Cell(row.namespace)} if everywhere else {}),
        "name": Cell(row.pod),
        "state": Cell(row.state, _STYLES.get(row.state, "")),
        "node": Cell(row.node),
        "devices": Cell(row.devices),
        "age": Cell(age_text(now - row.created) if row.created else "", volatile=True),
        "policy": Cell(row.policy, wide=True),
        "group": Cell(row.group, wide=True),
        "priority": Cell(str(row.priority or ""), wide=True),
        "scheduler": Cell(row.scheduler, wide=True),
        "code": Cell(row.code, wide=True),
        # The reasons of pods that run would hide those of the few that wait: they are in wide output only.
        "reason": Cell(row.why, brief="" if row.state in _PLACED else row.why),
    }
    return Row(f"pod/{row.pod}", cells, document, row.namespace)


def _document(row: PodRow) -> dict[str, Any]:
    explained = plain(row.explanation) if row.explanation else None
    return {
        "namespace": row.namespace,
        "pod": row.pod,
        "phase": row.phase,
        "created": rfc3339(row.created),
        "why": row.why,
        **(explained or {"uid": row.uid, "name": f"{row.namespace}/{row.pod}", "node": row.node}),
    }

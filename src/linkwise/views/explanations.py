"""Explanations of objects by name, as documents: code, sentences and all data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.errors import NotFoundError
from linkwise.explain.group.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.explain.workload import explain_workload
from linkwise.views.blocks import plain

if TYPE_CHECKING:
    from linkwise.explain.node import NodeExplanation
    from linkwise.explain.reports import Explanation, GroupExplanation, WorkloadExplanation
    from linkwise.views.cluster import ClusterView

    AnyExplanation = Explanation | GroupExplanation | NodeExplanation | WorkloadExplanation

__all__ = ["document_of", "explain_object", "pod_explanation", "without_offers"]

NOT_BOUND: Final = "not bound by a scheduler: if this persists, check its schedulerName, its events and the scheduler"


def explain_object(cluster: ClusterView, kind: str, name: str, namespace: str) -> AnyExplanation:
    """Explain a pod, group, node or workload; NotFoundError suggests similar names."""
    explanation: AnyExplanation | None
    match kind:
        case "pod":
            explanation = pod_explanation(cluster, cluster.pod(namespace, name))
        case "node":
            explanation = explain_node(cluster.broker, cluster.node(name), cluster.now, cluster.only)
        case "group":
            explanation = explain_group(
                cluster.broker, cluster.group(namespace, name), cluster.now, readable=cluster.only
            )
        case _:
            known = cluster.workload(kind, namespace, name)
            explanation = explain_workload(cluster.broker, kind, namespace, known, cluster.now, readable=cluster.only)
            if not cluster.is_service:
                explanation = _without_offers_of_all(explanation)
    if explanation is None:
        raise NotFoundError(f"{kind} {name} not found")
    return explanation


def pod_explanation(cluster: ClusterView, uid: str, *, plan: bool = True) -> Explanation | None:
    """Explain a pod; without its offers unless the service does, which alone knows them."""
    explanation = explain_pod(cluster.broker, uid, cluster.now, plan=plan, readable=cluster.only)
    return without_offers(explanation) if explanation and not cluster.is_service else explanation


def _without_offers_of_all(workload: WorkloadExplanation | None) -> WorkloadExplanation | None:
    if workload is None:
        return None
    parts = (
        replace(part, explanation=without_offers(part.explanation)) if part.explanation else part
        for part in workload.parts
    )
    return replace(workload, parts=tuple(parts))


def without_offers(explanation: Explanation) -> Explanation:
    """Return an explanation without the questions of schedulers, which are not known here."""
    if explanation.offered is None:
        return explanation
    notes = (*explanation.notes, NOT_BOUND) if explanation.state == "schedulable" else explanation.notes
    code = "Planned" if explanation.code == "OtherScheduler" else explanation.code
    return replace(explanation, offered=None, notes=notes, code=code)


def document_of(explanation: AnyExplanation) -> dict[str, Any]:
    """Return an explanation as the service answers it: its code if it has one, its sentences and all data."""
    data = plain(explanation)
    return {"code": data.get("code", ""), "lines": explanation_lines(explanation), "data": data}

"""Prints explanations of pods, groups and nodes as text, JSON or YAML."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.cli.render.documents import object_document, plain, print_data
from linkwise.cli.render.tables import print_sentences, terminal
from linkwise.errors import NotFoundError
from linkwise.explain.group.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.explain.workload import explain_workload

if TYPE_CHECKING:
    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Explanation
    from linkwise.explain.reports.workload import WorkloadExplanation

    AnyExplanation = Explanation | GroupExplanation | NodeExplanation | WorkloadExplanation

__all__ = [
    "document_of",
    "explain_object",
    "pod_explanation",
    "show_document",
    "show_lines",
    "without_offers",
]

NOT_BOUND: Final = "not bound by a scheduler: if this persists, check its schedulerName, its events and the scheduler"


def explain_object(reader: ClusterReader, kind: str, name: str, namespace: str) -> AnyExplanation:
    """Explain a pod, group, node or workload; NotFoundError suggests similar names."""
    explanation: AnyExplanation | None
    match kind:
        case "pod":
            explanation = pod_explanation(reader, reader.pod(namespace, name))
        case "node":
            explanation = explain_node(reader.broker, reader.node(name), reader.now)
        case "group":
            explanation = explain_group(reader.broker, reader.group(namespace, name), reader.now)
        case _:
            known = reader.workload(kind, namespace, name)
            explanation = _without_offers_of_all(explain_workload(reader.broker, kind, namespace, known, reader.now))
    if explanation is None:
        raise NotFoundError(f"{kind} {name} not found")
    return explanation


def pod_explanation(reader: ClusterReader, uid: str, *, plan: bool = True) -> Explanation | None:
    """Explain a pod without its offers, which only the service knows."""
    explanation = explain_pod(reader.broker, uid, reader.now, plan=plan)
    return without_offers(explanation) if explanation else None


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


def show_lines(explanation: AnyExplanation, form: str | None) -> None:
    """Print one sentence per line, the most important first."""
    show_document(document_of(explanation), form)


def show_document(document: dict[str, Any], form: str | None) -> None:
    """Print an explanation that is a document already, as the service answers it."""
    if form:
        print_data(object_document("Explanation", document), form)
        return
    heading, *lines = document["lines"]
    console = terminal()
    print_sentences(console, [heading], indent=0, style="bold")
    print_sentences(console, lines)


def document_of(explanation: AnyExplanation) -> dict[str, Any]:
    """Return an explanation as the service answers it: its code if it has one, its sentences and all data."""
    data = plain(explanation)
    return {"code": data.get("code", ""), "lines": explanation_lines(explanation), "data": data}

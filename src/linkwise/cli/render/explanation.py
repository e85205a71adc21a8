"""Prints explanations of pods, groups and nodes as text, JSON or YAML."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from linkwise.errors import NotFoundError
from linkwise.explain.group.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines

if TYPE_CHECKING:
    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Explanation

    AnyExplanation = Explanation | GroupExplanation | NodeExplanation

__all__ = [
    "document_of",
    "explain_object",
    "plain",
    "pod_explanation",
    "print_data",
    "show_document",
    "show_lines",
    "without_offers",
]

NOT_BOUND: Final = "not bound by a scheduler: if this persists, check its schedulerName, its events and the scheduler"


def explain_object(reader: ClusterReader, kind: str, name: str, namespace: str) -> AnyExplanation:
    """Explain a pod, group or node; NotFoundError suggests similar names."""
    explanation: AnyExplanation | None
    match kind:
        case "pod":
            explanation = pod_explanation(reader, reader.pod(namespace, name))
        case "group":
            explanation = explain_group(reader.broker, reader.group(namespace, name), reader.now)
        case _:
            explanation = explain_node(reader.broker, reader.node(name), reader.now)
    if explanation is None:
        raise NotFoundError(f"{kind} {name} not found")
    return explanation


def pod_explanation(reader: ClusterReader, uid: str, *, plan: bool = True) -> Explanation | None:
    """Explain a pod without its offers, which only the service knows."""
    explanation = explain_pod(reader.broker, uid, reader.now, plan=plan)
    return without_offers(explanation) if explanation else None


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
        print_data(document, form)
        return
    heading, *lines = document["lines"]
    console = Console(highlight=False, markup=False)
    console.print(Text(heading, "bold"))
    for line in lines:
        console.print(Padding.indent(Text(line), 2))


def document_of(explanation: AnyExplanation) -> dict[str, Any]:
    """Return an explanation as the service answers it: its code if it has one, its sentences and all data."""
    data = plain(explanation)
    return {"code": data.get("code", ""), "lines": explanation_lines(explanation), "data": data}


def plain(explanation: Any) -> Any:  # noqa: ANN401 - any dataclass
    """Convert a dataclass to JSON-compatible values."""
    return msgspec.to_builtins(asdict(explanation), str_keys=True)


def print_data(document: object, form: str) -> None:
    """Print a document as JSON or YAML."""
    if form == "json":
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    import yaml  # noqa: PLC0415 - only needed for YAML

    sys.stdout.write(yaml.safe_dump(document, sort_keys=False, width=100))

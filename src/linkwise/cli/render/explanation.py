"""Explanations of things of a cluster, shown to a person or as data."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from linkwise.cli.options.cluster import NotThereError
from linkwise.explain.text.pod import explanation_lines

if TYPE_CHECKING:
    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Explanation

    Told = Explanation | GroupExplanation | NodeExplanation

__all__ = ["explain_pod", "explain_thing", "plain", "print_data", "show_lines"]

UNBOUND: Final = (
    "no scheduler has bound it yet: if that lasts, look at its schedulerName, its events, and the scheduler"
)


def explain_thing(seen: ClusterReader, kind: str, name: str, namespace: str) -> Told:
    """What is to say of a pod, a group or a node; NotThereError suggests near names."""
    told: Told | None
    match kind:
        case "pod":
            told = explain_pod(seen, seen.pod(namespace, name))
        case "group":
            told = seen.broker.explain_group(seen.group(namespace, name), seen.now)
        case _:
            told = seen.broker.explain_node(seen.node(name), seen.now)
    if told is None:
        raise NotThereError(f"nothing is known of {kind} {name}")
    return told


def explain_pod(seen: ClusterReader, uid: str, *, plan: bool = True) -> Explanation | None:
    """The same of a pod; what schedulers asked and were offered is known to the service alone."""
    told = seen.broker.explain(uid, seen.now, plan=plan)
    if told is None or told.offered is None:
        return told
    notes = (*told.notes, UNBOUND) if told.state == "fits" else told.notes
    return replace(told, offered=None, notes=notes)


def show_lines(told: Told, form: str | None) -> None:
    """One sentence a line, the most important first."""
    heading, *lines = explanation_lines(told)
    if form:
        print_data({"lines": [heading, *lines], "data": plain(told)}, form)
        return
    console = Console(highlight=False, markup=False)
    console.print(Text(heading, "bold"))
    for line in lines:
        console.print(Padding.indent(Text(line), 2))


def plain(told: Any) -> Any:  # noqa: ANN401 - any dataclass
    """A value as JSON has it."""
    return msgspec.to_builtins(asdict(told), str_keys=True)


def print_data(document: object, form: str) -> None:
    """A document as JSON or YAML."""
    if form == "json":
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    import yaml  # noqa: PLC0415 - only those who want it need it

    sys.stdout.write(yaml.safe_dump(document, sort_keys=False, width=100))

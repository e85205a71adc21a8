"""Prints explanations of pods, groups, nodes and workloads as text, JSON or YAML."""

from __future__ import annotations

from typing import Any

from linkwise.cli.render.documents import object_document, print_data
from linkwise.cli.render.tables import print_sentences, terminal

__all__ = ["show_document"]


def show_document(document: dict[str, Any], form: str | None) -> None:
    """Print the document of an explanation: one sentence per line, the most important first, or all data."""
    if form:
        print_data(object_document("Explanation", document), form)
        return
    heading, *lines = document["lines"]
    console = terminal()
    print_sentences(console, [heading], indent=0, style="bold")
    print_sentences(console, lines)

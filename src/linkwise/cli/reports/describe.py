"""Prints the details of a node, pod or group: links, device usage and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from linkwise.cli.render.documents import show_document
from linkwise.cli.render.pages import print_page
from linkwise.cli.render.tables import terminal

if TYPE_CHECKING:
    from linkwise.cli.reports.answers import Answers

__all__ = ["describe"]


def describe(answers: Answers, kind: str, name: str, namespace: str | None, form: str | None) -> None:
    """Print the details of an object to standard output."""
    if form:
        document, note = answers.explanation(kind, name, namespace)
    else:
        page, note = answers.description(kind, name, namespace)
    if note:
        click.echo(f"note: {note}", err=True)
    if form:
        show_document(document, form)
    else:
        print_page(terminal(), page)

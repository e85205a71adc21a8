"""Prints the rows of `linkwise get` as a table, JSON or YAML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.text import Text

from linkwise.cli.get.groups import group_rows
from linkwise.cli.get.nodes import device_rows, node_rows
from linkwise.cli.get.pods import pod_rows
from linkwise.cli.get.policies import policy_rows
from linkwise.cli.render.explanation import print_data
from linkwise.cli.render.tables import headed_table, least_width, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.cli.render.tables import Row

__all__ = ["Selection", "show", "show_rows"]

OPTIONAL: Final = ("policy", "group", "age")
"""columns that are dropped on a narrow terminal, the first of these first"""


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to list."""

    kind: str
    name: str
    """of a single object, or of the node whose devices are listed; empty for all"""
    namespace: str | None
    """None for all namespaces"""


def show(reader: ClusterReader, selection: Selection, form: str | None) -> None:
    """Print the selected objects in the given format."""
    show_rows(_rows(reader, selection), selection, form)


def show_rows(rows: Sequence[Row], selection: Selection, form: str | None) -> None:
    """Print rows in the given format."""
    if form in {"json", "yaml"}:
        one = selection.name and selection.kind != "device"
        documents: Any = [row.document() for row in rows]
        print_data(documents[0] if one else {"items": documents}, form)
        return
    if not rows:
        click.echo(_empty_message(selection), err=True)
        return
    console = Console(highlight=False, markup=False)
    print_table(console, _table(rows, console.width, wide=form == "wide"))


def _rows(reader: ClusterReader, selection: Selection) -> list[Row]:
    match selection.kind:
        case "node":
            return node_rows(reader, reader.node(selection.name) if selection.name else None)
        case "device":
            return device_rows(reader, reader.node(selection.name) if selection.name else None)
        case "pod":
            uid = reader.pod(selection.namespace or reader.namespace, selection.name) if selection.name else ""
            return pod_rows(reader, selection.namespace, uid)
        case "policy":
            return policy_rows(reader, reader.policy(selection.name) if selection.name else "")
        case _:
            key = reader.group(selection.namespace or reader.namespace, selection.name) if selection.name else ""
            return group_rows(reader, selection.namespace, key)


def _empty_message(selection: Selection) -> str:
    match selection.kind:
        case "node" | "device":
            return "no nodes with devices found"
        case "pod":
            what = "no pods that request devices found"
        case "policy":
            return "no AcceleratorPolicies found"
        case _:
            what = "no groups found"
    return f"{what}{f' in namespace {selection.namespace}; use -A for all namespaces' if selection.namespace else ''}"


def _table(rows: Sequence[Row], width: int, *, wide: bool) -> Table:
    """Return a table of the non-empty columns: wide ones only with `wide`, optional ones as far as they fit."""
    first = rows[0].cells
    names = [
        name
        for name, cell in first.items()
        if (wide or not cell.wide) and (cell.always or any(row.cells[name].text for row in rows))
    ]
    optional = [] if wide else [name for name in OPTIONAL if name in names and not first[name].always]
    while least_width(table := _with_columns(rows, names)) > width and optional:
        names.remove(optional.pop(0))
    return table


def _with_columns(rows: Sequence[Row], names: Sequence[str]) -> Table:
    table = headed_table(*names, names=[name for name in names if rows[0].cells[name].short])
    for row in rows:
        table.add_row(*(Text(row.cells[name].text or "-", row.cells[name].style) for name in names))
    return table

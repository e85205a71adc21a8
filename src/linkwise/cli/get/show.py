"""Things of a cluster as tables, or as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.text import Text

from linkwise.cli.get.groups import group_rows
from linkwise.cli.get.nodes import device_rows, node_rows
from linkwise.cli.get.pods import pod_rows
from linkwise.cli.render.explanation import print_data
from linkwise.cli.render.tables import headed_table, least_width, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.cli.render.tables import Row

__all__ = ["Wanted", "show"]

SPARE: Final = ("policy", "group", "age")
"""columns of which a narrow terminal shows as many as it can, the last of these first"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show."""

    kind: str
    name: str
    """of the only one, or of the node whose devices are meant; empty for all"""
    namespace: str | None
    """None for all"""


def show(seen: ClusterReader, wanted: Wanted, form: str | None) -> None:
    """Rows, or the same as data."""
    rows = _rows(seen, wanted)
    if form in {"json", "yaml"}:
        one = wanted.name and wanted.kind != "device"
        documents: Any = [row.document() for row in rows]
        print_data(documents[0] if one else documents, form)
        return
    if not rows:
        click.echo(_nothing(wanted), err=True)
        return
    console = Console(highlight=False, markup=False)
    print_table(console, _table(rows, console.width, wide=form == "wide"))


def _rows(seen: ClusterReader, wanted: Wanted) -> list[Row]:
    match wanted.kind:
        case "node":
            return node_rows(seen, seen.node(wanted.name) if wanted.name else None)
        case "device":
            return device_rows(seen, seen.node(wanted.name) if wanted.name else None)
        case "pod":
            uid = seen.pod(wanted.namespace or seen.namespace, wanted.name) if wanted.name else ""
            return pod_rows(seen, wanted.namespace, uid)
        case _:
            key = seen.group(wanted.namespace or seen.namespace, wanted.name) if wanted.name else ""
            return group_rows(seen, wanted.namespace, key)


def _nothing(wanted: Wanted) -> str:
    match wanted.kind:
        case "node" | "device":
            return "no node has devices that are told of here"
        case "pod":
            what = "no pod asks for devices"
        case _:
            what = "no pods are placed as a group"
    return f"{what}{f' in namespace {wanted.namespace}; -A looks into all' if wanted.namespace else ''}"


def _table(rows: Sequence[Row], width: int, *, wide: bool) -> Table:
    """Columns that say something of any row; those marked as wide only if they are wanted, spare ones if they fit."""
    first = rows[0].cells
    names = [
        name
        for name, cell in first.items()
        if (wide or not cell.wide) and (cell.always or any(row.cells[name].text for row in rows))
    ]
    spare = [] if wide else [name for name in SPARE if name in names]
    while least_width(table := _of_columns(rows, names)) > width and spare:
        names.remove(spare.pop(0))
    return table


def _of_columns(rows: Sequence[Row], names: Sequence[str]) -> Table:
    table = headed_table(*names, names=[name for name in names if rows[0].cells[name].short])
    for row in rows:
        table.add_row(*(Text(row.cells[name].text or "-", row.cells[name].style) for name in names))
    return table

"""Tables of objects as values, the selection of their rows, and the documents in which the service sends them.

A table says for each column whether it is shown in wide output only, and for each cell its text and colour; the client
only lays it out. kubectl gets its tables from the API server in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlencode

from linkwise.engine.selectors import all_met, label_requirements
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.views import NodeView, PodView, SelectorRequirement

__all__ = [
    "KINDS",
    "OF_NAMESPACES",
    "OF_NODES",
    "Cell",
    "Row",
    "Section",
    "Selection",
    "age_text",
    "decode_section",
    "encode_section",
    "parse_query",
]

Document = dict[str, Any]

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
MIN_UNITS: Final = 2
"""of a unit; below that the next smaller unit is used"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a row."""

    text: str
    style: str = ""
    wide: bool = False
    """shown only with -o wide"""
    brief: str | None = None
    """what is shown without -o wide, if it differs"""
    volatile: bool = False
    """changes with time alone, as an age does: a watch does not report it"""


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a list; all rows of a table have the same columns."""

    name: str
    """as `-o name` prints it: pod/train"""
    cells: dict[str, Cell]
    document: Callable[[], Any]
    """the object as JSON, computed only if needed"""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one kind."""

    kind: str
    """in documents: Pod"""
    rows: tuple[Row, ...] = ()
    alone: bool = False
    """whether one object was named, which is printed alone and not in a list"""
    empty: str = ""
    """what is said if there are no rows"""
    notes: tuple[str, ...] = ()
    """sentences about what is missing"""


def age_text(seconds: float) -> str:
    """Format an age as kubectl does: 45s, 12m, 3h, 5d."""
    for size, unit in _UNITS:
        if seconds >= MIN_UNITS * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def encode_section(section: Section, *, wide: bool = True, documents: bool = False) -> Document:
    """Return a section as JSON-compatible values; columns of wide output and documents of rows only if they are wanted."""
    first = (
        {name: cell for name, cell in section.rows[0].cells.items() if wide or not cell.wide} if section.rows else {}
    )
    columns = [
        {"name": name, **({"wide": True} if cell.wide else {}), **({"volatile": True} if cell.volatile else {})}
        for name, cell in first.items()
    ]
    rows = [
        {
            "name": row.name,
            **({"namespace": row.namespace} if row.namespace else {}),
            "cells": [_encode_cell(row.cells[name]) for name in first],
            **({"document": row.document()} if documents else {}),
        }
        for row in section.rows
    ]
    return {
        "kind": section.kind,
        "alone": section.alone,
        "empty": section.empty,
        "notes": list(section.notes),
        "columns": columns,
        "rows": rows,
    }


def _encode_cell(cell: Cell) -> str | list[str]:
    """Return the text, or a list of text, colour and brief text where the later ones are set."""
    if cell.brief is not None:
        return [cell.text, cell.style, cell.brief]
    return [cell.text, cell.style] if cell.style else cell.text


def decode_section(document: Document) -> Section:
    """Read a section; KeyError, TypeError or ValueError if it is not one."""
    columns = [
        (column["name"], column.get("wide", False), column.get("volatile", False)) for column in document["columns"]
    ]
    rows = tuple(
        Row(
            row["name"],
            {
                name: _decode_cell(cell, wide=wide, volatile=volatile)
                for (name, wide, volatile), cell in zip(columns, row["cells"], strict=True)
            },
            _same(row.get("document")),
            row.get("namespace", ""),
        )
        for row in document["rows"]
    )
    return Section(document["kind"], rows, document["alone"], document["empty"], tuple(document["notes"]))


def _decode_cell(cell: str | Sequence[str], *, wide: bool, volatile: bool) -> Cell:
    if isinstance(cell, str):
        return Cell(cell, wide=wide, volatile=volatile)
    text, style, *brief = cell
    return Cell(text, style, wide, brief[0] if brief else None, volatile)


def _same(document: Any) -> Callable[[], Any]:  # noqa: ANN401 - JSON
    return lambda: document


OF_NAMESPACES: Final = frozenset({"pod", "group", "usage", "pod-usage"})
"""kinds of which the objects of one namespace can be listed with rights in that namespace"""
OF_NODES: Final = frozenset({"node", "device", "node-usage"})
"""kinds of which all objects are shown to users with rights in some namespace, without names of pods of others"""
KINDS: Final = OF_NAMESPACES | OF_NODES | {"capacity", "policy"}
SORTS: Final = ("memory", "utilization")


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to list."""

    kind: str
    names: tuple[str, ...] = ()
    """of single objects, or of the nodes whose devices are listed; empty for all"""
    namespace: str | None = None
    """None for all namespaces"""
    selector: str = ""
    """on labels of pods or nodes"""
    sort_by: str = ""
    """the value of usage by which rows are sorted, largest first; empty: by name"""

    @property
    def requirements(self) -> tuple[SelectorRequirement, ...]:
        """The label selector; InputError if it is invalid."""
        return label_requirements(self.selector)

    def selects(self, one: NodeView | PodView) -> bool:
        """Return whether the label selector matches."""
        return all_met(self.requirements, one.labels)

    def query(self) -> str:
        """Return the query of a request for this table."""
        pairs = [
            *(("name", name) for name in self.names),
            *([("namespace", self.namespace)] if self.namespace is not None else []),
            *([("labelSelector", self.selector)] if self.selector else []),
            *([("sortBy", self.sort_by)] if self.sort_by else []),
        ]
        return urlencode(pairs)


def parse_query(kind: str, query: str) -> Selection:
    """Return the selection of a request; InputError names the parameter that is invalid."""
    if kind not in KINDS:
        raise InputError(f"unknown table {kind!r}: the tables are {', '.join(sorted(KINDS))}")
    values = parse_qs(query)
    selection = Selection(
        kind,
        tuple(values.get("name", ())),
        values["namespace"][-1] if "namespace" in values else None,
        ",".join(values.get("labelSelector", ())),
        values.get("sortBy", [""])[-1],
    )
    label_requirements(selection.selector)
    if selection.sort_by not in {"", *SORTS}:
        raise InputError(f"sortBy={selection.sort_by}: use {' or '.join(SORTS)}")
    return selection

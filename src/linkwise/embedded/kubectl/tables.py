"""Lists as tables, for kubectl get: the server says which columns there are, and what stands in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.kubectl.cells import age, at_path
from linkwise.embedded.kubectl.columns import COLUMNS, Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.embedded.kinds.registry import Column, Served
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = ["Table"]

_META: Final = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
_NAME: Final = Cell("Name", lambda document, _: document["metadata"]["name"], form="name")
_CREATED: Final = Cell(
    "Created At", lambda document, _: document["metadata"].get("creationTimestamp"), form="date-time"
)


class Table:
    """How objects of one kind are shown."""

    def __init__(self, served: Served, clock: Callable[[], float], shown: str = "Metadata") -> None:
        """`shown` says what of each object comes along: `None`, `Metadata` or `Object`."""
        self._cells = _cells(served)
        self._clock = clock
        self._shown = shown

    @property
    def definitions(self) -> list[Raw]:
        """The columns."""
        return [
            {"name": cell.name, "type": cell.kind, "format": cell.form, "description": "", "priority": int(cell.wide)}
            for cell in self._cells
        ]

    def rows(self, stored: Iterable[Stored]) -> list[Raw]:
        """One row an object."""
        now = self._clock()
        return [self._row(found.read(), now) for found in stored]

    def whole(self, stored: Iterable[Stored], version: int, rest: str = "", *, columns: bool = True) -> Raw:
        """A table of these."""
        meta: Raw = {"resourceVersion": str(version)} | ({"continue": rest} if rest else {})
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": self.definitions if columns else None,
            "rows": self.rows(stored),
        }

    def _row(self, document: Raw, now: float) -> Raw:
        cells: list[Any] = [cell.value(document, now) for cell in self._cells]
        row: Raw = {"cells": cells}
        if self._shown == "Object":
            row["object"] = document
        elif self._shown == "Metadata":
            row["object"] = {**_META, "metadata": document["metadata"]}
        return row


def _cells(served: Served) -> tuple[Cell, ...]:
    known = COLUMNS.get(served.resource.group_resource)
    if known is not None:
        return known if any(cell.name == _NAME.name for cell in known) else (_NAME, *known)
    if served.columns:
        return (_NAME, *(_custom(column) for column in served.columns))
    return _NAME, _CREATED


def _custom(column: Column) -> Cell:
    def value(document: Raw, now: float) -> Any:  # noqa: ANN401 - JSON
        found = at_path(document, column.path)
        return age(found, now) if column.kind == "date" and isinstance(found, str) else found

    # Ages are sent as texts that are ready to be shown.
    return Cell(column.name, value, kind="string" if column.kind == "date" else column.kind, wide=column.wide)

"""Table responses for kubectl get: the server chooses the columns and formats the cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.kubectl.cells import age, at_path
from linkwise.embedded.kubectl.columns import COLUMNS, TableColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.embedded.kinds.registry import Column, Served
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = ["Table"]

_META: Final = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
_NAME: Final = TableColumn("Name", lambda document, _: document["metadata"]["name"], format="name")
_CREATED: Final = TableColumn(
    "Created At", lambda document, _: document["metadata"].get("creationTimestamp"), format="date-time"
)


class Table:
    """Renders the objects of one resource as a Table."""

    def __init__(self, served: Served, clock: Callable[[], float], include_object: str = "Metadata") -> None:
        """`include_object`: `None`, `Metadata` or `Object`, as in the query parameter of that name."""
        self._columns = _columns_of(served)
        self._clock = clock
        self._include_object = include_object

    @property
    def definitions(self) -> list[Raw]:
        """The column definitions."""
        return [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": "",
                "priority": int(column.wide),
            }
            for column in self._columns
        ]

    def rows(self, stored: Iterable[Stored]) -> list[Raw]:
        """One row per object."""
        now = self._clock()
        return [self._row(stored_object.read(), now) for stored_object in stored]

    def document(
        self, stored: Iterable[Stored], version: int, continue_token: str = "", *, columns: bool = True
    ) -> Raw:
        """A Table of these objects."""
        meta: Raw = {"resourceVersion": str(version)} | ({"continue": continue_token} if continue_token else {})
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": self.definitions if columns else None,
            "rows": self.rows(stored),
        }

    def _row(self, document: Raw, now: float) -> Raw:
        cells: list[Any] = [column.value(document, now) for column in self._columns]
        row: Raw = {"cells": cells}
        if self._include_object == "Object":
            row["object"] = document
        elif self._include_object == "Metadata":
            row["object"] = {**_META, "metadata": document["metadata"]}
        return row


def _columns_of(served: Served) -> tuple[TableColumn, ...]:
    built_in = COLUMNS.get(served.resource.group_resource)
    if built_in is not None:
        return built_in if any(column.name == _NAME.name for column in built_in) else (_NAME, *built_in)
    if served.columns:
        return (_NAME, *(_custom_column(column) for column in served.columns))
    return _NAME, _CREATED


def _custom_column(column: Column) -> TableColumn:
    def value(document: Raw, now: float) -> Any:  # noqa: ANN401 - JSON
        result = at_path(document, column.path)
        return age(result, now) if column.type == "date" and isinstance(result, str) else result

    # Ages are sent as formatted strings.
    return TableColumn(column.name, value, type="string" if column.type == "date" else column.type, wide=column.wide)

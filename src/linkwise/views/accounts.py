"""Rows of `linkwise get usage` and `linkwise get capacity`: who has how many devices, and which sizes still fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.explain.capacity import capacity_rows
from linkwise.explain.published.allocations import allocation_rows, totals
from linkwise.explain.text.phrases import share_text
from linkwise.views.documents import plain
from linkwise.views.table import Cell, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.explain.capacity import CapacityRow
    from linkwise.explain.published.allocations import AllocationRow
    from linkwise.model.views import NodeView, PodView
    from linkwise.views.cluster import ClusterView

__all__ = ["account_rows", "capacity_table", "usage_table"]

_UNKNOWN: Final = "<unknown>"
_TOTAL: Final = "TOTAL"
GIB: Final = 1 << 30


def usage_table(
    cluster: ClusterView, namespace: str | None, selects: Callable[[PodView], bool]
) -> tuple[list[Row], list[str]]:
    """Return rows by namespace, resource and model, with totals of several namespaces, and notes."""
    found = allocation_rows(cluster.broker, cluster.now, namespace, selects)
    return account_rows(found.rows), list(found.notes) if any(row.pods for row in found.rows) else []


def account_rows(rows: Sequence[AllocationRow]) -> list[Row]:
    """Return rows of the table; more than one namespace has a total of each resource."""
    several = len({row.namespace for row in rows}) > 1
    return [*map(_usage, rows), *(_usage(row) for row in (totals(rows) if several else ()))]


def _usage(row: AllocationRow) -> Row:
    cells = {
        "namespace": Cell(row.namespace or _TOTAL, "" if row.namespace else "bold"),
        "resource": Cell(row.resource),
        "model": Cell(row.model),
        "pods": Cell(str(row.pods)),
        "allocated": Cell(_amount(row.devices, row.share, row.unit)),
        "pending": Cell(_amount(row.pending_devices, row.pending_share, row.unit)),
        "idle pods": Cell(_known(row, row.idle)),
        "pending pods": Cell(str(row.pending_pods), wide=True),
        "memory allocated": Cell(_memory(row, row.total), wide=True),
        "memory used": Cell(_memory(row, row.used), wide=True),
    }
    name = "/".join(filter(None, ("usage", row.namespace or "total", row.resource, row.model)))
    return Row(name, cells, lambda: plain(row), row.namespace)


def _amount(devices: int, share: int, unit: str) -> str:
    parts = [str(devices)] if devices or not share else []
    return " + ".join([*parts, *([share_text(share, unit)] if share else [])])


def _known(row: AllocationRow, value: int | None) -> str:
    return "0" if not row.pods else _UNKNOWN if value is None else str(value)


def _memory(row: AllocationRow, value: int | None) -> str:
    return "0" if not row.pods else _UNKNOWN if value is None else f"{value / GIB:.1f}Gi"


def capacity_table(cluster: ClusterView, namespace: str, selects: Callable[[NodeView], bool]) -> list[Row]:
    """Return rows by resource, model and size, for pods of that namespace."""
    return [_capacity(row) for row in capacity_rows(cluster.broker, cluster.now, namespace, selects)]


def _capacity(row: CapacityRow) -> Row:
    size = share_text(row.size, row.unit) if row.unit else str(row.size)
    free = f"{row.free}/{share_text(row.total, row.unit) if row.unit else row.total}"
    cells = {
        "resource": Cell(row.resource),
        "model": Cell(row.model),
        "size": Cell(size),
        "pods": Cell(str(row.pods), "green" if row.pods else "yellow"),
        "linked": Cell("" if row.linked is None else str(row.linked)),
        "free": Cell(free),
        "fragmented": Cell(f"{row.fragmentation}%"),
        "nodes": Cell(str(row.nodes), wide=True),
        "sharing": Cell(row.sharing, wide=True),
    }
    name = "/".join(filter(None, ("capacity", row.resource, row.model, str(row.size))))
    return Row(name, cells, lambda: {**plain(row), "fragmentation": row.fragmentation})

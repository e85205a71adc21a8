"""Rows of `linkwise get usage` and `linkwise get capacity`: who has how many devices, and which sizes still fit."""

from __future__ import annotations

from itertools import groupby
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
_PER_SIZE: Final = ("size", "pods", "linked", "nodes", "fragmentation")


def usage_table(
    cluster: ClusterView, namespace: str | None, selects: Callable[[PodView], bool]
) -> tuple[list[Row], list[str]]:
    """Return rows by namespace, resource and model, with totals of several namespaces, and notes."""
    found = allocation_rows(cluster.broker, cluster.now, namespace, selects)
    measured = found.notes if any(row.pods for row in found.rows) else ()
    return account_rows(found.rows), [*found.never, *measured]


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
    """Return a row per resource and model, with all sizes, for pods of that namespace."""
    rows = capacity_rows(cluster.broker, cluster.now, namespace, selects)
    return [_capacity(list(sizes)) for _, sizes in groupby(rows, key=lambda row: (row.resource, row.model))]


def _capacity(sizes: Sequence[CapacityRow]) -> Row:
    row = sizes[0]
    worst = max(sizes, key=lambda size: size.fragmentation)
    cells = {
        "resource": Cell(row.resource),
        "model": Cell(row.model),
        "free": Cell(f"{row.free}/{_size(row, row.total)}"),
        "pods by size": Cell(
            _by_size(sizes, lambda size: size.pods), "green" if any(s.pods for s in sizes) else "yellow"
        ),
        "fragmented": Cell(f"{worst.fragmentation}% for {_size(worst, worst.size)}" if worst.fragmentation else "0%"),
        "linked": Cell(_by_size(sizes, lambda size: size.linked), wide=True),
        "nodes": Cell(_by_size(sizes, lambda size: size.nodes), wide=True),
        "sharing": Cell(row.sharing, wide=True),
    }
    name = "/".join(filter(None, ("capacity", row.resource, row.model)))
    return Row(name, cells, lambda: _capacity_document(sizes))


def _by_size(sizes: Sequence[CapacityRow], value: Callable[[CapacityRow], int | None]) -> str:
    """Return a number per size: `1: 8, 2: 4`; sizes without one are left out."""
    numbers = ((size, value(size)) for size in sizes)
    return ", ".join(f"{_size(size, size.size)}: {number}" for size, number in numbers if number is not None)


def _size(row: CapacityRow, amount: int) -> str:
    return share_text(amount, row.unit) if row.unit else str(amount)


def _capacity_document(sizes: Sequence[CapacityRow]) -> dict[str, object]:
    """Return what the sizes have in common, and each of them."""
    row = plain(sizes[0])
    common = {key: row[key] for key in ("resource", "model", "sharing", "unit", "free", "total")}
    return {**common, "sizes": [{key: size[key] for key in _PER_SIZE} for size in map(plain, sizes)]}

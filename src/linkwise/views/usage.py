"""Rows of `linkwise top`: what nodes and pods use of their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.explain.published.usage import NodeUsageRow, PodUsageRow, node_usage_rows, pod_usage_rows
from linkwise.views.documents import plain, rfc3339
from linkwise.views.table import Cell, Row, Section, age_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.views.cluster import ClusterView
    from linkwise.views.selection import Selection

__all__ = ["usage_section"]

_MIB: Final = 1 << 20
_UNKNOWN: Final = "<unknown>"

UsageRows = list[NodeUsageRow] | list[PodUsageRow]


def usage_section(cluster: ClusterView, selection: Selection) -> Section:
    """Return the usage of nodes or pods; NotFoundError for a name that does not exist."""
    broker, now, names = cluster.broker, cluster.now, selection.names or ("",)
    if selection.kind == "node-usage":
        nodes = [node_usage_rows(broker, now, cluster.node(name) if name else "", selection.selects) for name in names]
        notes = [note for found in nodes for note in found.notes]
        return _section(cluster, selection, [row for found in nodes for row in found.nodes], notes)
    namespace = selection.namespace
    for name in selection.names:
        cluster.pod(namespace or cluster.namespace, name)
    selects = cluster.selects_pod(selection)
    pods = [pod_usage_rows(broker, now, namespace, name, selects) for name in names]
    notes = [note for found in pods for note in found.notes]
    return _section(cluster, selection, [row for found in pods for row in found.pods], notes)


def _section(cluster: ClusterView, selection: Selection, rows: UsageRows, notes: Sequence[str]) -> Section:
    ordered: Sequence[NodeUsageRow | PodUsageRow] = rows
    if selection.sort_by:
        ordered = sorted(rows, key=lambda row: -_size(row, selection.sort_by))
    of_nodes = selection.kind == "node-usage"
    everywhere = not of_nodes and selection.namespace is None
    return Section(
        "NodeUsage" if of_nodes else "PodUsage",
        tuple(_row(row, cluster.now, everywhere=everywhere) for row in ordered),
        alone=len(selection.names) == 1,
        empty="no nodes with devices found"
        if of_nodes
        else f"no pods with devices found{'' if everywhere else '; use -A for all namespaces'}",
        notes=tuple(notes),
    )


def _size(row: NodeUsageRow | PodUsageRow, by: str) -> int:
    """The value to sort by; unknown ones come last."""
    value = row.used if by == "memory" else row.utilization
    return -1 if value is None else value


def _row(row: NodeUsageRow | PodUsageRow, now: float, *, everywhere: bool) -> Row:
    pod = row if isinstance(row, PodUsageRow) else None
    cells = {
        **({"namespace": Cell(pod.namespace)} if pod and everywhere else {}),
        "name": Cell(row.name),
        "devices": Cell(str(row.devices)),
        "memory(bytes)": Cell(_bytes(row.used)),
        "memory(%)": Cell(_percent(row.used, row.total)),
        "utilization(%)": Cell(_UNKNOWN if row.utilization is None else f"{row.utilization}%"),
    }
    if isinstance(row, PodUsageRow):
        more = {"allocated(bytes)": _bytes(row.total), "node": row.node}
    else:
        more = {"total(bytes)": _bytes(row.total), "idle": _UNKNOWN if row.idle is None else str(row.idle)}
    cells |= {name: Cell(text, wide=True) for name, text in more.items()}
    cells["age"] = Cell("" if row.age is None else age_text(row.age), wide=True, volatile=True)
    name = f"{'pod' if pod else 'node'}/{row.name}"
    return Row(name, cells, lambda: _document(row, now), pod.namespace if pod else "")


def _document(row: NodeUsageRow | PodUsageRow, now: float) -> dict[str, Any]:
    document: dict[str, Any] = plain(row)
    del document["age"]
    return {**document, "time": None if row.age is None else rfc3339(now - row.age)}


def _bytes(amount: int | None) -> str:
    return _UNKNOWN if amount is None else f"{amount // _MIB}Mi"


def _percent(used: int | None, total: int | None) -> str:
    return _UNKNOWN if used is None or not total else f"{round(100 * used / total)}%"

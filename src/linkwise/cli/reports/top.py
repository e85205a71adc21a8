"""Rows of `linkwise top`: what nodes and pods use of their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.cli.render.documents import plain, rfc3339
from linkwise.cli.render.rows import Section
from linkwise.cli.render.tables import Cell, Row, age_text
from linkwise.cli.reports.tenant import read_as_tenant
from linkwise.engine.selectors import all_met
from linkwise.errors import NotFoundError
from linkwise.explain.published.usage import NodeUsageRow, PodUsageRow, node_usage_rows, pod_usage_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.cli.options.kinds import Named
    from linkwise.cli.options.lists import ListFlags
    from linkwise.cli.reports.tenant import Tenant
    from linkwise.kube.client.api import Connection

__all__ = ["usage_of", "usage_of_tenant"]

_MIB: Final = 1 << 20
_UNKNOWN: Final = "<unknown>"

UsageRows = list[NodeUsageRow] | list[PodUsageRow]


def usage_of(reader: ClusterReader, named: Named, flags: ListFlags, sort_by: str | None) -> Section:
    """Return the usage in a cluster that was read."""
    broker, now, names = reader.broker, reader.now, named.names or ("",)
    if named.kind == "node":
        nodes = [
            node_usage_rows(
                broker, now, reader.node(name) if name else "", lambda node: all_met(flags.requirements, node.labels)
            )
            for name in names
        ]
        notes = [note for found in nodes for note in found.notes]
        return _section(named, [row for found in nodes for row in found.nodes], notes, now, sort_by)
    namespace = None if flags.all_namespaces else flags.namespace or reader.namespace
    for name in named.names:
        reader.pod(namespace or reader.namespace, name)
    pods = [
        pod_usage_rows(broker, now, namespace, name, lambda pod: all_met(flags.requirements, pod.labels))
        for name in names
    ]
    notes = [note for found in pods for note in found.notes]
    rows = [row for found in pods for row in found.pods]
    return _section(named, rows, notes, now, sort_by, everywhere=flags.all_namespaces)


def usage_of_tenant(tenant: Tenant, named: Named, flags: ListFlags, sort_by: str | None, now: float) -> Section:
    """Return the usage of pods of one namespace, as the service reports it."""

    async def work(connection: Connection) -> tuple[list[PodUsageRow], list[str], str]:
        from linkwise.assembly.tenant_reader import TenantReader  # noqa: PLC0415 - imported with the tenant

        where = flags.namespace or connection.namespace
        rows, notes = await TenantReader(connection, tenant.service).usage(where, flags.selector)
        return rows, notes, where

    rows, notes, where = read_as_tenant(tenant, work)
    if named.names:
        by_name = {row.name: row for row in rows}
        missing = [name for name in named.names if name not in by_name]
        if missing:
            raise NotFoundError(f"pod {where}/{missing[0]} not found, or it has no devices")
        rows = [by_name[name] for name in named.names]
    return _section(named, rows, notes, now, sort_by)


def _section(  # noqa: PLR0913 - what a section is made of
    named: Named, rows: UsageRows, notes: Sequence[str], now: float, sort_by: str | None, *, everywhere: bool = False
) -> Section:
    ordered: Sequence[NodeUsageRow | PodUsageRow] = rows
    if sort_by:
        ordered = sorted(rows, key=lambda row: -_size(row, sort_by))
    where = "" if everywhere or named.kind == "node" else "; use -A for all namespaces"
    return Section(
        "NodeUsage" if named.kind == "node" else "PodUsage",
        tuple(_row(row, now, everywhere=everywhere) for row in ordered),
        alone=len(named.names) == 1,
        empty=f"no {named.kind}s with devices found{where}",
        notes=tuple(notes),
    )


def _size(row: NodeUsageRow | PodUsageRow, by: str | None) -> int:
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

"""Prints usage as `kubectl top` does: one line per object, in columns that are never wrapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from linkwise.cli.render.explanation import plain, print_data
from linkwise.cli.render.tables import age_text
from linkwise.cli.reports.tenant import read_as_tenant
from linkwise.engine.selectors import all_met
from linkwise.errors import NotFoundError
from linkwise.explain.published.usage import NodeUsageRow, PodUsageRow, UsageList, node_usage_rows, pod_usage_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.cli.reports.tenant import Tenant
    from linkwise.kube.client.api import Connection
    from linkwise.model.views import SelectorRequirement

__all__ = ["Wanted", "usage_of", "usage_of_tenant"]

_MIB: Final = 1 << 20
_UNKNOWN: Final = "<unknown>"
_GAP: Final = "   "


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to print, and how."""

    kind: str
    name: str
    """empty for all"""
    namespace: str | None
    """None for that of the context"""
    selector: str
    requirements: tuple[SelectorRequirement, ...]
    form: str | None
    sort_by: str | None
    headers: bool


def usage_of(reader: ClusterReader, wanted: Wanted, *, everywhere: bool) -> None:
    """Print the usage in a cluster that was read."""
    broker, now = reader.broker, reader.now
    if wanted.kind == "node":
        name = reader.node(wanted.name) if wanted.name else ""
        found = node_usage_rows(broker, now, name, lambda node: all_met(wanted.requirements, node.labels))
    else:
        namespace = None if everywhere else wanted.namespace or reader.namespace
        if wanted.name:
            reader.pod(namespace or reader.namespace, wanted.name)
        found = pod_usage_rows(
            broker, now, namespace, wanted.name, lambda pod: all_met(wanted.requirements, pod.labels)
        )
    _show(found, wanted, everywhere=everywhere)


def usage_of_tenant(tenant: Tenant, wanted: Wanted) -> None:
    """Print the usage of pods of one namespace, as the service reports it."""

    async def work(connection: Connection) -> tuple[list[PodUsageRow], list[str], str]:
        from linkwise.assembly.tenant_reader import TenantReader  # noqa: PLC0415 - imported with the tenant

        where = wanted.namespace or connection.namespace
        rows, notes = await TenantReader(connection, tenant.service).usage(where, wanted.selector)
        return rows, notes, where

    rows, notes, where = read_as_tenant(tenant, work)
    if wanted.name:
        rows = [row for row in rows if row.name == wanted.name]
        if not rows:
            raise NotFoundError(f"pod {where}/{wanted.name} not found, or it has no devices")
    _show(UsageList(pods=tuple(rows), notes=tuple(notes)), wanted, everywhere=False)


def _show(found: UsageList, wanted: Wanted, *, everywhere: bool) -> None:
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    rows: Sequence[NodeUsageRow | PodUsageRow] = found.nodes if wanted.kind == "node" else found.pods
    if wanted.sort_by:
        rows = sorted(rows, key=lambda row: -_size(row, wanted.sort_by))
    if wanted.form in {"json", "yaml"}:
        documents: list[Any] = [plain(row) for row in rows]
        print_data(documents[0] if wanted.name and documents else {"items": documents}, wanted.form)
        return
    if not rows:
        where = "" if everywhere or wanted.kind == "node" else "; use -A for all namespaces"
        click.echo(f"no {wanted.kind}s with devices found{where}", err=True)
        return
    _print([_cells(row, wide=wanted.form == "wide", everywhere=everywhere) for row in rows], headers=wanted.headers)


def _size(row: NodeUsageRow | PodUsageRow, by: str | None) -> int:
    """The value to sort by; unknown ones come last."""
    value = row.used if by == "memory" else row.utilization
    return -1 if value is None else value


def _cells(row: NodeUsageRow | PodUsageRow, *, wide: bool, everywhere: bool) -> dict[str, str]:
    cells = {
        "NAME": row.name,
        "DEVICES": str(row.devices),
        "MEMORY(bytes)": _bytes(row.used),
        "MEMORY(%)": _percent(row.used, row.total),
        "UTILIZATION(%)": _UNKNOWN if row.utilization is None else f"{row.utilization}%",
    }
    if isinstance(row, PodUsageRow):
        cells = {**({"NAMESPACE": row.namespace} if everywhere else {}), **cells}
        more = {"ALLOCATED(bytes)": _bytes(row.total), "NODE": row.node}
    else:
        more = {"TOTAL(bytes)": _bytes(row.total), "IDLE": _UNKNOWN if row.idle is None else str(row.idle)}
    age = "-" if row.age is None else age_text(row.age)
    return {**cells, **more, "AGE": age} if wide else cells


def _bytes(amount: int | None) -> str:
    return _UNKNOWN if amount is None else f"{amount // _MIB}Mi"


def _percent(used: int | None, total: int | None) -> str:
    return _UNKNOWN if used is None or not total else f"{round(100 * used / total)}%"


def _print(rows: Sequence[dict[str, str]], *, headers: bool) -> None:
    lines: list[Iterable[str]] = [rows[0].keys()] if headers else []
    lines += [row.values() for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo(_GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())

"""Prints explanations and lists for a user with rights in single namespaces."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.assembly.tenant_reader import DEFAULT_SERVICE, TenantReader, parse_service
from linkwise.cli.get.accounts import account_rows
from linkwise.cli.get.groups import group_row
from linkwise.cli.get.pods import pod_row
from linkwise.cli.get.show import KIND_NAMES, SINGLE, empty_message
from linkwise.cli.render.documents import rfc3339
from linkwise.cli.render.explanation import show_document
from linkwise.cli.render.rows import Section
from linkwise.errors import ClusterError, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.assembly.tenant_reader import ServiceAddress
    from linkwise.cli.get.show import Selection
    from linkwise.cli.render.tables import Row
    from linkwise.kube.client.api import Connection
    from linkwise.kube.errors import ForbiddenError

__all__ = ["Tenant", "explain_as_tenant", "read_as_tenant", "tenant_of", "tenant_section"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A user, and where the service is."""

    service: ServiceAddress
    kubeconfig: Path | None
    context: str | None
    refused: str = ""
    """why the cluster can't be read with the user's own rights"""

    def because(self, error: ForbiddenError) -> Tenant:
        """The same user, whose own rights do not suffice."""
        return replace(self, refused=str(error))


def tenant_of(service: str | None, kubeconfig: Path | None, context: str | None) -> Tenant:
    """The user of a kubeconfig; InputError if the address of the service is invalid."""
    return Tenant(parse_service(service or DEFAULT_SERVICE), kubeconfig, context)


def explain_as_tenant(tenant: Tenant, kind: str, name: str, namespace: str | None, form: str | None) -> None:
    """Print the explanation of a pod or a group."""

    async def work(connection: Connection) -> tuple[dict[str, Any], str]:
        return await TenantReader(connection, tenant.service).explanation(kind, namespace or connection.namespace, name)

    document, note = read_as_tenant(tenant, work)
    _show_note(note)
    show_document(document, form)


def tenant_section(tenant: Tenant, selection: Selection, selector: str) -> Section:
    """Return the pods, groups or usage of a namespace, as the service lists them."""

    async def work(connection: Connection) -> tuple[list[Row], list[str], str]:
        reader, where = TenantReader(connection, tenant.service), selection.namespace or connection.namespace
        match selection.kind:
            case "pod":
                pods, note = await reader.pods(where, selector)
                now = time.time()
                rows = [pod_row(row, now, partial(_document, shown), everywhere=False) for row, shown in pods]
                return rows, [note] if note else [], where
            case "usage":
                allocations, notes = await reader.allocations(where, selector)
                own = f"only namespace {where} is shown: your rights do not cover the cluster"
                return account_rows(allocations), [own, *notes] if tenant.refused else list(notes), where
            case _:
                groups = await reader.groups(where, selector)
                rows = [
                    group_row(one["namespace"], one["name"], one["why"], one["data"], everywhere=False)
                    for one in groups
                ]
                return rows, [], where

    rows, notes, where = read_as_tenant(tenant, work)
    chosen = replace(selection, namespace=where)
    if chosen.names:
        by_name = {row.name.partition("/")[2]: row for row in rows}
        missing = [name for name in chosen.names if name not in by_name]
        if missing:
            raise NotFoundError(f"{chosen.kind} {where}/{missing[0]} not found")
        rows = [by_name[name] for name in chosen.names]
    alone = len(chosen.names) == 1 and chosen.kind in SINGLE
    return Section(KIND_NAMES[chosen.kind], tuple(rows), alone, empty_message(chosen), tuple(notes))


def _document(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "created": rfc3339(shown["created"])}


def read_as_tenant(tenant: Tenant, work: Any) -> Any:  # noqa: ANN401 - what the work returns
    """Do something with the cluster; an error says why the user's own rights do not suffice."""
    try:
        return with_cluster(tenant.kubeconfig, tenant.context, work)
    except NotFoundError:
        raise
    except ClusterError as error:
        own = f"; your own rights do not suffice either: {tenant.refused}" if tenant.refused else ""
        raise ClusterError(f"{error}{own}") from error


def _show_note(note: str) -> None:
    if note:
        click.echo(f"note: {note}", err=True)

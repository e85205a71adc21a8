"""Body of `linkwise delete`: deletes objects one by one, prints each, and waits until they are gone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.cli.reports.apply import read_objects
from linkwise.cli.reports.objects import FoundObject, Objects
from linkwise.errors import ClusterError
from linkwise.kube.client.apply import Applying
from linkwise.kube.client.delete import delete_object, wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from linkwise.cli.options.targets import Target
    from linkwise.cli.reports.apply import SourceObject
    from linkwise.kube.client.api import Connection

__all__ = ["Deletion", "delete"]


@dataclass(frozen=True, slots=True)
class Deletion:
    """What to delete, and how."""

    targets: tuple[Target, ...]
    files: tuple[str, ...]
    selector: str
    namespace: str | None
    ignore_missing: bool
    wait: bool
    timeout: float
    """seconds to wait; 0 for ever"""
    grace: int | None
    dry: bool
    names_only: bool
    """whether the name alone is printed"""


def delete(deletion: Deletion, kubeconfig: Path | None, context: str | None) -> bool:
    """Delete the objects and print each result; False if any was refused or not found."""
    sources = read_objects(deletion.files, deletion.namespace)

    async def work(connection: Connection) -> bool:
        namespace = deletion.namespace or connection.namespace
        found = await _of_files(connection, sources, namespace)
        found += await Objects(connection, namespace).find(deletion.targets, deletion.selector)
        if not found and not deletion.files:
            click.echo("no resources found", err=True)
        return await _delete_all(connection, found, deletion)

    return with_cluster(kubeconfig, context, work)


async def _of_files(connection: Connection, sources: Sequence[SourceObject], namespace: str) -> list[FoundObject]:
    """The objects of files, the last one first: what was created later may need what was created before."""
    applying = Applying(connection)
    found = []
    for one in sources:
        kind = await applying.kind(one.version, one.kind)
        found.append(FoundObject(kind, (one.namespace or namespace) if kind.namespaced else "", one.name))
    return found


async def _delete_all(connection: Connection, objects: Sequence[FoundObject], deletion: Deletion) -> bool:
    success, leaving = True, []
    for one in objects:
        result = await delete_object(
            connection, one.kind, one.namespace, one.name, grace=deletion.grace, dry=deletion.dry
        )
        match result.outcome:
            case "deleted":
                click.echo(one.shown if deletion.names_only else f"{one.shown} deleted{_dry(deletion)}")
                leaving.append((one, result.uid))
            case "not found" if deletion.ignore_missing:
                pass
            case _:
                click.echo(f"linkwise: {one.shown}: {result.error}", err=True)
                success = False
    if deletion.wait and not deletion.dry and leaving:
        await _await_end(connection, leaving, deletion.timeout)
    return success


async def _await_end(connection: Connection, leaving: Sequence[tuple[FoundObject, str]], timeout: float) -> None:  # noqa: ASYNC109 - that of the command
    one = leaving[0][0]
    try:
        async with asyncio.timeout(timeout or None):
            for one, uid in leaving:
                await wait_until_gone(connection, one.kind, one.namespace, one.name, uid)
    except TimeoutError as error:
        raise ClusterError(
            f"{one.shown} still exists after {timeout:g} seconds: a finalizer or its node may hold it"
        ) from error


def _dry(deletion: Deletion) -> str:
    return " (server dry run)" if deletion.dry else ""

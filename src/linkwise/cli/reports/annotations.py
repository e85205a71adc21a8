"""Body of `linkwise annotate`: annotates objects one by one, and prints each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.cli.reports.objects import Objects
from linkwise.errors import ClusterError
from linkwise.kube.client.annotate import annotate_object
from linkwise.net.http.client import NotSentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkwise.cli.options.targets import Target
    from linkwise.kube.client.api import Connection

__all__ = ["annotate"]


def annotate(  # noqa: PLR0913 - the options of the command
    targets: tuple[Target, ...],
    selector: str,
    changes: Mapping[str, str | None],
    namespace: str | None,
    *,
    kubeconfig: Path | None,
    context: str | None,
    overwrite: bool,
    dry: bool,
) -> bool:
    """Annotate the objects and print each result; False if any was refused or not found."""

    async def work(connection: Connection) -> bool:
        found = await Objects(connection, namespace or connection.namespace).find(targets, selector)
        if not found:
            click.echo("no resources found", err=True)
        success = True
        for one in found:
            try:
                changed = await annotate_object(
                    connection, one.kind, one.namespace, one.name, changes, overwrite=overwrite, dry=dry
                )
            except NotSentError:
                raise  # the server can't be reached: the others would fail too
            except ClusterError as error:
                click.echo(f"linkwise: {error}", err=True)
                success = False
                continue
            result = "annotated" if changed else "unchanged"
            click.echo(f"{one.shown} {result}{' (server dry run)' if dry else ''}")
        return success

    return with_cluster(kubeconfig, context, work)

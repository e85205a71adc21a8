"""`linkwise apply`: send manifests to a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import cluster_flags, namespace_flag
from linkwise.cli.options.files import files_flag, named_files

if TYPE_CHECKING:
    from pathlib import Path

EXIT_REFUSED: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise apply -f job.yaml
  linkwise apply -f pods.yaml -f group.yaml -n research
  linkwise manifests rbac | linkwise apply -f -
  linkwise apply -f job.yaml --dry-run         # checked, and not written

The API server joins what is told with what others wrote, as for `kubectl apply --server-side`, so
that a manifest can be applied again and again. Every file is read before the first object is sent:
a mistake in the last of them leaves the cluster as it is. A field that there is none of is refused.
If the server refuses an object, the others are sent all the same.

Exit codes: 0 all were applied; 1 the cluster can't be reached, does not allow it, or refuses an
object; 2 a file makes no sense, with file, line and column.
"""


@click.command("apply", epilog=_EPILOG)
@files_flag("Manifests; - is standard input. May be given more than once, or without -f.")
@namespace_flag
@click.option("--dry-run", "dry", is_flag=True, help="Let the server say what it would do, and do nothing.")
@click.option("--force-conflicts", "force", is_flag=True, help="Take over fields that others own.")
@cluster_flags
def command(  # noqa: PLR0913 - one a flag
    files: tuple[str, ...],
    bare: tuple[str, ...],
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    dry: bool,
    force: bool,
) -> None:
    """Make the objects of manifests, or change those that are there to what the manifests say.

    Works for all kinds that the cluster has. Prints a line for each object: created, configured or unchanged.
    """
    from linkwise.cli.reports.apply import read_objects, send  # noqa: PLC0415 - brings yaml and the client

    objects = read_objects(named_files(files, bare), namespace)
    if not send(objects, kubeconfig, context, namespace, dry=dry, force=force):
        sys.exit(EXIT_REFUSED)

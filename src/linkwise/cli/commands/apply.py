"""`linkwise apply`: server-side apply of manifests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import cluster_flags, namespace_flag
from linkwise.cli.options.io import files_flag, named_files

if TYPE_CHECKING:
    from pathlib import Path

EXIT_REFUSED: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise apply -f job.yaml
  linkwise apply -f pods.yaml -f group.yaml -n research
  linkwise manifests rbac | linkwise apply -f -
  linkwise apply -f job.yaml --dry-run         # validate only

Works like `kubectl apply --server-side`: the API server merges the fields with those of other
managers, and unknown fields are errors. All files are read before the first object is sent, so an
error in any of them leaves the cluster unchanged. If the server refuses an object, the others are
still applied.

Exit codes: 0 all objects were applied; 1 the cluster can't be reached, denies access or refuses an
object; 2 a file is invalid (reported with file, line and column).
"""


@click.command("apply", epilog=_EPILOG)
@files_flag("Manifest file; - reads standard input. Can be repeated, and -f can be omitted.")
@namespace_flag
@click.option("--dry-run", "dry", is_flag=True, help="Server-side dry run: validate and change nothing.")
@click.option("--force-conflicts", "force", is_flag=True, help="Take over fields owned by other managers.")
@cluster_flags
def command(  # noqa: PLR0913 - one parameter per flag
    files: tuple[str, ...],
    bare: tuple[str, ...],
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    dry: bool,
    force: bool,
) -> None:
    """Create or update the objects of manifests.

    Supports every kind that the cluster serves. Prints one line per object: created, configured or unchanged.
    """
    from linkwise.cli.reports.objects import read_objects, send  # noqa: PLC0415 - imports yaml and the client

    objects = read_objects(named_files(files, bare), namespace)
    if not send(objects, kubeconfig, context, namespace, dry=dry, force=force):
        sys.exit(EXIT_REFUSED)

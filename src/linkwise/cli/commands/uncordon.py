"""`linkwise uncordon`: lets pods use cordoned devices again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags
from linkwise.cli.options.kinds import kind_and_name

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG: Final = f"""\b
Examples:
  linkwise uncordon node/gpu-7 --device 3
  linkwise uncordon node/gpu-7 --device GPU-5c9e2bb2   # one that was replaced

A device that is unhealthy stays unhealthy. `linkwise get devices NODE` lists the cordoned devices of a node.

{EXIT_CODES}
"""


@click.command("uncordon", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="node/NAME")
@click.option("--device", "devices", multiple=True, metavar="N", help="Index or ID of a device; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Ask the API server to check the change without making it.")
@cluster_flags
def command(
    what: tuple[str, ...], devices: tuple[str, ...], kubeconfig: Path | None, context: str | None, *, dry_run: bool
) -> None:
    """Let pods use cordoned devices of a node again."""
    _, name = kind_and_name(what, ("node",))
    from linkwise.cli.reports.cordon import Target, uncordon  # noqa: PLC0415 - imports the client and all policies

    uncordon(Target(name, devices, kubeconfig, context, dry_run))

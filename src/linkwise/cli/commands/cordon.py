"""`linkwise cordon`: keeps new pods off single devices of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags
from linkwise.cli.options.kinds import kind_and_name

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG: Final = f"""\b
Examples:
  linkwise cordon node/gpu-7 --device 3 --reason "ECC errors, ticket 4711"
  linkwise cordon node gpu-7 --device 3 --device 5
  linkwise get devices gpu-7
  linkwise uncordon node/gpu-7 --device 3

A cordoned device stays with the pods that use it, gets no new ones, and no longer counts as allocatable; plans that
include it are made again. The rest of the node is scheduled as before. To cordon a whole node, use `kubectl cordon`.

The cordon is an annotation of the node, and needs the permission to patch nodes. It stays until `linkwise uncordon`,
also over restarts of the node and of all components. The reason is shown to users whose pods have or miss the device.

{EXIT_CODES}
"""


@click.command("cordon", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="node/NAME")
@click.option("--device", "devices", multiple=True, metavar="N", help="Index or ID of a device; may be repeated.")
@click.option("--reason", default="", metavar="TEXT", help="Why, in one line: shown with the device and in events.")
@click.option("--dry-run", is_flag=True, help="Ask the API server to check the change without making it.")
@cluster_flags
def command(  # noqa: PLR0913 - one per flag
    what: tuple[str, ...],
    devices: tuple[str, ...],
    reason: str,
    kubeconfig: Path | None,
    context: str | None,
    *,
    dry_run: bool,
) -> None:
    """Keep new pods off devices of a node; pods that use them keep running."""
    _, name = kind_and_name(what, ("node",))
    from linkwise.cli.reports.cordon import Target, cordon  # noqa: PLC0415 - imports the client and all policies

    cordon(Target(name, devices, kubeconfig, context, dry_run), reason)

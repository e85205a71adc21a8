"""`linkwise inspect`: device memory usage in the format of `kubectl inspect gpushare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags
from linkwise.cli.options.io import form_flag

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG: Final = f"""\b
Examples:
  linkwise inspect
  linkwise inspect -d
  linkwise inspect -d gpu-7
  kubectl inspect gpushare -d      # the same command as a kubectl plugin
  linkwise inspect -o json

Only nodes that share device memory (aliyun.com/gpu-mem) are listed; `linkwise get devices` lists all
devices. PENDING is the memory of pods on the node whose device is not recorded.

{EXIT_CODES}
"""


@click.command("inspect", epilog=_EPILOG)
@click.argument("node", required=False)
@click.option("-d", "--details", is_flag=True, help="Show the usage of each pod.")
@form_flag("json", "yaml", "name")
@cluster_flags
def command(node: str | None, form: str | None, kubeconfig: Path | None, context: str | None, *, details: bool) -> None:
    """Show the allocated memory of each device, as `kubectl inspect gpushare` does.

    This command is read-only. Nodes are sorted by name.
    """
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - imports the client and all policies
    from linkwise.cli.reports.gpushare_memory import (  # noqa: PLC0415 - same
        memory_nodes,
        show_details,
        show_documents,
        show_summary,
    )

    reader = read_cluster(kubeconfig, context)
    nodes = memory_nodes(reader, reader.node(node) if node else None)
    if not nodes:
        which = f"node {node} does not share" if node else "no node shares"
        click.echo(f"note: {which} device memory (aliyun.com/gpu-mem)", err=True)
    if form:
        show_documents(nodes, form, alone=node is not None)
    else:
        click.echo(show_details(nodes) if details else show_summary(nodes), nl=False)

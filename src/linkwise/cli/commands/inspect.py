"""`linkwise inspect`: who has how much memory of which device, in the layout of gpushare's own command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG: Final = f"""\b
Examples:
  linkwise inspect
  linkwise inspect -d
  linkwise inspect -d gpu-7
  kubectl inspect gpushare -d      # the same program, by its other name

Only nodes that hand out the memory of their devices (aliyun.com/gpu-mem) are shown; `linkwise get
devices` shows all. PENDING is memory of pods that are on the node though nobody tells on which device.

{EXIT_CODES}
"""


@click.command("inspect", epilog=_EPILOG)
@click.argument("node", required=False)
@click.option("-d", "--details", is_flag=True, help="Pod by pod.")
@cluster_flags
def command(node: str | None, kubeconfig: Path | None, context: str | None, *, details: bool) -> None:
    """Show how much memory of each device is taken, node by node, as `kubectl inspect gpushare` does.

    Nothing is changed. Nodes are in the order of their names.
    """
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - brings the client and all policies
    from linkwise.cli.reports.gpushare_memory import memory_nodes, show_details, show_summary  # noqa: PLC0415 - same

    seen = read_cluster(kubeconfig, context)
    nodes = memory_nodes(seen, seen.node(node) if node else None)
    if not nodes:
        which = f"node {node} does" if node else "no node does"
        click.echo(f"note: {which}{' not' if node else ''} hand out memory of devices (aliyun.com/gpu-mem)", err=True)
    click.echo(show_details(nodes) if details else show_summary(nodes), nl=False)

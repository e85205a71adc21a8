"""`linkwise top`: prints what nodes and pods use of their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES
from linkwise.cli.options.kinds import complete_objects, kinds_and_names
from linkwise.cli.options.lists import list_flags

if TYPE_CHECKING:
    from linkwise.cli.options.lists import ListFlags

KINDS: Final = ("node", "pod")
SORTS: Final = ("memory", "utilization")

_EPILOG: Final = f"""\b
Examples:
  linkwise top nodes
  linkwise top nodes -l gpushare=true --sort-by utilization
  linkwise top pods -A -o wide            # with nodes and shares
  linkwise top pods trainer-0
  linkwise top pods --no-headers | sort -k3 -h

\b
nodes    memory in use on all devices of a node, and their average utilization
pods     the same for a pod, in percent of the memory that it was allocated

Agents publish a summary of their readings at most every 30 seconds (agent.usage); their metrics have every reading.
Values that are not known are printed as <unknown>, with the reason on standard error.

The service is asked first, through the API server and with your token. Without a service, the cluster is read with your
own rights.

{EXIT_CODES}
"""


@click.command("top", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND [NAME]...", shell_complete=complete_objects(KINDS, several=True))
@click.option("--sort-by", type=click.Choice(SORTS), help="Print the largest first. [default: by name]")
@list_flags("json", "yaml", "name", "wide")
def command(what: tuple[str, ...], sort_by: str | None, *, flags: ListFlags) -> None:
    """Print memory and utilization of devices, by node or by pod.

    KIND is nodes or pods. This command is read-only.
    """
    named = kinds_and_names(what, KINDS)
    for each in named:
        flags.check_names(each.names)
    from linkwise.cli.reports.listing import list_objects  # noqa: PLC0415 - imports the client

    list_objects(named, flags, suffix="-usage", sort_by=sort_by)

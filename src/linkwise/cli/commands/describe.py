"""`linkwise describe`: the details of a node, pod or group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags, namespace_flag
from linkwise.cli.options.completion import complete_objects
from linkwise.cli.options.kinds import kind_and_name
from linkwise.cli.options.output import form_flag

if TYPE_CHECKING:
    from pathlib import Path

KINDS: Final = ("node", "pod", "group")

_EPILOG: Final = f"""\b
Examples:
  linkwise describe node gpu-7
  linkwise describe pod train -n research
  linkwise describe group/llm

In the link table, a star marks the devices of the pod, and a minus marks devices that are in use or
unhealthy; faster links are brighter. In the device map of a group, a letter is a member, `.` is a free
device, `x` a device in use and `!` an unhealthy device.

JSON and YAML are those of `linkwise explain`.

{EXIT_CODES}
"""


@click.command("describe", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND NAME", shell_complete=complete_objects(KINDS))
@namespace_flag
@form_flag("json", "yaml")
@cluster_flags
def command(
    what: tuple[str, ...], namespace: str | None, form: str | None, *, kubeconfig: Path | None, context: str | None
) -> None:
    """Show the details of a node, pod or group: links, device usage and the reasons for decisions.

    This command is read-only and does not need the service to be running.
    """
    kind, name = kind_and_name(what, KINDS)
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - imports the client

    reader = read_cluster(kubeconfig, context)
    from linkwise.cli.reports.describe import describe  # noqa: PLC0415 - imports the planner and rich

    describe(reader, kind, name, namespace or reader.namespace, form)

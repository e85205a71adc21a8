"""`linkwise describe`: the details of a node, pod or group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES
from linkwise.cli.options.kinds import complete_objects, kind_and_name
from linkwise.cli.options.lists import object_flags

if TYPE_CHECKING:
    from linkwise.cli.options.lists import ObjectFlags

KINDS: Final = ("node", "pod", "group")

_EPILOG: Final = f"""\b
Examples:
  linkwise describe node gpu-7
  linkwise describe pod train -n research
  linkwise describe group/llm

In the link table, a star marks the devices of the pod, and a minus marks devices that are in use or
unhealthy; faster links are brighter. In the device map of a group, a letter is a member, `.` is a free
device, `x` a device in use and `!` an unhealthy device.

The service is asked first, through the API server and with your token; pods of namespaces that your rights do
not cover are not named. Without a service, the cluster is read with your own rights.

JSON and YAML are those of `linkwise explain`.

{EXIT_CODES}
"""


@click.command("describe", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND NAME", shell_complete=complete_objects(KINDS))
@object_flags("json", "yaml")
def command(what: tuple[str, ...], *, flags: ObjectFlags) -> None:
    """Show the details of a node, pod or group: links, device usage and the reasons for decisions.

    This command is read-only.
    """
    kind, name = kind_and_name(what, KINDS)
    from linkwise.cli.reports.answers import answers_of, describe  # noqa: PLC0415 - imports the client

    describe(answers_of(flags), kind, name, flags.namespace, flags.form)

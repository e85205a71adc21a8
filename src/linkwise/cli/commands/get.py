"""`linkwise get`: lists objects of a cluster as the scheduler sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES
from linkwise.cli.options.kinds import complete_objects, kinds_and_names
from linkwise.cli.options.lists import list_flags

if TYPE_CHECKING:
    from linkwise.cli.options.lists import ListFlags

KINDS: Final = ("node", "pod", "device", "group", "policy", "usage", "capacity")

_EPILOG: Final = f"""\b
Examples:
  linkwise get nodes
  linkwise get pods -A -w                 # all namespaces, and every change
  linkwise get pod/train-0 node/gpu-7
  linkwise get devices gpu-7 -o wide      # devices of one node, with IDs
  linkwise get usage                      # devices by namespace
  linkwise get capacity -l pool=training  # what still fits on these nodes
  linkwise get pods -o json | jq '.items[] | select(.node == "").name'

\b
nodes     sharing mode, idle devices and links of each node
pods      pods that request devices: what they have, or why they are pending
devices   health and usage of each device; NAME is the name of a node
groups    pods that are scheduled together: bound members out of all
policies  AcceleratorPolicies: who may use and share which devices
usage     devices and shares of each namespace: allocated, pending, idle
capacity  pods of 1, 2, 4 ... devices that fit now, and fragmentation

There is one line per object; lines are never wrapped, and cut only on a terminal (not with -o wide). JSON and YAML have
the objects of a list in `items`; one object, named by NAME, is printed alone. Times are in RFC 3339, UTC.

-l selects by the labels of nodes for nodes, devices and capacity, and by the labels of pods otherwise. `get usage` lists
all namespaces unless -n is given. The reason is computed for the first 100 pods; `linkwise explain pod/NAME` shows all
details.

The service is asked first, through the API server and with your token: it knows the cluster and answers what you may
read. With rights in single namespaces, lists of all namespaces have these, and pods of others on nodes and devices are
not named. Without a service, the cluster is read with your own rights. If these cover single namespaces only, pods are listed
with what the service has published on them.

{EXIT_CODES}
"""


@click.command("get", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND [NAME]...", shell_complete=complete_objects(KINDS, several=True))
@list_flags("json", "yaml", "name", "wide")
def command(what: tuple[str, ...], *, flags: ListFlags) -> None:
    """List nodes, pods, devices, groups, access policies, usage or capacity of a cluster.

    KIND is nodes, pods, devices, groups, policies, usage or capacity, or several of them, as in pods,nodes. This command
    is read-only. It needs no service, unless you have rights in single namespaces only.
    """
    named = kinds_and_names(what, KINDS)
    for each in named:
        flags.check_names(each.names)
    from linkwise.cli.reports.listing import list_objects  # noqa: PLC0415 - imports the client

    list_objects(named, flags)

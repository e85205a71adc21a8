"""`linkwise explain`: the reasons for the state of a pod, group, node or workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES
from linkwise.cli.options.kinds import WORKLOADS, complete_objects, kind_and_name
from linkwise.cli.options.lists import object_flags

if TYPE_CHECKING:
    from linkwise.cli.options.lists import ObjectFlags

KINDS: Final = ("pod", "group", "node", *WORKLOADS)

_EPILOG: Final = f"""\b
Examples:
  linkwise explain pod/train
  linkwise explain pod train -n research
  linkwise explain group/llm              # pods that are scheduled together
  linkwise explain job/llm                # all pods of a Job
  linkwise explain node/gpu-7
  linkwise explain pod/train -o json | jq .data.remedies
  linkwise explain pod/train --service http://127.0.0.1:39999

KIND is pod, group, node, or a workload: job, deployment, statefulset, daemonset, replicaset, replicationcontroller,
vcjob (Volcano), jobset, trainjob, leaderworkerset, pytorchjob, tfjob, xgboostjob, paddlejob, jaxjob, mxjob, mpijob or
raycluster.

For a pending pod, the output shows why the nodes are not feasible and what would have to change. For a
scheduled pod, it shows why the node and the devices were chosen, as recorded then, and what would be chosen
now.

The service is asked first, through the API server and with your token: it explains pods that you may get, and
groups and workloads of namespaces whose pods you may list. Without a service, the cluster is read with your own
rights; devices reserved by plans of groups are then shown once a member is bound. If your rights cover single
namespaces only, what the service has published on the pod is shown: its condition linkwise.dev/Schedulable and its events.

{EXIT_CODES}
"""


@click.command("explain", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND/NAME", shell_complete=complete_objects(KINDS))
@object_flags("json", "yaml")
def command(what: tuple[str, ...], *, flags: ObjectFlags) -> None:
    """Explain why a pod or the pods of a workload are pending or have their devices, the state of a group, or what fits on a node.

    This command is read-only. It gives the same explanations as the service.
    """
    kind, name = kind_and_name(what, KINDS)
    from linkwise.cli.render.documents import show_document  # noqa: PLC0415 - imports rich
    from linkwise.cli.reports.answers import answers_of  # noqa: PLC0415 - imports the client

    document, note = answers_of(flags).explanation(kind, name, flags.namespace)
    if note:
        click.echo(f"note: {note}", err=True)
    show_document(document, flags.form)

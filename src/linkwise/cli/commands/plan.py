"""`linkwise plan`: where a group of pods would go as one, and why there."""

from __future__ import annotations

import sys
from typing import Final

import click

from linkwise.cli.options.files import files_flag, named_files
from linkwise.cli.options.output import json_flag
from linkwise.errors import InputError

EXIT_SHORT: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise plan -f job.yaml --fleet dgx1-v100=4
  linkwise plan -f job.yaml --on cluster.json --explain
  kubectl get nodes,pods -A -o json | linkwise plan -f job.yaml --on -
  linkwise plan -f job.yaml --on cluster.json --fleet hgx-h100=2    # two more
  linkwise plan -f podgroup.yaml -f job.yaml --fleet hgx-h100=4
  linkwise plan -f job.yaml --on cluster.json --json | jq '.[].members[].node'

The job is any manifest that makes pods: Pod, Job (as many as run at a time, each with its
completion index), a Volcano job, StatefulSet, Deployment, lists, several documents. Pods that
say which group they are in are planned by group, in the order of the file, each beside those
before; all others are planned as one group. PodGroups are read, gates are looked past.

\b
The cluster is a snapshot of the service, or a list as kubectl prints it:
  kubectl get nodes,pods,deviceinventories,devices -A -o json > cluster.json

--fleet adds empty machines that are known by name, written as for `linkwise up`: dgx1-v100=4,p40-share=2 or a file.

In the picture a letter is a member, `.` a free device, `x` one that is taken, `!` one that does
not work.

Exit codes: 0 every group fits as a whole; 1 one does not, and why is told; 2 a file makes no
sense, with file and place.
"""


@click.command("plan", epilog=_EPILOG)
@files_flag("The job; - is standard input. May be given more than once, or without -f.")
@click.option("--on", metavar="FILE", help="The cluster; - is standard input.")
@click.option(
    "--fleet",
    metavar="PROFILE=COUNT,...|FILE",
    help="Empty machines, beside those of the cluster if there is one; as for `linkwise up`.",
)
@click.option("--explain", is_flag=True, help="Say why, level by level, and what came second.")
@json_flag("A JSON list, one object a group.")
def command(  # noqa: PLR0913 - one a flag
    files: tuple[str, ...],
    bare: tuple[str, ...],
    on: str | None,
    fleet: str | None,
    *,
    explain: bool,
    as_json: bool,
) -> None:
    """Plan the pods of a job as one group, and show which nodes and devices they would get.

    Nothing is sent anywhere. The plan is the one that the service would make for the same pods on the same cluster: all
    members, the fewest nodes, close in the network, fast links among the devices of a node and of a pod, good sets left
    to others, few devices left over.
    """
    from linkwise.cli.inputs.job_pods import read_job  # noqa: PLC0415 - brings yaml
    from linkwise.cli.plan.planning import cluster_of, plan_groups  # noqa: PLC0415 - brings all policies
    from linkwise.cli.plan.view import show  # noqa: PLC0415 - brings rich

    named = named_files(files, bare)
    if [*named, on, fleet].count("-") > 1:
        raise InputError("only one of the files can be standard input")
    job = read_job(named)
    broker, now = cluster_of(on, fleet)
    planned = list(plan_groups(job, broker, now))
    show(planned, explain=explain, as_json=as_json)
    if not all(found.told.whole for found in planned):
        sys.exit(EXIT_SHORT)

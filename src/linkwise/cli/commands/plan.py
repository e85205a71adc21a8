"""`linkwise plan`: plans the pods of a job as one group."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import cluster_flags
from linkwise.cli.options.io import files_flag, form_flag, named_files
from linkwise.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

EXIT_UNSCHEDULABLE: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise plan -f job.yaml                          # on the current cluster
  linkwise plan -f job.yaml --context prod --fleet hgx-h100=2    # two more
  linkwise plan -f job.yaml --fleet dgx1-v100=4
  linkwise plan -f job.yaml --on cluster.json --explain
  kubectl get nodes,pods -A -o json | linkwise plan -f job.yaml --on -
  linkwise plan -f job.yaml --on cluster.json --fleet hgx-h100=2    # two more
  linkwise plan -f podgroup.yaml -f job.yaml --fleet hgx-h100=4
  linkwise plan -f job.yaml -o json | jq '.items[].members[].node'

The job is any manifest that creates pods: Pod, Job (its parallelism, with completion indexes), Volcano
Job, JobSet, LeaderWorkerSet, PyTorchJob and the other jobs of Kubeflow, MPIJob, TrainJob, RayJob,
StatefulSet, Deployment, lists and multi-document files. Pods that name their group, and those of a JobSet
or a similar kind, are planned by group, in the order of the file, each group on top of the previous ones;
all other pods are planned as one group. PodGroups are taken into account, scheduling gates are ignored.

\b
The cluster is that of the current context, unless --on or --fleet is given.
--on is a snapshot of the service, or a list as printed by kubectl:
  kubectl get nodes,pods,deviceinventories,devices -A -o json > cluster.json

--fleet adds empty nodes of known machine profiles, as for `linkwise up`: dgx1-v100=4,p40-share=2 or a file.

In the device map, a letter is a member, `.` is a free device, `x` a device in use and `!` an unhealthy
device.

Exit codes: 0 every group fits; 1 a group does not fit (the reason is shown), or the cluster can't be read; 2
invalid input.
"""


@click.command("plan", epilog=_EPILOG)
@files_flag("Manifest of the job; - reads standard input. Can be repeated; -f can be omitted.")
@click.option("--on", metavar="FILE", help="File with the state of the cluster; - reads standard input.")
@click.option(
    "--fleet",
    metavar="PROFILE=COUNT,...|FILE",
    help="Empty nodes to plan on, in addition to those of the cluster; as for `linkwise up`.",
)
@click.option("--explain", is_flag=True, help="Explain each level of the decision and the second-best plan.")
@form_flag("json", "yaml", "name", "wide")
@cluster_flags
def command(  # noqa: PLR0913 - one per flag
    files: tuple[str, ...],
    bare: tuple[str, ...],
    on: str | None,
    fleet: str | None,
    *,
    explain: bool,
    form: str | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Plan the pods of a job as one group, and show the nodes and devices they would get.

    Nothing is sent to a cluster. The plan is the one that the service would make for the same pods on the same cluster.
    In this order, it places all members, uses the fewest nodes, keeps them close in the network, maximizes the bandwidth
    between the devices of a node and of a pod, keeps good device sets for other pods, and leaves few devices unused.
    """
    from linkwise.cli.inputs.job_pods import read_job  # noqa: PLC0415 - imports yaml
    from linkwise.cli.reports.plan import cluster_of, plan_groups, show  # noqa: PLC0415 - imports all policies

    named = named_files(files, bare)
    if [*named, on, fleet].count("-") > 1:
        raise InputError("only one of the files can be read from standard input")
    job = read_job(named)
    broker, now = cluster_of(on, fleet, kubeconfig, context)
    plans = list(plan_groups(job, broker, now))
    show(plans, explain=explain, form=form)
    if not all(plan.group.whole for plan in plans):
        sys.exit(EXIT_UNSCHEDULABLE)

"""`linkwise read`: checks how Linkwise interprets manifests."""

from __future__ import annotations

import sys
from typing import Final

import click

from linkwise.cli.options.io import files_flag, json_flag, named_files

EXIT_PROBLEMS: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise read -f job.yaml
  linkwise read manifests/*.yaml           # all files, as in CI
  kubectl get pod trainer-0 -o yaml | linkwise read -f -
  linkwise read -f deployment.yaml --json

Supported kinds: Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, Volcano Job, JobSet,
LeaderWorkerSet, PyTorchJob and the other jobs of Kubeflow, MPIJob, TrainJob, RayCluster, RayJob, RayService,
Node, and the objects that describe devices (Device, DeviceInventory).

Exit codes: 0 no problems, 1 problems (each with line and column), 2 a file can't be read.
"""


@click.command("read", epilog=_EPILOG)
@files_flag("Manifest to check; - reads standard input. Can be repeated; -f can be omitted.")
@json_flag("Print a JSON list with one object per pod template or node.")
def command(files: tuple[str, ...], bare: tuple[str, ...], *, as_json: bool) -> None:
    """Show the devices that manifests request, the API they use, the policy and the group.

    Nothing is sent to a cluster. The output shows how a cluster with Linkwise would interpret the manifests.
    """
    from linkwise.cli.reports.manifests import read_file, show  # noqa: PLC0415 - imports rich, which --help does not need

    entries = [entry for file in named_files(files, bare) for entry in read_file(file)]
    show(entries, as_json=as_json)
    if any(entry["problems"] for entry in entries):
        sys.exit(EXIT_PROBLEMS)

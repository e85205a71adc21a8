"""`linkwise read`: what Linkwise understands of a manifest."""

from __future__ import annotations

import sys
from typing import Final

import click

EXIT_PROBLEMS: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise read -f job.yaml
  kubectl get pod trainer-0 -o yaml | linkwise read -f -
  linkwise read -f deployment.yaml --json

\b
Read are pods and what makes pods (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob,
Volcano jobs), nodes, and the objects that describe devices (Device, DeviceInventory).

\b
Exit codes: 0 all is understood, 1 problems (each with line and column), 2 the file can't be read.
"""


@click.command("read", epilog=_EPILOG)
@click.option("-f", "--filename", "file", required=True, metavar="FILE", help="A manifest; - is standard input.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, one object a pod template or node.")
def command(file: str, *, as_json: bool) -> None:
    """Show what a manifest asks for, in whose words, by which policy and in which group.

    Nothing is sent anywhere: this tells how a cluster with Linkwise would understand it.
    """
    from linkwise.cli.understanding import read_file, show  # noqa: PLC0415 - brings rich, which --help does not need

    found = read_file(file)
    show(found, as_json=as_json)
    if any(entry["problems"] for entry in found):
        sys.exit(EXIT_PROBLEMS)

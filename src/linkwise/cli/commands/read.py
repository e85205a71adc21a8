"""`linkwise read`: what Linkwise understands of a manifest."""

from __future__ import annotations

import sys
from typing import Final

import click

from linkwise.cli.options.files import files_flag, named_files
from linkwise.cli.options.output import json_flag

EXIT_PROBLEMS: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise read -f job.yaml
  linkwise read manifests/*.yaml           # every file, as before a merge
  kubectl get pod trainer-0 -o yaml | linkwise read -f -
  linkwise read -f deployment.yaml --json

Read are pods and what makes pods (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob,
Volcano jobs), nodes, and the objects that describe devices (Device, DeviceInventory).

Exit codes: 0 all is understood, 1 problems (each with line and column), 2 a file can't be read.
"""


@click.command("read", epilog=_EPILOG)
@files_flag("A manifest; - is standard input. May be given more than once, or without -f.")
@json_flag("A JSON list, one object a pod template or node.")
def command(files: tuple[str, ...], bare: tuple[str, ...], *, as_json: bool) -> None:
    """Show what manifests ask for, in whose words, by which policy and in which group.

    Nothing is sent anywhere: this tells how a cluster with Linkwise would understand it.
    """
    from linkwise.cli.reports.manifests import read_file, show  # noqa: PLC0415 - brings rich, which --help does not need

    found = [entry for file in named_files(files, bare) for entry in read_file(file)]
    show(found, as_json=as_json)
    if any(entry["problems"] for entry in found):
        sys.exit(EXIT_PROBLEMS)

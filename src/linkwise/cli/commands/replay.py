"""`linkwise replay`: schedules the pending pods of a recorded cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import cluster_flags
from linkwise.cli.options.io import form_flag
from linkwise.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

EXIT_DIFFERENT: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise replay                          # pods of the current cluster
  kubectl get nodes,pods -A -o json | linkwise replay -
  linkwise replay cluster.json --explain
  linkwise replay before.json --diff after.json
  linkwise replay cluster.json -o json > decisions.json

\b
Without FILE, the cluster of the current context is read. FILE is a snapshot
of the service, or a list of objects as printed by kubectl:
  kubectl get nodes,pods,deviceinventories,devices -A -o json > cluster.json

The device objects add details about the nodes' devices; leave out kinds that your cluster does not have.

Exit codes: 0 success, whether or not pods stay pending; 1 --diff found a difference, or the cluster can't be
read; 2 invalid input.
"""


@click.command("replay", epilog=_EPILOG)
@click.argument("file", required=False)
@click.option("--explain", is_flag=True, help="Explain the decision for each pod.")
@click.option("--diff", "other", metavar="OTHER", help="Show only pods that are placed differently in this file.")
@form_flag("json", "yaml", "name", "wide")
@cluster_flags
def command(  # noqa: PLR0913 - one per flag
    file: str | None,
    other: str | None,
    form: str | None,
    *,
    explain: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Schedule every pending pod of a cluster, one after the other, and show where each would be placed.

    Pods are tried by priority, then by age, with the scheduler's calls: filter, prioritize, bind. Nothing is sent to a
    cluster. The same file always gives the same answer, so that decisions can be examined later and tried again with
    other settings.
    """
    from linkwise.cli.reports.replay import decide, show, show_differences  # noqa: PLC0415 - imports rich and all policies

    if file == other == "-":
        raise InputError("only one of the two files can be read from standard input")
    if file is not None and (kubeconfig is not None or context is not None):
        raise InputError("FILE can't be used together with --kubeconfig or --context")
    decisions = decide(file, kubeconfig, context, explain=explain)
    name = file or "the cluster"
    if other is None:
        show(decisions, form)
    elif show_differences((name, decisions), (other, decide(other, explain=explain)), form):
        sys.exit(EXIT_DIFFERENT)

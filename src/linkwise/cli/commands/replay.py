"""`linkwise replay`: schedules the pending pods of a recorded cluster."""

from __future__ import annotations

import sys
from typing import Final

import click

from linkwise.cli.options.output import json_flag
from linkwise.errors import InputError

EXIT_DIFFERENT: Final = 1

_EPILOG: Final = """\b
Examples:
  kubectl get nodes,pods -A -o json | linkwise replay -
  linkwise replay cluster.json --explain
  linkwise replay before.json --diff after.json
  linkwise replay cluster.json --json > decisions.json

\b
FILE is a snapshot of the service, or a list of objects as printed by kubectl:
  kubectl get nodes,pods,deviceinventories,devices -A -o json > cluster.json

The device objects add details about the nodes' devices; leave out kinds that your cluster does not have.

Exit codes: 0 success, whether or not pods stay pending; 1 --diff found a difference; 2 invalid input.
"""


@click.command("replay", epilog=_EPILOG)
@click.argument("file")
@click.option("--explain", is_flag=True, help="Explain the decision for each pod.")
@click.option("--diff", "other", metavar="OTHER", help="Show only pods that are placed differently in this file.")
@json_flag("Print a JSON list with one object per pod.")
def command(file: str, other: str | None, *, explain: bool, as_json: bool) -> None:
    """Schedule every pending pod of a recorded cluster, one after the other, and show where each is placed.

    Pods are tried by priority, then by age, with the scheduler's calls: filter, prioritize, bind. Nothing is sent to a
    cluster. The same file always gives the same answer, so that decisions can be examined later and tried again with
    other settings.
    """
    from linkwise.cli.reports.replay import decide, show, show_differences  # noqa: PLC0415 - imports rich and all policies

    if file == other == "-":
        raise InputError("only one of the two files can be read from standard input")
    decisions = decide(file, explain=explain)
    if other is None:
        show(decisions, as_json=as_json)
    elif show_differences((file, decisions), (other, decide(other, explain=explain)), as_json=as_json):
        sys.exit(EXIT_DIFFERENT)

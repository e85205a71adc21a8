"""`linkwise replay`: where the waiting pods of a cluster would go."""

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
FILE is a snapshot of the service, or a list of objects as kubectl prints it:
  kubectl get nodes,pods,deviceinventories,devices -A -o json > cluster.json

Objects other than nodes and pods tell more of the nodes' devices; leave out what your cluster
does not have.

Exit codes: 0 done, whether pods wait or not; 1 --diff found a pod that goes elsewhere; 2 a file
makes no sense.
"""


@click.command("replay", epilog=_EPILOG)
@click.argument("file")
@click.option("--explain", is_flag=True, help="Say why, pod by pod.")
@click.option("--diff", "other", metavar="OTHER", help="Show only pods that go elsewhere in this file.")
@json_flag("A JSON list, one object a pod.")
def command(file: str, other: str | None, *, explain: bool, as_json: bool) -> None:
    """Place every waiting pod of a cluster, one after the other, and show what each gets.

    The pods are tried by priority, then by age, as a scheduler would: filter, prioritize, bind. Nothing is sent anywhere.
    The same file always gives the same answer, so that a decision can be looked at after the fact, and tried again under
    other settings.
    """
    from linkwise.cli.reports.replay import decide, show, show_differences  # noqa: PLC0415 - brings rich, and all policies

    if file == other == "-":
        raise InputError("only one of the two files can be standard input")
    decisions = decide(file, explain=explain)
    if other is None:
        show(decisions, as_json=as_json)
    elif show_differences((file, decisions), (other, decide(other, explain=explain)), as_json=as_json):
        sys.exit(EXIT_DIFFERENT)

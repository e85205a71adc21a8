"""`linkwise demo`: a guided tour on a cluster of its own; every promise it makes is checked while it is told."""

from __future__ import annotations

import sys
from typing import Final

import click

WIDEST: Final = 100
"""columns; longer lines are hard to read"""

_EPILOG: Final = """\b
Examples:
  linkwise demo
  linkwise demo --once > tour.txt      # no colours, no line over 80 columns

On a terminal it waits for Enter between two stories. At the end it offers a question to ask the cluster,
which runs on until Ctrl-C, also where the output goes to a file; with --once it ends by itself.

Exit codes: 0 all promises held; 1 one did not, or --once was cut short.
"""


@click.command("demo", epilog=_EPILOG)
@click.option("--once", is_flag=True, help="End after the tour; exit 1 if a promise of it did not hold.")
def command(*, once: bool) -> None:
    """Walk through seven stories on a cluster that runs in this process.

    Nothing is needed: no Kubernetes, no GPU. The machines and the pods are those that the designs behind Linkwise
    describe; what you see is read from the running cluster, beside what a link-blind scheduler would have done.
    """
    from linkwise.cli.tour.page import Output  # noqa: PLC0415 - same
    from linkwise.cli.tour.stories import STORIES  # noqa: PLC0415 - same
    from linkwise.cli.tour.tour import guide  # noqa: PLC0415 - brings rich, the cluster and the service

    console = Output(highlight=False)
    console.width = min(console.width, WIDEST)
    sys.exit(guide(console, STORIES, once=once))

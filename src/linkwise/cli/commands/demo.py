"""`linkwise demo`: a guided tour on an embedded cluster; every claim is checked while it is shown."""

from __future__ import annotations

import sys
from typing import Final

import click

MAX_WIDTH: Final = 100
"""columns; longer lines are hard to read"""

_EPILOG: Final = """\b
Examples:
  linkwise demo
  linkwise demo --once > demo.txt      # plain text, at most 80 columns

On a terminal the demo waits for Enter after each story. After the last one the cluster keeps running until Ctrl-C,
so that you can query it from another terminal; with --once the demo ends by itself.

Exit codes: 0 all checks passed; 1 a check failed, or --once was interrupted.
"""


@click.command("demo", epilog=_EPILOG)
@click.option("--once", is_flag=True, help="Run all stories without a pause and exit; exit 1 if a check failed.")
def command(*, once: bool) -> None:
    """Show eight scheduling decisions on a cluster that runs in this process.

    No Kubernetes and no GPU is needed: the machines are simulated, the scheduling is real. Each decision is compared
    with that of a topology-unaware scheduler, and a score card at the end lists all of them.
    """
    # Imported here because they load rich, the cluster and the service.
    from linkwise.cli.tour.page import Output  # noqa: PLC0415 - see above
    from linkwise.cli.tour.stories import STORIES  # noqa: PLC0415 - see above
    from linkwise.cli.tour.tour import run_tour  # noqa: PLC0415 - see above

    console = Output(highlight=False)
    console.width = min(console.width, MAX_WIDTH)
    sys.exit(run_tour(console, STORIES, once=once))

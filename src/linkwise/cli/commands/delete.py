"""`linkwise delete`: deletes objects of any kind."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import cluster_flags, namespace_flag
from linkwise.cli.options.io import form_flag
from linkwise.cli.options.kinds import complete_files, complete_served, targets_of
from linkwise.engine.selectors import label_requirements
from linkwise.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

EXIT_REFUSED: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise delete pod train
  linkwise delete pod/train job/llm
  linkwise delete -f job.yaml --ignore-not-found
  linkwise delete pods -l app=demo
  linkwise delete pod train --wait=false

Works like `kubectl delete`: dependents are deleted in the background, and the command waits until the objects are gone,
unless --wait=false is given. All files are read before the first object is deleted. KIND is any kind that the cluster
serves, by its plural, singular or short name.

Exit codes: 0 all objects were deleted; 1 the cluster can't be reached, denies access, or an object was not found; 2
invalid arguments or an invalid file.
"""


@click.command("delete", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND NAME...", shell_complete=complete_served)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="File with the objects; - reads standard input.",
    shell_complete=complete_files,
)
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Delete the objects with these labels.")
@click.option("--all", "everything", is_flag=True, help="Delete all objects of that kind in the namespace.")
@namespace_flag
@click.option("--ignore-not-found", "ignore", is_flag=True, help="Objects that do not exist are not an error.")
@click.option("--wait", type=bool, default=True, show_default=True, help="Wait until the objects are gone.")
@click.option("--timeout", type=click.FloatRange(min=0), default=0, help="Seconds to wait. [default: no limit]")
@click.option(
    "--grace-period", "grace", type=click.IntRange(min=0), help="Seconds for a pod to end. [default: its own]"
)
@click.option("--dry-run", "dry", is_flag=True, help="Server-side dry run: check and change nothing.")
@form_flag("name")
@cluster_flags
def command(  # noqa: PLR0913 - one per flag
    what: tuple[str, ...],
    files: tuple[str, ...],
    *,
    selector: str,
    namespace: str | None,
    timeout: float,
    grace: int | None,
    form: str | None,
    kubeconfig: Path | None,
    context: str | None,
    everything: bool,
    ignore: bool,
    wait: bool,
    dry: bool,
) -> None:
    """Delete objects by file, by name or by labels."""
    label_requirements(selector)
    selected = bool(selector) or everything
    if files and (what or selected):
        raise InputError("-f can't be used together with names, -l or --all")
    if selector and everything:
        raise InputError("-l and --all can't be used together")
    targets = () if files else targets_of(what, selected=selected)
    from linkwise.cli.reports.objects import Deletion, delete  # noqa: PLC0415 - imports the client

    deletion = Deletion(
        targets, files, selector, namespace, ignore or selected, wait, timeout, grace, dry, form == "name"
    )
    if not delete(deletion, kubeconfig, context):
        sys.exit(EXIT_REFUSED)

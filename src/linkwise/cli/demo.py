"""`linkwise demo`: a guided tour of real choices; every promise it makes is checked while it is told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

EXIT_BROKEN: Final = 1


@click.command("demo", epilog="\b\nExample:\n  linkwise demo --once | less -R")
@click.option("--once", is_flag=True, help="End after the tour; exit 1 if a promise of it did not hold.")
def command(*, once: bool) -> None:
    """Walk through real choices on real machines, in colour.

    Nothing is needed: no cluster, no GPU. The machines are those that the designs behind Linkwise describe.
    """
    del once  # the tour has nothing to keep serving yet, so that it always ends
    from rich.console import Console  # noqa: PLC0415 - slow to import, and --help does not need it

    from linkwise.cli.tour import STOPS  # noqa: PLC0415 - same

    console = Console(highlight=False)
    broken = [title for number, (title, stop) in enumerate(STOPS, 1) if not _visit(console, number, title, stop)]
    console.print()
    if broken:
        console.print(f"[bold red]{len(broken)} promises did not hold:[/] {'; '.join(broken)}")
        sys.exit(EXIT_BROKEN)
    console.print(f"[bold green]All {len(STOPS)} promises held.[/] Now ask something yourself:")
    console.print("  linkwise pick --profile dgx1-v100 --size 4 --available 0-2,4-6 --required 6")


def _visit(console: Console, number: int, title: str, stop: Callable[[Console], bool]) -> bool:
    console.print()
    console.rule(f"[bold]{number}. {title}[/]", align="left")
    held = stop(console)
    if not held:
        console.print("[bold red]This promise did not hold.[/]")
    return held

"""How a story looks: a title, sentences, the telling lines of a manifest, two columns, and promises kept or broken.

Nothing is wider than the console, and colour only repeats what words say.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from linkwise.cli.render.tables import LabelledLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

__all__ = ["Output", "Page", "plain_table"]

INDENT: Final = 2
COMMENT: Final = 24
"""columns that the comments on a manifest have at least"""


class Output(Console):
    """Standard output; if nobody reads it any more, that is as an interrupt, and the cluster is taken down in order."""

    def on_broken_pipe(self) -> None:
        """Write nothing from here on."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        signal.raise_signal(signal.SIGINT)


class Page:
    """What is told goes to a console; the promises are kept in mind."""

    def __init__(self, console: Console) -> None:
        self.console: Final = console
        self.held: Final[list[str]] = []
        self.broken: Final[list[str]] = []

    @property
    def width(self) -> int:
        """What is left of a line."""
        return self.console.width - INDENT

    def title(self, text: str) -> None:
        """The beginning of a story."""
        self.console.print()
        self.console.rule(Text(text, "bold"), align="left", style="cyan")

    def say(self, text: str) -> None:
        """A paragraph."""
        self.console.print()
        self.console.print(Text(text))

    def words(self, manifest: str) -> None:
        """The telling lines of a manifest are those with a comment behind them."""
        lines = [line.strip().partition("  # ") for line in manifest.splitlines() if "  # " in line]
        longest = max((len(words) for words, _, _ in lines), default=0)
        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", overflow="fold", no_wrap=longest <= self.width - COMMENT)
        table.add_column(style="dim")
        for words, _, comment in lines:
            table.add_row(Text(words), Text(comment))
        self.show(table)

    def sides(self, rows: Iterable[Sequence[str | Text]], first: str = "") -> None:
        """What Linkwise did and what a link-blind scheduler would have done, side by side."""
        table = plain_table(first, "Linkwise", "a link-blind scheduler")
        table.columns[1].style = "green"
        for row in rows:
            table.add_row(*row)
        self.show(table)

    def quote(self, rows: Iterable[tuple[str, str]]) -> None:
        """What the running system says, each with where it says so."""
        told = LabelledLines()
        for label, sentence in rows:
            told.add(label, sentence, "cyan")
        self.show(told.rows)

    def show(self, thing: RenderableType) -> None:
        """Anything else that can be shown."""
        self.console.print()
        self.console.print(Padding.indent(thing, INDENT))

    def promises(self, *promises: tuple[str, bool]) -> None:
        """Sentences that must be true now, and whether they are."""
        told = LabelledLines()
        for sentence, held in promises:
            (self.held if held else self.broken).append(sentence)
            told.add("held" if held else "BROKEN", sentence, "bold green" if held else "bold red")
        self.show(told.rows)


def plain_table(*columns: str) -> Table:
    """A table with a line below its heading, and no other."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table

"""Layout of a story on the console: headline, paragraphs, manifest lines, comparison table, quotes and checks.

No line is wider than the console, and colour only repeats what the text says.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
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

__all__ = ["BASELINE", "Check", "Output", "Page", "Score", "check_mark", "plain_table"]

BASELINE: Final = "topology-unaware"
"""heading of everything the other scheduler does"""
INDENT: Final = 2
MIN_COMMENT: Final = 24
"""columns reserved for the comments beside manifest lines"""


class Output(Console):
    """Standard output; a closed pipe counts as an interrupt, so that the cluster shuts down in order."""

    def on_broken_pipe(self) -> None:
        """Discard further output and interrupt the demo."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        signal.raise_signal(signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Check:
    """A claim that was tested on the running cluster."""

    claim: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Score:
    """The figure of a story, measured for both schedulers: a row of the score card."""

    measured: str
    linkwise: str
    baseline: str


class Page:
    """Prints stories to a console and collects their checks."""

    def __init__(self, console: Console) -> None:
        self.console: Final = console
        self.checks: Final[list[Check]] = []

    @property
    def failed(self) -> list[str]:
        """Claims of the checks that failed."""
        return [check.claim for check in self.checks if not check.passed]

    @property
    def width(self) -> int:
        """Columns beside the indent."""
        return self.console.width - INDENT

    def title(self, text: str) -> None:
        """Start a story or another part of the demo."""
        self.console.print()
        self.console.rule(Text(text, "bold"), align="left", style="cyan")

    def headline(self, text: str) -> None:
        """Print the result of a story in one sentence."""
        self.console.print()
        self.console.print(Text(text, "bold green"))

    def say(self, text: str) -> None:
        """Print a paragraph."""
        self.console.print()
        self.console.print(Text(text))

    def manifest_lines(self, manifest: str) -> None:
        """Print the lines of a manifest that have a comment, with the comments in a column of their own."""
        lines = [line.strip().partition("  # ") for line in manifest.splitlines() if "  # " in line]
        longest = max((len(field) for field, _, _ in lines), default=0)
        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", overflow="fold", no_wrap=longest <= self.width - MIN_COMMENT)
        table.add_column(style="dim")
        for field, _, comment in lines:
            table.add_row(Text(field), Text(comment))
        self.show(table)

    def compare(self, rows: Iterable[Sequence[str | Text]], first: str = "", other: str = BASELINE) -> None:
        """Print what both schedulers did, side by side."""
        table = plain_table(first, "Linkwise", other)
        table.columns[1].style = "green"
        for row in rows:
            table.add_row(*row)
        self.show(table)

    def quote(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print what the running cluster reports, each sentence with its source."""
        lines = LabelledLines()
        for source, sentence in rows:
            lines.add(source, sentence, "cyan")
        self.show(lines.rows)

    def show(self, thing: RenderableType) -> None:
        """Print anything else, indented."""
        self.console.print()
        self.console.print(Padding.indent(thing, INDENT))

    def check(self, *checks: tuple[str, bool]) -> None:
        """Record claims and whether they are true, and print each with its mark."""
        table = Table.grid(padding=(0, 1))
        for claim, passed in checks:
            self.checks.append(Check(claim, passed))
            table.add_row(check_mark(self.console, passed=passed), Text(claim))
        self.show(table)


def check_mark(console: Console, *, passed: bool) -> Text:
    """A check mark or a cross; in ASCII where the console's encoding has neither."""
    plain = console.options.ascii_only
    if passed:
        return Text("ok" if plain else "✓", "bold green")
    return Text("FAILED" if plain else "✗", "bold red")


def plain_table(*columns: str) -> Table:
    """A table with a line below its heading, and no other."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table

"""Tables as kubectl prints them, and labelled lines for the terminal.

A table has one line per object: cells are never wrapped, and columns do not depend on the width of the terminal, so that
`grep`, `awk` and `cut` work. Only on a terminal, a last column of sentences is cut at its edge.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.console import COLOR_SYSTEMS, Console
from rich.padding import Padding
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from linkwise.wire.pick_batch import Refused, encode_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.wire.pick_batch import Answer

__all__ = [
    "LabelledLines",
    "Table",
    "print_json",
    "print_refusal",
    "print_sentences",
    "print_table",
    "terminal",
]

_GAP: Final = 3  # columns between cells
_MIN_SENTENCE: Final = 20
"""width below which a sentence is not cut: the line is longer than the terminal then"""


def terminal() -> Console:
    """Return a console for standard output, in colour on a terminal only."""
    return Console(highlight=False, markup=False)


@dataclass(slots=True)
class Table:
    """Rows of plain or coloured cells below a header."""

    columns: tuple[str, ...]
    rows: list[tuple[str | Text, ...]] = field(default_factory=list)

    def add(self, *cells: str | Text) -> None:
        """Add a row with one cell per column."""
        self.rows.append(cells)

    def widths(self, *, headers: bool = True) -> list[int]:
        """Return the width of each column."""
        widths = [cell_len(column) if headers else 0 for column in self.columns]
        for row in self.rows:
            for place, cell in enumerate(row):
                widths[place] = max(widths[place], cell_len(str(cell)))
        return widths


def print_table(
    console: Console,
    table: Table,
    *,
    headers: bool = True,
    cut: bool = False,
    widths: Sequence[int] = (),
) -> list[int]:
    """Print a table, one line per row; return the widths of its columns, which later rows of a watch may be given.

    With `cut`, the last column is cut at the edge of a terminal.
    """
    chosen = list(
        map(max, zip(table.widths(headers=headers or bool(widths)), widths or [0] * len(table.columns), strict=True))
    )
    before = sum(chosen[:-1]) + _GAP * (len(chosen) - 1)
    most = console.width - before if cut and console.is_terminal and console.width - before >= _MIN_SENTENCE else 0
    colours = None if console.no_color or not console.is_terminal else COLOR_SYSTEMS.get(console.color_system or "")

    @cache
    def painted(text: str, style: str, width: int) -> str:
        shown = set_cell_size(text, most - 1).rstrip() + "…" if width < 0 and 0 < most < cell_len(text) else text
        return Style.parse(style).render(shown, color_system=colours) + " " * (width - cell_len(text))

    def part(cell: str | Text, width: int) -> str:
        if isinstance(cell, Text) and cell.spans:
            styled = ((each.style or Style()).render(each.text, color_system=colours) for each in cell.render(console))
            return "".join(styled) + " " * (width - cell.cell_len)
        return painted(str(cell), str(getattr(cell, "style", "")), width)

    def line(cells: Iterable[str | Text]) -> str:
        padded = [*chosen[:-1], -1]  # nothing follows the last cell
        return (" " * _GAP).join(map(part, cells, padded)).rstrip() + "\n"

    head = [line(map(_header, table.columns))] if headers else []
    console.file.write("".join([*head, *map(line, table.rows)]))
    return chosen


def _header(column: str) -> str:
    """Return a header as kubectl writes it: NAME, MEMORY(bytes)."""
    name, bracket, unit = column.partition("(")
    return f"{name.upper()}{bracket}{unit}"


def print_sentences(console: Console, lines: Iterable[str], indent: int = 2, style: str = "") -> None:
    """Print one sentence per line; on a terminal, and where $COLUMNS is set, long ones are wrapped."""
    for line in lines:
        if console.is_terminal or "COLUMNS" in os.environ:
            console.print(Padding.indent(Text(line, style), indent))
        else:
            console.file.write(f"{' ' * indent}{line}\n")


class LabelledLines:
    """Rows of a label and a sentence."""

    def __init__(self) -> None:
        self.rows = RichTable.grid(padding=(0, 1))
        self.rows.add_column(no_wrap=True, width=9)
        self.rows.add_column()

    def add(self, label: str, sentence: str, style: str = "") -> None:
        """Add a row; the style applies to the label."""
        self.rows.add_row(Text(label, style), Text(sentence))


def print_json(answer: Answer) -> bool:
    """Print the answer as one line of JSON; return whether devices were chosen."""
    sys.stdout.write(encode_answer(answer).decode() + "\n")
    return not isinstance(answer, Refused)


def print_refusal(console: Console, sentence: str) -> bool:
    """Print a refusal and return False."""
    lines = LabelledLines()
    lines.add("refused", sentence, "bold red")
    console.print(lines.rows)
    return False

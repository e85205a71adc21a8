"""Tables and labelled lines for the terminal.

Sentences wrap at the width of the terminal; names never do, so that they can be copied.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS
from rich.style import Style
from rich.table import Table
from rich.text import Text

from linkwise.wire.pick_batch import Refused, encode_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from rich.console import Console

    from linkwise.wire.pick_batch import Answer

__all__ = [
    "Cell",
    "LabelledLines",
    "Row",
    "age_text",
    "headed_table",
    "least_width",
    "print_json",
    "print_refusal",
    "print_table",
]

_GAP: Final = 2  # columns between cells
FAST_ROWS: Final = 50
"""rows above which rich's layout takes noticeable time"""
_MIN_TEXT: Final = 16
"""minimum width of a column of sentences"""


def headed_table(*columns: str, names: Collection[str] = ()) -> Table:
    """Return an empty table; columns in `names` never wrap."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in names)
    return table


def least_width(table: Table) -> int:
    """Return the width below which a name or a word would be cut."""
    return _total([least for least, _ in _needs(table)])


def print_table(console: Console, table: Table) -> None:
    """Print a table; on a terminal that is too narrow for the names, lines overflow as with kubectl."""
    usual, needs = console.width, list(_needs(table))
    widths = _widths(needs, usual)
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width  # rich would cut cells that do not fit
    console.width = max(usual, _total(widths))
    if len(table.rows) > FAST_ROWS and widths == [most for _, most in needs]:
        _print_lines(console, table, widths)
    else:
        console.print(table)
    console.width = usual


def _print_lines(console: Console, table: Table, widths: Sequence[int]) -> None:
    """Print a table without wrapped cells, ten times as fast as rich."""
    head = headed_table(*(str(column.header) for column in table.columns))
    for column, width in zip(head.columns, widths, strict=True):
        column.width = width
    console.print(head)
    colours = None if console.no_color else COLOR_SYSTEMS.get(console.color_system or "")

    @cache
    def painted(text: str, style: str, width: int) -> str:
        return Style.parse(style).render(text, color_system=colours) + " " * (width - cell_len(text))

    for row in zip(*(column.cells for column in table.columns), strict=True):
        cells = (
            painted(str(cell), str(getattr(cell, "style", "")), width) for cell, width in zip(row, widths, strict=True)
        )
        console.file.write((" " * _GAP).join(cells).rstrip() + "\n")


def _needs(table: Table) -> Iterator[tuple[int, int]]:
    """Yield the minimum and maximum width of each column."""
    for column in table.columns:
        texts = [str(cell) for cell in (column.header, *column.cells)]
        longest = max(map(cell_len, texts))
        word = max(cell_len(word) for text in texts for word in text.split() or [""])
        yield (longest if column.no_wrap else max(word, min(longest, _MIN_TEXT))), longest


def _widths(needs: Sequence[tuple[int, int]], columns: int) -> list[int]:
    """Distribute the width: each column gets its minimum, and a fair part of the rest."""
    widths = [least for least, _ in needs]
    wanting = sorted((most - least, place) for place, (least, most) in enumerate(needs) if most > least)
    spare = max(0, columns - _total(widths))
    for others, (more, place) in zip(range(len(wanting), 0, -1), wanting, strict=True):
        extra = min(more, spare // others)
        widths[place] += extra
        spare -= extra
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
MIN_UNITS: Final = 2
"""of a unit; below that the next smaller unit is used"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a row."""

    text: str
    style: str = ""
    wide: bool = False
    """shown only with -o wide"""
    always: bool = False
    """shown even if the column is empty or the terminal narrow"""
    short: bool = False
    """never wrapped"""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; all rows of a table have the same columns."""

    cells: dict[str, Cell]
    document: Callable[[], Any]
    """the row as JSON, computed only if needed"""


def age_text(seconds: float) -> str:
    """Format an age as kubectl does: 45s, 12m, 3h, 5d."""
    for size, unit in _UNITS:
        if seconds >= MIN_UNITS * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


class LabelledLines:
    """Rows of a label and a sentence."""

    def __init__(self) -> None:
        self.rows = Table.grid(padding=(0, 1))
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

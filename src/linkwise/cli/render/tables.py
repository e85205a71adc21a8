"""Tables in which sentences are broken and names are not, whatever the width of the terminal.

A line of a table, with the same as data.

Labelled sentences, one below the other, as a person reads the answer to a question.
"""
# Joined from tables, rows, told: one docstring for all.

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
    "print_table",
    "tell_refusal",
]

_GAP: Final = 2
"""between two columns"""
MANY: Final = 50
"""rows beyond which laying them out one by one is felt"""
_TEXT: Final = 16
"""columns that a sentence needs at least to be read"""


def headed_table(*columns: str, names: Collection[str] = ()) -> Table:
    """An empty table; what stands under `names` is never broken, so that it can be copied."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column in names)
    return made


def least_width(table: Table) -> int:
    """The width below which a name would be cut, or a word of a sentence."""
    return _total([least for least, _ in _needs(table)])


def print_table(console: Console, table: Table) -> None:
    """Print it; where the terminal is too narrow for the names, lines run on as kubectl's do."""
    usual, needs = console.width, list(_needs(table))
    widths = _widths(needs, usual)
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width  # left to itself, a table cuts what it has no room for
    console.width = max(usual, _total(widths))
    if len(table.rows) > MANY and widths == [most for _, most in needs]:
        _print_lines(console, table, widths)
    else:
        console.print(table)
    console.width = usual


def _print_lines(console: Console, table: Table, widths: Sequence[int]) -> None:
    """A table of which nothing is broken, in a tenth of the time: each row is a line."""
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
    """How many columns each column needs at least, and at most."""
    for column in table.columns:
        texts = [str(cell) for cell in (column.header, *column.cells)]
        longest = max(map(cell_len, texts))
        word = max(cell_len(word) for text in texts for word in text.split() or [""])
        yield (longest if column.no_wrap else max(word, min(longest, _TEXT))), longest


def _widths(needs: Sequence[tuple[int, int]], columns: int) -> list[int]:
    """What each gets of so many: the least, and of what is left as much as the others leave it."""
    widths = [least for least, _ in needs]
    wanting = sorted((most - least, place) for place, (least, most) in enumerate(needs) if most > least)
    spare = max(0, columns - _total(widths))
    for others, (more, place) in zip(range(len(wanting), 0, -1), wanting, strict=True):
        given = min(more, spare // others)
        widths[place] += given
        spare -= given
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
FEW: Final = 2
"""of a unit, under which the next smaller one is used"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one column."""

    text: str
    style: str = ""
    wide: bool = False
    """whether the column is only shown to those who want to see more"""
    always: bool = False
    """whether it is shown though nothing stands in it"""
    short: bool = False
    """whether it is never broken"""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing; all rows of a table have the same columns."""

    cells: dict[str, Cell]
    document: Callable[[], Any]
    """it as JSON; worked out only for those who want that"""


def age_text(seconds: float) -> str:
    """As kubectl writes ages: 45s, 12m, 3h, 5d."""
    for size, unit in _UNITS:
        if seconds >= FEW * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


class LabelledLines:
    """Rows of a label and a sentence."""

    def __init__(self) -> None:
        self.rows = Table.grid(padding=(0, 1))
        self.rows.add_column(no_wrap=True, width=9)
        self.rows.add_column()

    def add(self, label: str, sentence: str, style: str = "") -> None:
        """One more; the style is the label's."""
        self.rows.add_row(Text(label, style), Text(sentence))


def print_json(answer: Answer) -> bool:
    """The answer as one line of JSON; whether something was chosen."""
    sys.stdout.write(encode_answer(answer).decode() + "\n")
    return not isinstance(answer, Refused)


def tell_refusal(console: Console, sentence: str) -> bool:
    """A refusal, and that nothing was chosen."""
    told = LabelledLines()
    told.add("refused", sentence, "bold red")
    console.print(told.rows)
    return False

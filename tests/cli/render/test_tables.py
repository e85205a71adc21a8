"""Long tables look like short ones."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from linkwise.cli.render.tables import FAST_ROWS, headed_table, print_table


def printed(rows: int, width: int, *, colour: bool = False) -> list[str]:
    table = headed_table("node", "idle", "what it says", names=("node",))
    for row in range(rows):
        table.add_row(
            f"node-{row % 7:03d}", Text(f"{row % 7}/8", "green"), ("一 two", "-", "[odd] three four")[row % 3]
        )
    file = StringIO()
    print_table(
        Console(file=file, width=width, color_system="standard" if colour else None, highlight=False, markup=False),
        table,
    )
    return [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [20, 80])
def test_rows_look_the_same_in_short_and_long_tables(width: int) -> None:
    few, many = printed(FAST_ROWS, width), printed(FAST_ROWS * 2, width)
    assert many[: len(few)] == few
    assert len(many) > 2 * FAST_ROWS


def test_long_tables_keep_their_colours() -> None:
    few, many = (
        next(line for line in printed(rows, 80, colour=True) if "node-003" in line)
        for rows in (FAST_ROWS, FAST_ROWS * 2)
    )
    assert "\x1b[32m3/8" in few
    assert "\x1b[32m3/8" in many

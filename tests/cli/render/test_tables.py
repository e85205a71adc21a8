"""Tables have one line per row, whatever the width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from linkwise.cli.render.tables import Table, print_table

SENTENCE = "node(s) had too few free devices on all of the nodes of this cluster"


def printed(table: Table, width: int, *, terminal: bool = False, headers: bool = True, cut: bool = False) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    print_table(console, table, headers=headers, cut=cut)
    return file.getvalue().splitlines()


def pods(*names: str) -> Table:
    table = Table(("name", "idle", "reason"))
    for name in names:
        table.add(name, Text("3/8", "green"), SENTENCE)
    return table


@pytest.mark.parametrize("width", [10, 40, 200])
def test_a_row_is_one_line_and_complete_at_any_width_of_a_pipe(width: int) -> None:
    assert printed(pods("a", "bb"), width, cut=True) == [
        "NAME   IDLE   REASON",
        f"a      3/8    {SENTENCE}",
        f"bb     3/8    {SENTENCE}",
    ]


def test_a_sentence_is_cut_at_the_edge_of_a_terminal() -> None:
    (line,) = printed(pods("a"), 50, terminal=True, headers=False, cut=True)
    plain = Text.from_ansi(line).plain
    assert (len(plain) <= 50, plain.endswith("…"), plain[:20] in f"a   3/8   {SENTENCE}") == (True, True, True)


def test_names_are_never_cut() -> None:
    (line,) = printed(pods("trainer-of-a-large-model"), 30, terminal=True, headers=False, cut=True)
    assert Text.from_ansi(line).plain == f"trainer-of-a-large-model   3/8   {SENTENCE}"


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b[32m3/8" in printed(pods("a"), 80, terminal=True)[1]
    assert "\x1b" not in "".join(printed(pods("a"), 80))


def test_wide_characters_and_brackets_are_aligned_and_kept() -> None:
    table = Table(("name", "note"))
    table.add("一二", "[odd]")
    table.add("a", "-")
    assert printed(table, 80) == ["NAME   NOTE", "一二   [odd]", "a      -"]


def test_later_rows_keep_the_widths_of_a_watch() -> None:
    file = io.StringIO()
    console = Console(file=file, width=80)
    widths = print_table(console, pods("a-long-name"))
    print_table(console, pods("b"), headers=False, widths=widths)
    first, second = file.getvalue().splitlines()[1:]
    assert first.index("3/8") == second.index("3/8")

"""Tables on narrow terminals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from linkwise.cli.get.show import OPTIONAL, _table
from linkwise.cli.render.tables import Cell, Row, headed_table, print_table

CELLS = {
    "pod": Cell("trainer-of-a-large-model", short=True),
    "node": Cell("dgx1-v100-percent-0", short=True),
    "policy": Cell("link-affinity"),
    "group": Cell("research", short=True),
    "age": Cell("12s", short=True),
    "why": Cell("node(s) had too few free devices on all of the nodes"),
}


def shown(width: int, *, wide: bool = False) -> str:
    """The table as `linkwise get` prints it."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_table(console, _table([Row(CELLS, dict)], width, wide=wide))
    assert console.width == width
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_optional_columns_are_dropped_one_by_one() -> None:
    left_out = [[name for name in OPTIONAL if name not in shown(width).splitlines()[0]] for width in (120, 90, 76, 65)]
    assert left_out == [[], ["policy"], ["policy", "group"], list(OPTIONAL)]


def test_names_are_never_truncated() -> None:
    text = shown(30)
    assert all(CELLS[name].text in text for name in ("pod", "node"))
    assert len(text.splitlines()[0].rstrip()) > 30


def test_wide_output_shows_all_columns() -> None:
    assert all(name in shown(30, wide=True).splitlines()[0] for name in CELLS)


@pytest.mark.parametrize("width", range(10, 90, 7))
def test_no_word_is_lost_at_any_width(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    table = headed_table("pod", "nodes", "why", names=("pod",))
    cells = (
        "trainer",
        "dgx1-v100-percent-0, atlas-800-1",
        "node(s) can't allocate that number of devices on ascend-910",
    )
    table.add_row(*cells)
    print_table(console, table)
    assert isinstance(console.file, io.StringIO)
    assert sorted(console.file.getvalue().split()[4:]) == sorted(" ".join(cells).split())


def test_the_name_of_what_is_listed_is_never_dropped() -> None:
    name = "train-905d9f84-a097-4d27-82c6-cd25004b20f0"
    row = Row({"group": Cell(name, short=True, always=True), "why": Cell("2 members on 2 nodes of the cluster")}, dict)
    console = Console(file=io.StringIO(), width=40, highlight=False)
    print_table(console, _table([row], 40, wide=False))
    assert isinstance(console.file, io.StringIO)
    assert name in console.file.getvalue()

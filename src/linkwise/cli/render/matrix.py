"""Link and bandwidth matrices in colour.

In a matrix, a star marks chosen devices and a minus marks devices that are not available.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from linkwise.topology.canonical import GAP
from linkwise.views.blocks import bandwidth_forms, link_forms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import RenderableType

    from linkwise.model.topology import Matrix, Topology

    Cells = Sequence[Sequence[str]]

__all__ = ["Marks", "bandwidth_table", "link_table", "pair_table"]

# From the best class of pairs on a machine to the worst.
COLOURS: Final = ("green", "cyan", "yellow", "magenta", "red")


@dataclass(frozen=True, slots=True)
class Marks:
    """Devices to highlight."""

    chosen: Collection[int]
    available: Collection[int]

    def name(self, device: int) -> Text:
        """Return the heading of a device."""
        if device in self.chosen:
            return Text(f"*{device}", "bold")
        return Text(f" {device}") if device in self.available else Text(f"-{device}", "dim")

    def style(self, i: int, j: int, colour: str) -> str:
        """Return the style of the cell of a pair."""
        if i in self.chosen and j in self.chosen:
            return f"{colour} bold reverse"
        return colour if i in self.available and j in self.available else "dim"


def link_table(topology: Topology, scores: Matrix, marks: Marks, width: int) -> RenderableType:
    """Return the link kinds, coloured by score; a narrow terminal gets no PCIe path beside direct links."""
    return pair_table(link_forms(topology), scores, marks, width)


def bandwidth_table(values: Matrix, marks: Marks, suspects: Collection[tuple[int, int]], width: int) -> RenderableType:
    """Return the cleaned bandwidth, coloured by value; a question mark marks samples that were replaced."""
    return pair_table(bandwidth_forms(values, suspects), values, marks, width)


def pair_table(forms: Sequence[Cells], worth: Matrix, marks: Marks, width: int) -> RenderableType:
    """Return the texts of pairs in the longest form that the terminal has room for."""
    for gap, cells in ((2, forms[0]), *((1, form) for form in forms)):
        if _width(cells, worth, gap) <= width:
            return _table(cells, worth, marks, gap)
    return Text(f"The table of {len(worth)} devices needs {_width(forms[-1], worth, 1)} columns.", "dim")


def _width(cells: Cells, worth: Matrix, gap: int) -> int:
    devices = range(len(worth))
    longest = max((len(cells[i][j]) for i in devices for j in devices if i != j), default=0)
    name = len(str(len(worth))) + 1
    return name + len(devices) * (max(longest, name) + gap)


def _table(cells: Cells, worth: Matrix, marks: Marks, gap: int) -> Table:
    devices = range(len(worth))
    colour = _colours({worth[i][j] for i in devices for j in devices if i != j})
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for j in devices:
        table.add_column(marks.name(j), justify="right", no_wrap=True)
    for i in devices:
        row = [
            Text("X", "dim") if i == j else Text(cells[i][j], marks.style(i, j, colour[worth[i][j]])) for j in devices
        ]
        table.add_row(marks.name(i), *row)
    return table


def _colours(values: set[float]) -> dict[float, str]:
    """Return a colour for every value: similar values share a colour, and the best is green."""
    colours: dict[float, str] = {}
    step, previous = 0, max(values, default=0.0)
    for value in sorted(values, reverse=True):
        if value < GAP * previous:
            step += 1
        colours[value] = COLOURS[min(step, len(COLOURS) - 1)]
        previous = value
    return colours

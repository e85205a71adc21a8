"""A machine's pairs as a table in colour: chosen devices with a star, those not to be had with a minus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from linkwise.topology.canonical import GAP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from linkwise.model.topology import Matrix, Topology

__all__ = ["Marks", "bandwidth_table", "link_table"]

# From the best class of pairs on a machine to the worst.
COLOURS: Final = ("green", "cyan", "yellow", "magenta", "red")


@dataclass(frozen=True, slots=True)
class Marks:
    """Which devices to point out."""

    chosen: Collection[int]
    available: Collection[int]

    def name(self, device: int) -> Text:
        """A device's heading."""
        if device in self.chosen:
            return Text(f"*{device}", "bold")
        return Text(f" {device}") if device in self.available else Text(f"-{device}", "dim")

    def style(self, i: int, j: int, colour: str) -> str:
        """How the cell of a pair looks."""
        if i in self.chosen and j in self.chosen:
            return f"{colour} bold reverse"
        return colour if i in self.available and j in self.available else "dim"


def link_table(topology: Topology, scores: Matrix, marks: Marks, width: int) -> Table:
    """Link kinds, coloured by score; the PCIe path beside NVLinks is left out where the table would be too wide."""

    def cell(i: int, j: int) -> str:
        return str(min(topology.links[i][j], topology.links[j][i]))

    def short(i: int, j: int) -> str:
        return cell(i, j).split("+")[0]

    return _table(cell if _width(cell, scores) <= width else short, scores, marks, width)


def bandwidth_table(values: Matrix, marks: Marks, suspects: Collection[tuple[int, int]], width: int) -> Table:
    """Mended bandwidth, coloured by value; a question mark where a sample was not believed."""

    def cell(i: int, j: int) -> str:
        return f"{values[i][j]:.4g}" + ("?" if (min(i, j), max(i, j)) in suspects else "")

    def short(i: int, j: int) -> str:
        return f"{values[i][j]:.3g}"

    return _table(cell if _width(cell, values) <= width else short, values, marks, width)


def _width(cell: Callable[[int, int], str], worth: Matrix) -> int:
    """Columns that the table takes with two spaces between its own."""
    devices = range(len(worth))
    longest = max((len(cell(i, j)) for i in devices for j in devices if i != j), default=2)
    return 3 + len(devices) * (longest + 2)


def _table(cell: Callable[[int, int], str], worth: Matrix, marks: Marks, width: int) -> Table:
    devices = range(len(worth))
    colour = _colours({worth[i][j] for i in devices for j in devices if i != j})
    gap = 1 if _width(cell, worth) > width else 2
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for j in devices:
        table.add_column(marks.name(j), justify="right", no_wrap=True)
    for i in devices:
        cells = [
            Text("X", "dim") if i == j else Text(cell(i, j), marks.style(i, j, colour[worth[i][j]])) for j in devices
        ]
        table.add_row(marks.name(i), *cells)
    return table


def _colours(values: set[float]) -> dict[float, str]:
    """A colour for every value: values near each other share one, and the best is green."""
    colours: dict[float, str] = {}
    step, previous = 0, max(values, default=0.0)
    for value in sorted(values, reverse=True):
        if value < GAP * previous:
            step += 1
        colours[value] = COLOURS[min(step, len(COLOURS) - 1)]
        previous = value
    return colours

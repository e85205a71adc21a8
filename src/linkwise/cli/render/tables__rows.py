"""A line of a table, with the same as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cell", "Row", "age_text"]

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

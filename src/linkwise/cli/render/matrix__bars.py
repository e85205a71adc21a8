"""How full something is, as a bar of signs."""

from __future__ import annotations

from typing import Final

from rich.text import Text

__all__ = ["bar"]

WIDTH: Final = 20
"""signs of a bar that is full"""
FULL, EMPTY = "#", "."


def bar(part: float, width: int = WIDTH) -> Text:
    """A part of 1; whatever is more than nothing has a sign."""
    signs = min(width, max(round(part * width), int(part > 0)))
    return Text(FULL * signs, "cyan") + Text(EMPTY * (width - signs), "dim")

"""Text as people paste, cut and pipe it, brought back to what the tool printed."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["clean"]

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_RULER: Final = re.compile(r"\s*\|(?:\s*:?-{3,}:?\s*\|)+\s*")
_ROW: Final = re.compile(r"\s*\|(.*)\|\s*")


def clean(text: str) -> str:
    """The text without terminal escapes, byte order mark, carriage returns and blanks at the ends of lines."""
    plain = _ESCAPES.sub("", text.replace("\x00", "").removeprefix("\ufeff"))
    lines = plain.replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
    if any(_RULER.fullmatch(line) for line in lines):
        lines = [_from_markdown(line) for line in lines]
    return "\n".join(line.rstrip(" ") for line in lines)


def _from_markdown(line: str) -> str:
    """A row of a Markdown table as the tool printed it, with tabs."""
    if _RULER.fullmatch(line):
        return ""
    row = _ROW.fullmatch(line)
    return "\t".join(cell.strip() for cell in row[1].split("|")) if row else line

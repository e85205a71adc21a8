"""Text as people paste, cut and pipe it, brought back to what the tool printed."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

__all__ = ["clean", "without_prefix"]

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_PREFIX: Final = re.compile(r"(?:[#>|] ?|    )")


def clean(text: str) -> str:
    """The text without terminal escapes, byte order mark, carriage returns and blanks at the ends of lines."""
    plain = _ESCAPES.sub("", text.replace("\x00", "").removeprefix("\ufeff"))
    lines = plain.replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
    return "\n".join(line.rstrip(" ") for line in lines)


def without_prefix(lines: list[str]) -> list[str]:
    """The lines without a mark that nearly all of them begin with: `# `, `> `, `| ` or four blanks."""
    starts = Counter(found[0].strip() for line in lines if line.strip() and (found := _PREFIX.match(line)))
    filled = sum(bool(line.strip()) for line in lines)
    if not starts or max(starts.values()) < 0.9 * filled:
        return lines
    mark = starts.most_common(1)[0][0]
    width = re.compile(rf"{re.escape(mark)} ?" if mark else r"    ")
    return [width.sub("", line, count=1) if width.match(line) else line for line in lines]

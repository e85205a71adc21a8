"""Error lines: messages of a tool between the rows of its table, where both streams were written to one place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NumberedLine", "is_error", "line_warnings"]

NumberedLine = tuple[int, str]
"""a line by its number in the text, from 1"""

# No word boundaries: a message may be glued to the cell that was printed before it, as in `NV12ERROR: ...`.
_ERROR: Final = re.compile(
    r"error|warning|exception|traceback|cannot|can't|could not|unable|unsupported|not supported|not available"
    r"|fail(?:ed|ure)|invalid|timed out|denied",
    re.IGNORECASE,
)
_LONGEST: Final = 200  # characters of a message
_MOST_MESSAGES: Final = 4
_MOST_NUMBERS: Final = 8


def is_error(line: str) -> bool:
    """Return whether the line has a word of an error message; no cell, name or title of a table has one."""
    return _ERROR.search(line) is not None


def line_warnings(lines: Iterable[NumberedLine]) -> tuple[str, ...]:
    """Return a warning for each message, with the numbers of its lines; one sentence for those beyond the first few."""
    numbers: dict[str, list[int]] = {}
    for number, line in lines:
        numbers.setdefault(line.strip()[:_LONGEST], []).append(number)
    warnings = [f"{_lines(found)}: {message}" for message, found in numbers.items()]
    rest = len(warnings) - _MOST_MESSAGES
    return (*warnings[:_MOST_MESSAGES], *[f"{rest} more messages between the rows"] * (rest > 0))


def _lines(numbers: list[int]) -> str:
    shown, rest = ", ".join(map(str, numbers[:_MOST_NUMBERS])), len(numbers) - _MOST_NUMBERS
    return f"line{'s' * (len(numbers) > 1)} {shown}" + (f" and {rest} more" if rest > 0 else "")

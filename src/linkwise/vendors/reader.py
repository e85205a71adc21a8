"""Reader of one tool's output, and the reading it returns: complete, incomplete or an error; nothing is filled in.

Error lines are messages of a tool between the rows of its table, where both streams were written to one place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix

__all__ = [
    "DeviceFacts",
    "Layout",
    "NumberedLine",
    "Reader",
    "Reading",
    "Status",
    "Subject",
    "is_error",
    "line_warnings",
]

Status = Literal["ok", "incomplete", "error", "no matrix"]
"""`no matrix`: the text was understood and holds nothing about pairs of devices"""

Subject = Literal["links", "bandwidth", "devices"]
"""a link matrix, a matrix of GB/s, or a list of devices"""

Layout = Literal["", "matrix of GPUs", "list of GPUs"]
"""a layout that tools of several vendors print: rows GPU0, GPU1, ... of link codes, or one line per GPU with its UUID"""
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


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One device as a tool reports it; an empty string or None for what the tool does not print."""

    name: str
    """as the tool calls it: GPU0, NPU3"""
    uuid: str = ""
    model: str = ""
    bus_id: str = ""
    memory: int | None = None  # MiB
    memory_used: int | None = None  # MiB
    numa: str | None = None
    """as printed, a list of ranges; None: not in the text, empty: an empty cell"""
    cpus: str | None = None
    health: str = ""
    driver: str = ""
    parts: tuple[str, ...] = ()
    """ids of the parts it is divided into (MIG devices)"""
    nics: tuple[str, ...] = ()
    """NICs under the same PCIe switch"""


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of one text. Rows and columns of the matrices belong to the devices in order."""

    kind: str
    """the tool and its table: `nvidia-smi topo -m`"""
    status: Status
    devices: tuple[str, ...] = ()
    links: tuple[tuple[Link, ...], ...] = ()
    """square; a cell that the text lacks is `?`"""
    bandwidth: Matrix = ()
    """square, GB/s from row to column; 0 where there is no value"""
    latency: Matrix = ()
    """square, microseconds"""
    rings: tuple[tuple[int, ...], ...] = ()
    nics: tuple[str, ...] = ()
    facts: tuple[DeviceFacts, ...] = ()
    problems: tuple[str, ...] = ()
    """what is missing; empty for a complete text"""
    warnings: tuple[str, ...] = ()
    """what looks odd in a complete text: a device unlike the others, directions that differ"""


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of text: how to recognise it, and how to read it."""

    kind: str
    """the command that prints it, as a user types it"""
    recognises: Callable[[str], bool]
    """whether this tool wrote the (cleaned) text, or a part of it"""
    read: Callable[[str], Reading]
    """the content of the (cleaned) text; never raises, whatever the text"""
    subject: Subject = "links"
    """links are read before bandwidth, and both before lists of devices"""
    claims: Layout = ""
    """the layout that belongs to this tool in every text that it recognises"""
    yields: Layout = ""
    """the layout that other vendors' tools copy: this reader comes last, and skips texts in which another claims it"""


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

"""Tables of NVIDIA's bandwidth tests: a title, a header of device numbers, a row per device.

A number at the end of the text counts if it has two decimals, as the tools print it; with fewer it may be cut. Error
lines between the rows become warnings; where one may have divided a row, the table ends.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.model.topology import MAX_DEVICES
from linkwise.vendors.reader import NumberedLine, is_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.model.topology import Matrix

__all__ = ["Section", "Title", "failure", "names", "scan", "some_pairs"]

_MARKS: Final = " \t#>|`*"
"""quotes, comments and bullets before a line"""
_CORNERS: Final = {"D\\D", "D/D", "GPU", "CPU"}
_NO_VALUE: Final = {"N/A", "-", "—", "X"}
_LEFT_OUT: Final = {"...", "[...]", "…"}
_INDEX: Final = re.compile(r"[0-9]{1,3}")
_INDEX_AND_MORE: Final = re.compile(r"[0-9]{1,3}(?![0-9:])")
_NUMBER: Final = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,6})?")
_SURELY_WHOLE: Final = re.compile(r"[0-9]+\.[0-9]{2,}")
_FAILURE: Final = re.compile(r"error|failure|failed|invalid", re.IGNORECASE)
_SHOWN: Final = 4


class Title(NamedTuple):
    """Title of a table."""

    key: str
    """the part that distinguishes it from other tables"""
    printed: str


@dataclass(frozen=True, slots=True)
class Section:
    """A table under its title; a column's number is also that of the row at its place."""

    title: Title
    columns: tuple[int, ...] = ()
    rows: tuple[tuple[float | None, ...], ...] = ()
    """shorter where the text is cut; None where the tool says that there is no value"""
    strays: tuple[str, ...] = ()
    """for each row the word that ended it too early"""
    messages: tuple[NumberedLine, ...] = ()
    """error lines between the title and the last row"""

    @property
    def key(self) -> str:
        """Its name among the sections of a text."""
        return self.title.key

    @property
    def begun(self) -> bool:
        """Whether it has any value."""
        return any(self.rows)

    @property
    def whole(self) -> bool:
        """Whether it has a value for every pair."""
        return self.begun and all(len(row) == len(self.columns) for row in self.rows)

    def matrix(self, *, turned: bool = False) -> Matrix:
        """The values, 0 where there is none; `turned` where the row is the destination."""
        size = len(self.columns)
        rows = [row if len(row) <= size else () for row in self.rows]
        matrix = [(*(cell or 0.0 for cell in row), *(0.0,) * (size - len(row))) for row in rows]
        return tuple(zip(*matrix, strict=True)) if turned else tuple(matrix)

    def gaps(self) -> tuple[str, ...]:
        """A sentence for each row that is not whole, and one for those that are missing."""
        if not self.begun:
            return (f"'{self.key}' has no rows",)
        size, gaps, missing = len(self.columns), [], []
        for number, row, stray in zip(self.columns, self.rows, self.strays, strict=True):
            if len(row) > size:
                gaps.append(f"row {number} of '{self.key}' has more than {size} values")
            elif row or stray:
                cut = f": {stray!r} is not a whole number" if stray else ""
                gaps += [f"row {number} of '{self.key}' ends after {len(row)} of {size} values{cut}"] * (
                    len(row) < size
                )
            else:
                missing.append(str(number))
        gaps += [f"'{self.key}' has no row {', '.join(missing)}"] * bool(missing)
        return tuple(gaps)

    def pairs_without_value(self) -> list[tuple[int, int]]:
        """Pairs of different devices for which nothing, or 0, is printed."""
        return [
            (number, other)
            for number, row in zip(self.columns, self.rows, strict=True)
            for other, cell in zip(self.columns, row, strict=False)
            if number != other and not cell
        ]

    def without_value(self) -> tuple[str, ...]:
        """A sentence with the number of pairs that have no value: the tool printed nothing, or 0, or the text lacks it."""
        size, values = len(self.columns), self.matrix()
        pairs = [
            (self.columns[a], self.columns[b])
            for a, b in combinations(range(size), 2)
            if not (values[a][b] and values[b][a])
        ]
        if not pairs:
            return ()
        return (f"no value for {len(pairs)} of {size * (size - 1) // 2} pairs ({some_pairs(pairs)})",)


def scan(lines: Sequence[str], title_of: Callable[[str], Title | None]) -> dict[str, Section]:
    """The tables by key, in the order of the text; a key's second table is `key #2`."""
    tables: list[_Table] = []
    for number, line in enumerate(lines, 1):
        if title := title_of(line):
            tables.append(_Table(title))
        elif tables and tables[-1].reading:
            words = line.lstrip(_MARKS).split()
            if is_error(line):
                tables[-1].skip(words, (number, line))
            else:
                _take(tables, words, ended=number < len(lines))
    by_key, times = {}, Counter[str]()
    for table in tables:
        key = table.title.key
        times[key] += 1
        by_key[key if times[key] == 1 else f"{key} #{times[key]}"] = table.section()
    return by_key


def names(section: Section) -> tuple[str, ...]:
    """Its devices, by printed number."""
    return tuple(f"GPU{number}" for number in section.columns)


def some_pairs(pairs: Iterable[tuple[int, int]]) -> str:
    """A few of the pairs, and how many more there are: `0-1, 0-2 and 3 more`."""
    joined = sorted({(min(pair), max(pair)) for pair in pairs})
    shown = ", ".join(f"{low}-{high}" for low, high in joined[:_SHOWN])
    return shown + (f" and {len(joined) - _SHOWN} more" if len(joined) > _SHOWN else "")


def failure(lines: Iterable[str]) -> str:
    """The first line with an error; empty if there is none."""
    return next((line.strip()[:200] for line in lines if _FAILURE.search(line)), "")


@dataclass(slots=True)
class _Table:
    """A table while it is read."""

    title: Title
    columns: tuple[int, ...] = ()
    rows: dict[int, tuple[tuple[float | None, ...], str]] = field(default_factory=dict)
    messages: list[NumberedLine] = field(default_factory=list)
    pending: list[NumberedLine] = field(default_factory=list)
    """error lines below the last row so far"""
    reading: bool = True

    def skip(self, words: list[str], line: NumberedLine) -> None:
        """Skip an error line; the table ends if it divides a row, whose rest would look like another row."""
        self.pending.append(line)
        cells, _ = next(reversed(self.rows.values()), ((), ""))
        divided = bool(self.rows) and len(cells) < len(self.columns)
        self.reading = not (divided or _INDEX_AND_MORE.match(words[0]) or words[0] in _CORNERS)

    def section(self) -> Section:
        rows = [self.rows.get(number, ((), "")) for number in self.columns]
        cells, strays = tuple(cells for cells, _ in rows), tuple(stray for _, stray in rows)
        return Section(self.title, self.columns, cells, strays, tuple(self.messages))


def _take(tables: list[_Table], words: list[str], *, ended: bool) -> None:
    """A line after a title: the header, a row, nothing, or the end of the table."""
    table = tables[-1]
    if not words or words[0] in _LEFT_OUT:
        return
    if words == [str(column) for column in table.columns]:
        return  # the header once more
    corner = words[0] if words[0] in _CORNERS else ""
    if corner or not table.columns:
        _head(tables, corner, words[1:] if corner else words)
    elif _INDEX.fullmatch(words[0]) and (number := int(words[0])) in table.columns and number not in table.rows:
        table.rows[number] = _cells(words[1:], len(table.columns), ended=ended)
        table.messages, table.pending = [*table.messages, *table.pending], []
    else:
        table.reading = False


def _head(tables: list[_Table], corner: str, words: list[str]) -> None:
    """Take the header; latency titles stand over two tables, one timed by the GPU and one by the CPU."""
    table = tables[-1]
    columns = tuple(int(word) for word in words[: MAX_DEVICES + 1] if _INDEX.fullmatch(word))
    if len(columns) != len(words) or len(columns) > MAX_DEVICES or list(columns) != sorted(set(columns)):
        table.reading = False
        return
    key, printed = table.title
    title = Title(f"{key.removesuffix(' GPU')} {corner}", printed) if corner in {"GPU", "CPU"} else table.title
    if table.columns:
        tables.append(_Table(title, columns))
    else:
        table.title, table.columns = title, columns


def _cells(words: list[str], size: int, *, ended: bool) -> tuple[tuple[float | None, ...], str]:
    """The values of a row up to the first word that is none, and that word; the last word of a line may be cut."""
    cells: list[float | None] = []
    for place, word in enumerate(words[: size + 1], 1):
        if word in _NO_VALUE:
            cells.append(None)
        elif _NUMBER.fullmatch(word) and (place < len(words) or _uncut(word, words[:-1], ended=ended)):
            cells.append(float(word))
        else:
            return tuple(cells), word[:20]
    return tuple(cells), ""


def _uncut(word: str, others: list[str], *, ended: bool) -> bool:
    """Whether the last number of a line is whole: with two decimals, or with as many as the numbers before it."""
    if _SURELY_WHOLE.fullmatch(word):
        return True
    decimals = [len(other.partition(".")[2]) for other in others if _NUMBER.fullmatch(other)]
    return ended and bool(decimals) and len(word.partition(".")[2]) >= max(decimals)

"""Layout of link tables: a header of device names, then rows of a name, link codes and affinity cells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.vendors.error_lines import NumberedLine, is_error
from linkwise.vendors.link_table.cells import code_pattern, codes_in, split_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MARKS", "Header", "LinkTable", "Names", "Row", "chosen", "leading", "line_of", "tables"]

MARKS: Final = r"[ \t#>|*+-]*"
"""what comments, quotes, lists and boxes put before a line"""

_NIC: Final = r"(?:NIC[0-9]+|mlx[0-9]+_[0-9]+)"
_NICS: Final = re.compile(rf"{_NIC}+")
_ONE_NIC: Final = re.compile(_NIC)
_OTHER_NIC: Final = re.compile(r"(?=[a-z0-9_]*[0-9])[a-z][a-z0-9_]*")
_LEGEND: Final = re.compile(rf"{MARKS}(?:(?:NIC )?Legend|[A-Z0-9_#?]+[ \t]+=)")
_TITLES: Final = {"CPU Affinity": "cpus", "NUMA Affinity": "numa", "Node Affinity": "numa", "GPU NUMA ID": "id"}
_TITLE: Final = re.compile("|".join(_TITLES))
_TITLE_START: Final = re.compile(r"CPU|NUMA|Node|GPU N")
_WORD: Final = re.compile(r"\S+")
_LONGEST_LINE: Final = 20_000  # the widest table has 64 devices and some hundred NICs
_NO_TABLE: Final = 3


class Names:
    """Patterns for rows and headers, by the names that a tool gives its devices.

    Args:
        device: regular expression of one name.
        code: regular expression of one link code; by default the codes of all registered vendors.
    """

    def __init__(self, device: str, code: str = "") -> None:
        self._device: Final = device
        self._code: Final = code
        self.device: Final = re.compile(device)
        self.row: Final = re.compile(rf"{MARKS}({device})[ \t]+(\S.*)")
        self.alone: Final = re.compile(rf"{MARKS}({device})[ \t]*")
        self.run: Final = re.compile(rf"(?<![A-Za-z0-9_-])(?:{device}[ \t]*)+")
        self.hint: Final = re.compile(rf"{device}|{_NIC}|=|Legend")
        self.whole_header: Final = re.compile(rf"(?m)^(?=[^\n]*{device})[^\n]*(?:CPU|NUMA|Node) Affinity")

    @property
    def link_row(self) -> re.Pattern[str]:
        """A row whose first cell is a link code."""
        return _link_row(self._device, self._code or code_pattern())


@lru_cache(maxsize=64)
def _link_row(name: str, code: str) -> re.Pattern[str]:
    return re.compile(rf"(?m)^{MARKS}{name}[ \t]+({code}+)(?=[ \t]|$)")


@lru_cache(maxsize=16)
def _nic_row(code: str) -> re.Pattern[str]:
    return re.compile(rf"{MARKS}({_NIC})[ \t]+{code}")


@dataclass(frozen=True, slots=True)
class Header:
    """The names and titles over the columns, in order."""

    devices: tuple[str, ...]
    nics: tuple[str, ...]
    titles: tuple[str, ...]
    """of the columns behind the links: cpus, numa, id"""


@dataclass(frozen=True, slots=True)
class Row:
    """A device's line: its name and the text behind it."""

    name: str
    text: str
    last: bool
    """whether the text ends here, or an error line follows: the line may be cut anywhere"""


@dataclass(slots=True)
class LinkTable:
    """One table as it stands in the text, nothing concluded yet."""

    start: int
    """where its first line starts in the text"""
    header: Header | None = None
    rows: dict[str, Row] = field(default_factory=dict)
    nics: list[str] = field(default_factory=list)
    """names of the NIC rows"""
    ending: str = ""
    """the name, complete or truncated, that the text ends with below its rows: one more device without data"""
    messages: list[NumberedLine] = field(default_factory=list)
    """error lines between the header and the last row"""

    pending: list[NumberedLine] = field(default_factory=list)
    """error lines below the last row so far"""

    def add_row(self, row: Row) -> None:
        """Add a row; the error lines above it are inside the table."""
        self.rows[row.name] = row
        self.messages += self.pending
        self.pending = []

    def add_message(self, line: NumberedLine, above: Row | None) -> None:
        """Note an error line, which may have divided the row on the line above."""
        self.pending.append(line)
        if above:
            self.rows[above.name] = replace(above, last=True)

    def codes(self) -> Iterator[str]:
        """The link codes of all rows."""
        return (code for row in self.rows.values() for code in split_row(row.text).codes)


def tables(text: str, names: Names) -> Iterator[LinkTable]:
    """The tables of a text in order; a legend, a new header or a row that came before ends one.

    An error line that names devices is neither a row nor a header, unless it has the titles of columns.
    """
    table = LinkTable(0)
    start = 0
    above: Row | None = None  # the row on the line above
    for number, line in enumerate(text.split("\n"), 1):
        here, start = start, start + len(line) + 1
        started = table.header is not None or bool(table.rows)
        hinted = len(line) <= _LONGEST_LINE and names.hint.search(line) is not None
        error = (started or hinted) and is_error(line)
        if error and started:
            table.add_message((number, line), above)
        above = None
        if not hinted:
            continue
        row = _row_in(table, line, names, error=error, last=start > len(text))
        header = None if row else _header(line, names, error=error)
        if header or (row and row.name in table.rows) or _LEGEND.match(line):
            if started:
                yield table
            table, started = LinkTable(here, header), header is not None
        if row:
            table.start = table.start if started else here
            above = row
            table.add_row(row)
        elif started and (nic := _nic_row(code_pattern()).match(line)):
            table.nics.append(nic[1])
    if table.header or table.rows:
        yield table


def leading(found: Iterable[LinkTable]) -> Iterator[LinkTable]:
    """The tables up to the second one with header and rows: enough to choose, and to see that there are more."""
    whole = 0
    for table in found:
        yield table
        whole += _rank(table) == 0
        if whole > 1:
            return


def chosen(found: Iterable[LinkTable]) -> LinkTable | None:
    """The first table that has a header and rows; without one, the first that has rows, or a header with titles."""
    ranked = [(_rank(table), table) for table in found]
    first = min(ranked, key=lambda pair: pair[0], default=None)
    return first[1] if first and first[0] < _NO_TABLE else None


def line_of(text: str, place: re.Match[str] | None) -> str:
    """The whole line in which something was found; empty if nothing was."""
    if place is None:
        return ""
    end = text.find("\n", place.end())
    return text[text.rfind("\n", 0, place.start()) + 1 : end if end >= 0 else None].strip()


def _rank(table: LinkTable) -> int:
    if table.rows:
        return 0 if table.header else 1
    return 2 if table.header and {"cpus", "numa"} & set(table.header.titles) else _NO_TABLE


def _row_in(table: LinkTable, line: str, names: Names, *, error: bool, last: bool) -> Row | None:
    """The row of a line, also one that lost its cells; at the end of the text that is only noted."""
    inside = table.header is not None or bool(table.rows)
    if not error and (row := _row(line, names, inside=inside, last=last)):
        return row
    cut = _cut_row(line, names, table)
    if cut and last:
        table.ending = cut.name
    return None if last else cut


def _row(line: str, names: Names, *, inside: bool, last: bool) -> Row | None:
    """A line is a row if a link code follows the name; in a table it may be a code we don't know."""
    found = names.row.match(line)
    if found is None:
        return None
    cell = found[2].split(maxsplit=1)[0]
    codes = [] if names.device.match(cell) else codes_in(cell)
    if not codes or not (inside or names.link_row.match(line)):
        return None
    return Row(found[1], found[2], last)


def _cut_row(line: str, names: Names, table: LinkTable) -> Row | None:
    """A name alone below other rows is a row that lost all its cells, not the header of another table."""
    found = names.alone.fullmatch(line) if table.rows else None
    return Row(found[1], "", last=False) if found and found[1] not in table.rows else None


def _header(line: str, names: Names, *, error: bool) -> Header | None:
    """The last run of device names in a line, where only NICs and titles follow it; in an error line, titles must."""
    run = None
    for run in names.run.finditer(line):  # noqa: B007 - the last one counts
        pass
    if run is None:
        return None
    devices = tuple(dict.fromkeys(names.device.findall(run[0])))
    nics: list[str] = []
    rest = line[run.end() :].replace("CPU Affinity", " CPU Affinity").strip(" \t|`")
    for word in _WORD.finditer(rest):
        if _NICS.fullmatch(word[0]):
            nics += _ONE_NIC.findall(word[0])
        elif _OTHER_NIC.fullmatch(word[0]):
            nics.append(word[0])
        elif _TITLE_START.match(rest, word.start()):
            titles = tuple(_TITLES[title] for title in _TITLE.findall(rest, word.start()))
            return Header(devices, tuple(nics), titles)
        else:
            return None
    return None if error else Header(devices, tuple(nics), ())

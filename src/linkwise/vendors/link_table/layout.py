"""Layout of link tables: a header of device names, then rows of a name, link codes and affinity cells.

Cells that a tool glued together are separated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.model.link import vendor_links
from linkwise.vendors.reader import NumberedLine, is_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "MARKS",
    "Cells",
    "Header",
    "LinkTable",
    "Names",
    "Row",
    "affinity_of",
    "chosen",
    "code_pattern",
    "codes_in",
    "is_known",
    "is_whole",
    "leading",
    "line_of",
    "split_row",
    "tables",
]

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
_NO_TABLE: Final = 3  # the rank below all tables
_PCIE: Final = ("NODE", "PIX", "PXB", "PHB", "SYS", "SOC")
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]*|\?|N/A")
_CELL_TITLE: Final = re.compile(r"(?:CPU|NUMA|GPU|NIC[0-9]*|ID)")
_NVLINKS: Final = re.compile(r"NV[0-9]{2,3}")
_RANGES: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*|N/A|")


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


def leading(tables: Iterable[LinkTable]) -> Iterator[LinkTable]:
    """The tables up to the second one with header and rows: enough to choose, and to see that there are more."""
    whole = 0
    for table in tables:
        yield table
        whole += _rank(table) == 0
        if whole > 1:
            return


def chosen(tables: Iterable[LinkTable]) -> LinkTable | None:
    """The first table that has a header and rows; without one, the first that has rows, or a header with titles."""
    ranked = [(_rank(table), table) for table in tables]
    first = min(ranked, key=lambda pair: pair[0], default=None)
    return first[1] if first and first[0] < _NO_TABLE else None


def line_of(text: str, place: re.Match[str] | None) -> str:
    """The whole line in which something was found; empty if nothing was."""
    if place is None:
        return ""
    end = text.find("\n", place.end())
    return text[text.rfind("\n", 0, place.start()) + 1 : end if end >= 0 else None].strip()


@dataclass(frozen=True, slots=True)
class Cells:
    """The link codes at the start of a row, and the cells after them."""

    codes: tuple[str, ...]
    after: tuple[str, ...] = ()
    tabbed: bool = False
    """whether empty cells are visible: columns count by position"""
    gapped: bool = False
    """whether empty cells stand between the codes: doubled tabs, or cells that were lost"""

    @property
    def ended(self) -> bool:
        """Whether the line ends with the last code, and may be cut inside it."""
        return not self.after


def split_row(text: str, width: int | None = None) -> Cells:
    """The cells of a row behind its name; at most `width` of them are links."""
    cells = [cell.strip() for cell in text.lstrip().split("\t")]
    tabbed = len(cells) > 1 and not any(" " in cell for cell in cells)
    if not tabbed:
        cells = text.split()
    codes: list[str] = []
    gap = gapped = False
    end = len(cells)
    for index, cell in enumerate(cells):
        found = codes_in(cell)
        if (width is not None and len(codes) >= width) or (cell and not found):
            end = index
            break
        gapped = gapped or (gap and bool(cell))
        gap = gap or not cell
        codes += found
    after = tuple(cells[end:])
    if gapped:
        after = tuple(filter(None, after))
    return Cells(tuple(codes), after, tabbed and not gapped, gapped)


def code_pattern() -> str:
    """Regular expression of one link code, with those of all registered vendors."""
    return _pattern(vendor_links())


def codes_in(cell: str) -> list[str]:
    """The link codes of a cell: one, several that were glued together, or none; unknown codes are kept."""
    known, glued = _compiled(code_pattern())
    if known.fullmatch(cell):
        return [cell]
    if glued.fullmatch(cell) and (codes := known.findall(cell)).count("X") <= 1:  # a row has one X: XXXX is one code
        return codes
    return [cell] if _CODE.fullmatch(cell) and not _CELL_TITLE.fullmatch(cell) else []


def is_known(code: str) -> bool:
    """Whether it is a link code of a registered vendor."""
    return _compiled(code_pattern())[0].fullmatch(code) is not None


def is_whole(code: str) -> bool:
    """Whether a known code is not the beginning of a longer one, as NV1 is of NV12: a cut took nothing from it."""
    if code.startswith("NV"):
        return _NVLINKS.fullmatch(code) is not None
    codes = (*vendor_links(), *_PCIE)
    return code in codes and not any(other != code and other.startswith(code) for other in codes)


def affinity_of(cells: Cells, titles: tuple[str, ...], *, cut: bool) -> tuple[str | None, ...]:
    """A value per title, as printed; None where the text has none, or where its column is uncertain.

    Without tabs an empty cell is invisible, so the values count only if there is one per title.
    """
    values: list[str | None]
    if cells.tabbed:
        values = [*cells.after[: len(titles)]]
    else:
        tokens = re.sub(r",[ \t]+", ",", " ".join(cells.after)).split(" ")
        values = [*tokens] if len(tokens) == len(titles) and tokens != [""] else []
    if cut and cells.tabbed and values and len(cells.after) < len(titles):
        values[-1] = None
    values += [None] * (len(titles) - len(values))
    return tuple(value if value is not None and _RANGES.fullmatch(value) else None for value in values)


@lru_cache(maxsize=64)
def _link_row(name: str, code: str) -> re.Pattern[str]:
    return re.compile(rf"(?m)^{MARKS}{name}[ \t]+({code}+)(?=[ \t]|$)")


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
    match = names.row.match(line)
    if match is None:
        return None
    cell = match[2].split(maxsplit=1)[0]
    codes = [] if names.device.match(cell) else codes_in(cell)
    if not codes or not (inside or names.link_row.match(line)):
        return None
    return Row(match[1], match[2], last)


def _cut_row(line: str, names: Names, table: LinkTable) -> Row | None:
    """A name alone below other rows is a row that lost all its cells, not the header of another table."""
    match = names.alone.fullmatch(line) if table.rows else None
    return Row(match[1], "", last=False) if match and match[1] not in table.rows else None


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


@lru_cache(maxsize=16)
def _nic_row(code: str) -> re.Pattern[str]:
    return re.compile(rf"{MARKS}({_NIC})[ \t]+{code}")


def _rank(table: LinkTable) -> int:
    if table.rows:
        return 0 if table.header else 1
    return 2 if table.header and {"cpus", "numa"} & set(table.header.titles) else _NO_TABLE


@lru_cache(maxsize=16)
def _pattern(vendor_codes: tuple[str, ...]) -> str:
    codes = sorted((*vendor_codes, *_PCIE, "X"), key=len, reverse=True)  # glued cells are separated from the left
    return f"(?:NV[0-9]{{1,3}}|{'|'.join(codes)})"


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(pattern), re.compile(f"{pattern}+")

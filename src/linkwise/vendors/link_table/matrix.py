"""Link matrix of a table: columns by name, cells checked, everything missing reported.

Every row has its X under its own name. That reveals shifted rows, and the columns of a table that lost its header. A
complete matrix is checked for directions that differ and for a device unlike all others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.model.link import SELF, UNKNOWN_LINK, Link
from linkwise.model.topology import MAX_DEVICES
from linkwise.vendors.link_table.layout import Cells, affinity_of, chosen, is_known, is_whole, split_row
from linkwise.vendors.reader import DeviceFacts, Reading, line_warnings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.vendors.link_table.layout import Header, LinkTable, Row

__all__ = ["fabric_warnings", "no_table", "read_first", "read_table"]

Cell = tuple[str, str]
"""the names of its row and its column"""

_ONE_SWITCH: Final = frozenset({"PIX", "PXB"})
"""codes of a path that stays below one host bridge's port, through PCIe switches only"""


def no_table(kind: str, error: str, nothing: str) -> Reading:
    """Reading of a text without a table: the tool's own error, or a sentence that there is none."""
    if error:
        return Reading(kind, "error", problems=(error,))
    return Reading(kind, "no matrix", problems=(nothing,))


def read_first(every: Sequence[LinkTable], kind: str) -> Reading | None:
    """Reading of the first table, with a warning if there are more; None if there is none."""
    table = chosen(every)
    if table is None:
        return None
    reading = read_table(table, kind)
    if sum(bool(other.rows) for other in every) > 1:
        reading = replace(reading, warnings=(*reading.warnings, "the text has more tables: the first is used"))
    return reading


def read_table(table: LinkTable, kind: str) -> Reading:
    """The devices, links, NICs and affinities of a table."""
    draft = _Draft.of(table)
    if len(draft.devices) > MAX_DEVICES:
        return Reading(kind, "error", problems=(f"{len(draft.devices)} devices: a machine has at most {MAX_DEVICES}",))
    for row in table.rows.values():
        draft.take(row)
    draft.drop_cut_cells()
    links = draft.matrix()
    problems = (*draft.header_problems(), *draft.row_problems())
    facts, unsure = _facts(draft)
    nics = table.header.nics if table.header else ()
    return Reading(
        kind,
        "incomplete" if problems else "ok",
        draft.devices,
        links,
        nics=tuple(dict.fromkeys((*nics, *table.nics))),
        facts=facts,
        problems=problems,
        warnings=(*line_warnings(table.messages), *fabric_warnings(draft.devices, links), *unsure),
    )


@dataclass(slots=True)
class _Draft:
    """A matrix while its rows are read."""

    table: LinkTable
    devices: tuple[str, ...]
    columns: dict[int, str]
    """the device of each column"""
    fits: bool
    """whether the header agrees with where the X of the rows stand"""
    cells: dict[Cell, str] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    """how many cells the rows have that end early"""
    shifted: list[str] = field(default_factory=list)
    loose: dict[Cell, int] = field(default_factory=dict)
    """the positions of cells that a line ends with: it may be cut inside them"""

    @classmethod
    def of(cls, table: LinkTable) -> _Draft:
        table = replace(table, header=_without_cut_name(table))
        header = table.header.devices if table.header else ()
        columns = dict(enumerate(header))
        seen = _columns_by_x(table)
        agreeing = sum(columns.get(position) == name for position, name in seen.items())
        fits = 2 * agreeing >= len(seen)
        if not fits:
            columns = seen
        beyond = {at: name for at, name in seen.items() if name not in header and at >= len(header)}
        every = tuple(dict.fromkeys((*header, *table.rows)))
        if len(every) > len(header):
            every = tuple(sorted(every, key=_number))
        return cls(table, every, columns | beyond, fits)

    @property
    def width(self) -> int | None:
        """Number of link columns, NICs included; None if the header does not determine it."""
        header = self.table.header
        if header is None or not self.fits or not self.table.rows.keys() <= set(header.devices):
            return None
        return len(header.devices) + len(header.nics)

    @property
    def span(self) -> int:
        """Number of columns of devices."""
        return max(self.columns, default=-1) + 1

    def take(self, row: Row) -> None:
        """Add the cells of a row, unless they are not under their names."""
        cells = split_row(row.text, self.width)
        codes = cells.codes[: self.span]
        if self._is_shifted(row.name, cells):
            self.shifted.append(row.name)
            return
        if len(codes) < self.span:
            codes = self._up_to_unknown(codes)
            self.ends[row.name] = len(codes)
        for position, code in enumerate(codes):
            if position in self.columns:
                self.cells[row.name, self.columns[position]] = code
        if codes and cells.ended and len(cells.codes) == len(codes) and len(codes) - 1 in self.columns:
            self.loose[row.name, self.columns[len(codes) - 1]] = len(codes) - 1

    def drop_cut_cells(self) -> None:
        """Drop the last cell of a line where it may be the beginning of a longer code."""
        cut = [place for place in self.loose if self._may_be_cut(*place)]
        for row, column in cut:
            del self.cells[row, column]
            self.ends[row] = self.loose[row, column]

    def matrix(self) -> tuple[tuple[Link, ...], ...]:
        kinds = {code: Link(code) for code in self.cells.values()}
        return tuple(
            tuple(
                SELF if row == column else kinds.get(self.cells.get((row, column), ""), UNKNOWN_LINK)
                for column in self.devices
            )
            for row in self.devices
        )

    def header_problems(self) -> list[str]:
        header = self.table.header
        if header is None:
            return ["the header is missing"]
        lacking = [name for name in self.devices if name not in header.devices]
        if lacking:
            return [f"the header lacks {', '.join(lacking)}"]
        ending = self.table.ending
        if ending and not any(name.startswith(ending) for name in header.devices):
            return [f"the text ends with {ending}, which the header lacks"]
        return [] if self.fits else ["the header does not fit the rows"]

    def row_problems(self) -> list[str]:
        problems = []
        for name in self.devices:
            if name not in self.table.rows:
                problems.append(f"row {name} is missing")
            elif name in self.shifted:
                problems.append(f"row {name} does not fit its columns")
            elif name in self.ends:
                problems.append(f"row {name} ends after {self.ends[name]} of {self.span} cells")
            problems += [
                f"row {name} has no link code for {other}"
                for other in self.devices
                if self.cells.get((name, other)) == "?"
            ]
        return problems

    def _is_shifted(self, name: str, cells: Cells) -> bool:
        codes = cells.codes[: self.span]
        own = next((position for position, column in self.columns.items() if column == name), None)
        wrong_x = any(code == "X" and position != own for position, code in enumerate(codes))
        no_x = own is not None and own < len(codes) and codes[own] != "X"
        lost = len(codes) < self.span and not cells.ended
        holes = cells.gapped and len(cells.codes) < (self.width or self.span)
        return wrong_x or no_x or lost or holes

    def _may_be_cut(self, row: str, column: str) -> bool:
        cell, partner = self.cells[row, column], self.cells.get((column, row))
        if row == column or cell == partner:
            return False
        if partner is None or partner.startswith(cell):
            return partner is not None or not is_whole(cell)
        doubtful = row in self.ends or self.table.rows[row].last
        return not is_known(cell) or (doubtful and not is_whole(cell))

    @staticmethod
    def _up_to_unknown(codes: tuple[str, ...]) -> tuple[str, ...]:
        """An unknown code in a short row may be two codes: the column of what follows is uncertain."""
        unknown = (at for at, code in enumerate(codes[:-1]) if not is_known(code))
        return codes[: next(unknown, len(codes))]


def _without_cut_name(table: LinkTable) -> Header | None:
    """A header that ends with GPU1 over a row GPU10, and none GPU1, was cut inside that name."""
    header = table.header
    if header is None or header.nics or header.titles:
        return header
    last = header.devices[-1]
    cut = last not in table.rows and any(name.startswith(last) for name in table.rows)
    return replace(header, devices=header.devices[:-1]) if cut else header


def _columns_by_x(table: LinkTable) -> dict[int, str]:
    rows = {row.name: split_row(row.text).codes for row in table.rows.values()}
    places = [(codes.index("X"), name) for name, codes in rows.items() if codes.count("X") == 1]
    taken = Counter(position for position, _ in places)
    return {position: name for position, name in places if taken[position] == 1}


def _number(name: str) -> tuple[int, str]:
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits or 0), name


def _facts(draft: _Draft) -> tuple[tuple[DeviceFacts, ...], list[str]]:
    """Affinities of the devices, and a sentence if the text has some but not in which column."""
    table = draft.table
    titles = table.header.titles if table.header and draft.fits else ()
    affinities: dict[str, dict[str, str | None]] = {}
    near: dict[str, tuple[str, ...]] = {}
    unsure = []
    for row in table.rows.values():
        cells = split_row(row.text, draft.width)
        whole = draft.width is not None and len(cells.codes) == draft.width
        if whole and table.header and draft.fits:
            behind = cells.codes[len(table.header.devices) :]
            near[row.name] = tuple(
                nic for nic, code in zip(table.header.nics, behind, strict=True) if code in _ONE_SWITCH
            )
        values = affinity_of(cells, titles, cut=row.last) if whole else (None,) * len(titles)
        affinities[row.name] = dict(zip(titles, values, strict=True))
        if whole and any(cells.after) and titles and not any(value is not None for value in values):
            unsure.append(row.name)
    for row in table.rows.values():
        if row.last:
            _forget_cut(affinities, row.name)
    by_device = {name: affinities.get(name, {}) for name in draft.devices}
    facts = (
        DeviceFacts(name, numa=own.get("numa"), cpus=own.get("cpus"), nics=near.get(name, ()))
        for name, own in by_device.items()
    )
    warnings = [f"the affinity of {', '.join(unsure)} is not certain: a cell is empty or odd"] if unsure else []
    return tuple(facts), warnings


def _forget_cut(affinities: dict[str, dict[str, str | None]], name: str) -> None:
    """Drop a value at the end of the text if another row has a longer form of it: 0-23,4 and 0-23,48-71."""
    for title, value in affinities[name].items():
        others = (values.get(title) or "" for values in affinities.values())
        if value and any(other != value and other.startswith(value) for other in others):
            affinities[name][title] = None


_MOST_NAMED: Final = 8
# Of three devices, two that are bridged and one that is not are a machine as sold.
_FEWEST_DEVICES: Final = 4

Pair = tuple[int, int]


def fabric_warnings(devices: Sequence[str], links: Sequence[Sequence[Link]]) -> tuple[str, ...]:
    """A sentence for each pair whose directions differ, and one for a device or pair with degraded links."""
    pairs = list(combinations(range(len(devices)), 2))
    uneven = [
        f"{devices[i]} to {devices[j]} is {links[i][j]}, but {devices[j]} to {devices[i]} is {links[j][i]}"
        for i, j in pairs
        if links[i][j] != links[j][i] and UNKNOWN_LINK not in (links[i][j], links[j][i])
    ]
    more = len(uneven) - _MOST_NAMED
    rest = [f"{more} more pairs differ by direction"] if more > 0 else []
    lost = _degraded(devices, {(i, j): min(links[i][j], links[j][i]) for i, j in pairs})
    return (*uneven[:_MOST_NAMED], *rest, *lost)


def _degraded(devices: Sequence[str], links: dict[Pair, Link]) -> list[str]:
    """The device or pair with less than the direct link that all other pairs share."""
    if len(devices) < _FEWEST_DEVICES or UNKNOWN_LINK in links.values():
        return []
    usual = max(links.values())
    odd = [pair for pair, link in links.items() if link != usual]
    if not odd or not usual.direct:
        return []
    shared = set(odd[0]).intersection(*odd)
    kinds = ", ".join(sorted({str(links[pair]) for pair in odd}))
    if len(odd) == 1:
        where = "-".join(devices[i] for i in odd[0])
    elif len(shared) == 1:
        where = devices[shared.pop()]
    else:
        return []
    return [f"{where} has {kinds} where the others have {usual}: the fabric may be degraded"]

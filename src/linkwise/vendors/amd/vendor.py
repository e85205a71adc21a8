"""AMD: descriptor, and readers of the links that rocm-smi and amd-smi print, as tables and as JSON.

Both print a table each for weight, hops and link type, with `0`, `SELF`, `N/A` or `ENABLED` on the diagonal.
A PCIe link is printed as PCIE, however long its path is; weight, then hops, distinguish near from far:

    the lightest of the machine's PCIE pairs    PHB
    the heaviest                                SYS
    those between                               NODE
    all alike                                   PHB up to two hops (device, CPU, device), else SYS

Paths are graded only when all of the tables are whole: a class is a place among all pairs. JSON documents hold the same values
and are graded alike.

Messages between the rows become warnings. A line that could be a row, but also the rest of one or of another table, is
never guessed at: its row is reported as missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from linkwise.model.link import SELF, UNKNOWN_LINK, Link, Pcie
from linkwise.model.topology import MAX_DEVICES
from linkwise.vendors.amd import inventory
from linkwise.vendors.amd.inventory import cards, gpu_records, integer, text_of
from linkwise.vendors.machine import MachineProfile, grouped
from linkwise.vendors.reader import DeviceFacts, NumberedLine, Reader, Reading, is_error, line_warnings
from linkwise.vendors.vendor import LinkCode, NeedsRule, Vendor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "JSON_READERS",
    "READERS",
    "VENDOR",
    "Table",
    "read_amd_smi",
    "read_rocm_smi",
    "reading_of",
    "some_of",
    "tables",
]

_ROCM_SMI: Final = "rocm-smi --showtopo"
_AMD_SMI: Final = "amd-smi topology"
_ROCM_SIGNS: Final = (
    "Weight between two GPUs",
    "Hops between two GPUs",
    "Link Type between two GPUs",
    "(Topology) Numa",
)
_AMD_SIGNS: Final = ("ACCESS TABLE:", "WEIGHT TABLE:", "HOPS TABLE:", "LINK TYPE TABLE:")

_TITLES: Final = ("weight", "hops", "link type")
_TITLE: Final = re.compile(r"\W*(\w[\w -]{0,40}?)(?: between two GPUs\W*| TABLE:)", re.IGNORECASE)
_DEVICE: Final = re.compile(r"GPU[0-9]{1,4}|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)
_SPELLED: Final = re.compile(r"GPU ?\[?([0-9]{1,4})\]?")
_NUMA: Final = re.compile(r"(GPU[0-9]{1,4})\s*: \(Topology\) Numa Node: (\S{1,20})")
_MESSAGE: Final = re.compile(r"\W*(?:ERROR|WARNING)")
"""a message of the tool, wherever it stands"""
_CELL: Final = re.compile(r"[A-Z0-9][A-Z0-9_,./-]*")
_HEADING: Final = re.compile(r"\W*(?:={3,}|-{3,}|Legend)", re.IGNORECASE)
_JSON: Final = re.compile(r'^\s*\{\s*"', re.MULTILINE)
"""the same words as names of fields, in the JSON documents"""
_UNKNOWN: Final = {"XXXX", "N/A", "UNKNOWN", "0"}
_OWN: Final = {"0", "SELF", "N/A", "ENABLED"}
"""the cells of a device with itself"""
_SURELY_WHOLE: Final = {"XGMI", "PCIE", "XXXX", "SELF", "N/A", "0", "ENABLED", "DISABLED"}
_SHOWN: Final = 4
_AMD_SMI_JSON: Final = "amd-smi topology --json"
_ROCM_SMI_JSON: Final = "rocm-smi --showtopo --json"
_FIELDS: Final = {"weight": "Weight", "num_hops": "Hops", "link_type": "Link Type", "link_status": "Access"}
"""of a link in amd-smi, by the title of the table that has the same values"""
_PAIR: Final = re.compile(
    r"\(Topology\) (Weight|Hops|Link type) between DRM devices ([0-9]{1,4}) and ([0-9]{1,4})", re.IGNORECASE
)
_NUMA_JSON: Final = "(Topology) Numa Node"
_GRADED: Final = ("Weight", "Hops", "Link Type")
"""tables without which a path can't be graded"""
_LACKING: Final = "N/A"
"""what stands in a table for a pair that the document lacks"""
Cells = dict[tuple[int, int], str]


@dataclass(slots=True)
class Table:
    """One table of the text; `rows` by device."""

    title: str
    columns: tuple[str, ...] = ()
    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    messages: list[NumberedLine] = field(default_factory=list)
    """lines up to the last row that are not part of the table"""
    pending: list[NumberedLine] = field(default_factory=list)
    """such lines below the last row so far"""
    torn: bool = False
    """whether the text has rows for it but no header"""
    reading: bool = True

    def take_messages(self) -> None:
        """Count the pending lines as inside the table: a line of it follows them."""
        self.messages += self.pending
        self.pending = []

    @property
    def in_words(self) -> bool:
        """Whether the cells are codes and not numbers."""
        return any(not cell[0].isdigit() and cell not in _UNKNOWN for _, _, cell in self.cells())

    def cells(self) -> list[tuple[str, str, str]]:
        """Each pair of different devices and what is printed for it."""
        rows = self.rows.items()
        return [(a, b, cell) for a, row in rows for b, cell in zip(self.columns, row, strict=False) if a != b]

    def gaps(self) -> tuple[str, ...]:
        """A sentence for each row that is cut, and one for those that are missing."""
        size = len(self.columns)
        cut = [
            f"row {name} of '{self.title}' ends after {len(row)} of {size} values"
            for name, row in self.rows.items()
            if len(row) != size
        ]
        missing = [name for name in self.columns if name not in self.rows]
        return (*cut, *[f"'{self.title}' has no row {', '.join(missing)}"] * bool(missing))


def tables(lines: Sequence[str]) -> dict[str, Table]:
    """The tables by title in small letters: weight, hops, link type, ...; of several with one title the first.

    A header where none is expected begins a table whose title was lost; its title is empty.
    """
    every: list[Table] = []
    for number, line in enumerate(lines, 1):
        match = _TITLE.match(line)
        if match and not is_error(line):
            torn = any(title != match[1].lower() and title.endswith(match[1].lower()) for title in _TITLES)
            every.append(Table("" if torn else match[1]))
        elif not _NUMA.search(line):
            words = line.lstrip("#>| \t").split()
            size = len(every[-1].columns) if every else len(words)
            if size > 1 and len(words) == size and all(map(_DEVICE.fullmatch, words)):
                every.append(Table(""))
            if every and every[-1].reading:
                _take(every[-1], words, (number, line), ended=number < len(lines))
    by_title: dict[str, Table] = {}
    for table in every:
        key = table.title.lower()
        if table.rows or table.torn or table.columns:
            by_title[key] = by_title[key] if key in by_title and by_title[key].rows else table
    return by_title


def read_rocm_smi(text: str) -> Reading:
    """The links as rocm-smi prints them, and the NUMA node of each device."""
    lines = _SPELLED.sub(r"GPU\1", text).split("\n")
    numa: dict[str, str] = {}
    for line in lines[:-1]:  # the last one may be cut inside a number
        if match := _NUMA.search(line):
            numa.setdefault(match[1], match[2])
    return reading_of(_ROCM_SMI, tables(lines), numa, lines)


def read_amd_smi(text: str) -> Reading:
    """The links as amd-smi prints them; devices are named by bus id."""
    lines = text.split("\n")
    return reading_of(_AMD_SMI, tables(lines), {}, lines)


READERS: Final = (
    Reader(_ROCM_SMI, lambda text: not _JSON.search(text) and any(sign in text for sign in _ROCM_SIGNS), read_rocm_smi),
    Reader(_AMD_SMI, lambda text: any(sign in text for sign in _AMD_SIGNS), read_amd_smi),
)


def _begins(word: str) -> Callable[[str], bool]:
    """Whether a code begins with the word: at the end of a line it may be one that was cut."""
    return lambda code: code.startswith(word)


def _take(table: Table, words: list[str], line: NumberedLine, *, ended: bool) -> None:
    """A line after a title: the header, a row, a message, nothing, or the end of the table."""
    if not words or (len(words) == 1 < len(table.columns) and words[0] in table.columns):
        return  # a name without cells is a row that was cut
    names = all(map(_DEVICE.fullmatch, words))
    cells = words[1:] if _DEVICE.fullmatch(words[0]) else words
    error = is_error(line[1])
    if table.columns and (names or (_HEADING.match(line[1]) and not error)):
        table.reading = False
    elif names:
        if len(set(words)) == len(words) <= MAX_DEVICES:
            table.columns = tuple(words)
            table.take_messages()
    elif error or not all(map(_CELL.fullmatch, cells)):
        table.pending.append(line)
    elif not table.columns:
        table.pending.append(line)
        table.torn |= cells is not words
    elif cells is words:
        _drop_split_line(table, line)
    elif words[0] not in table.columns or words[0] in table.rows or len(cells) > len(table.columns):
        table.reading = False
    else:
        _take_row(table, words[0], cells, line, ended=ended)


def _take_row(table: Table, name: str, cells: list[str], line: NumberedLine, *, ended: bool) -> None:
    cut = cells[-1] not in _SURELY_WHOLE and (not ended or any(map(_begins(cells[-1]), _SURELY_WHOLE)))
    if cut:
        cells = cells[:-1]
    own = table.columns.index(name)
    if own < len(cells) and cells[own] not in _OWN:
        table.pending.append(line)
    elif cells:
        table.rows[name] = tuple(cells)
        table.take_messages()


def _drop_split_line(table: Table, line: NumberedLine) -> None:
    """Cells without a name are the rest of a line that a message divided: drop the line above, which lacks them."""
    table.pending.append(line)
    if table.rows:
        table.rows.popitem()
    else:
        table.reading = False


def reading_of(
    kind: str,
    by_title: dict[str, Table],
    numa: dict[str, str],
    lines: Sequence[str] = (),
    gaps: Sequence[str] = (),
) -> Reading:
    """The links that the tables hold.

    Args:
        kind: the tool.
        by_title: the tables.
        numa: NUMA nodes by device.
        lines: those of the text, for the tool's messages between them.
        gaps: what the tables lack although their rows are complete.
    """
    torn = [f"the rows of '{table.title}' can't be read" for table in by_title.values() if not table.rows]
    by_title = {title: table for title, table in by_title.items() if table.rows}
    warnings = []
    if "link type" not in by_title and "weight" in by_title and by_title["weight"].in_words:
        by_title["link type"] = by_title.pop("weight")
        warnings.append("the table titled 'Weight' holds link types")
    devices = next((by_title[title].columns for title in ("link type", *by_title) if title in by_title), tuple(numa))
    facts = tuple(DeviceFacts(name, bus_id=name if ":" in name else "", numa=numa.get(name)) for name in devices)
    if not by_title:
        errors = tuple(line.strip()[:200] for line in lines if is_error(line))[:_SHOWN]
        return Reading(kind, "error" if errors else "no matrix", facts=facts, problems=errors or tuple(torn))
    messages = dict(enumerate(lines, 1))
    messages = {number: line for number, line in messages.items() if _MESSAGE.match(line)}
    messages |= dict(message for table in by_title.values() for message in table.messages)
    types = by_title.get("link type", Table("Link Type", devices))
    problems = torn + [gap for title in ("weight", "hops") if title in by_title for gap in by_title[title].gaps()]
    problems += ["a table lost its title and is not read"] * ("" in by_title)
    problems += types.gaps() if types.rows else ["the text has no table of link types"]
    problems += gaps
    paths = {} if problems else _paths(types, by_title.get("weight"), by_title.get("hops"))
    links = _links(devices, types, paths)
    return Reading(
        kind,
        "incomplete" if problems else "ok",
        devices=devices,
        links=links,
        facts=facts,
        problems=tuple(problems),
        warnings=(
            *warnings,
            *line_warnings(sorted(messages.items())),
            *_remarks(devices, links, by_title.get("access"), numa),
        ),
    )


def _links(devices: Sequence[str], types: Table, paths: dict[tuple[str, str], Pcie]) -> tuple[tuple[Link, ...], ...]:
    cells = {
        (a, b): UNKNOWN_LINK if cell in _UNKNOWN else Link(cell, pcie=paths.get((a, b))) for a, b, cell in types.cells()
    }
    return tuple(tuple(SELF if a == b else cells.get((a, b), UNKNOWN_LINK) for b in devices) for a in devices)


def _paths(types: Table, weight: Table | None, hops: Table | None) -> dict[tuple[str, str], Pcie]:
    """The PCIe path of each PCIE pair, by its place among their classes of weight and hops."""
    weights, steps = _numbers(weight), _numbers(hops)
    pairs = [(a, b) for a, b, cell in types.cells() if cell == "PCIE"]
    if not all(pair in weights or pair in steps for pair in pairs):
        return {}
    classes = {pair: (weights.get(pair, 0), steps.get(pair, 0)) for pair in pairs}
    order = sorted(set(classes.values()))
    if len(order) == 1:
        return dict.fromkeys(pairs, Pcie.PHB if 0 < order[0][1] <= 2 else Pcie.SYS)
    grades = {order[0]: Pcie.PHB, order[-1]: Pcie.SYS} if order else {}
    return {pair: grades.get(kind, Pcie.NODE) for pair, kind in classes.items()}


def _numbers(table: Table | None) -> dict[tuple[str, str], int]:
    cells = table.cells() if table else []
    return {(a, b): int(cell) for a, b, cell in cells if re.fullmatch(r"[0-9]{1,9}", cell)}


def _remarks(
    devices: Sequence[str], links: tuple[tuple[Link, ...], ...], access: Table | None, numa: dict[str, str]
) -> Iterable[str]:
    size = range(len(devices))
    known = [(i, j) for i, j in combinations(size, 2) if UNKNOWN_LINK not in {links[i][j], links[j][i]}]
    if odd := [f"{devices[i]}-{devices[j]}" for i, j in known if links[i][j] != links[j][i]]:
        yield f"links differ by direction: {some_of(odd)}"
    closed = {(a, b) for a, b, cell in access.cells() if cell == "DISABLED"} if access else set()
    if shut := [f"{a}-{b}" for a, b in combinations(devices, 2) if closed & {(a, b), (b, a)}]:
        yield f"no peer access between {some_of(shut)}"
    if numa and (lost := [name for name in devices if name not in numa]):
        yield f"the NUMA node is unknown for {some_of(lost)}"


def some_of(words: Sequence[str]) -> str:
    """A few of the words, and how many more there are."""
    return ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")


def _read_amd_smi(text: str) -> Reading:
    records = [(number, record) for number, record in gpu_records(text) if isinstance(record.get("links"), list)]
    numbers = [number for number, _ in records]
    by_title: dict[str, Cells] = {}
    for number, record in records:
        for link in record["links"]:
            other = integer(link.get("gpu")) if isinstance(link, dict) else None
            for key, title in _FIELDS.items():
                if other is not None and (cell := _cell(link.get(key))):
                    by_title.setdefault(title, {})[number, other] = cell
    if len(numbers) > MAX_DEVICES:
        return _too_many(_AMD_SMI_JSON, len(numbers))
    reading = reading_of(_AMD_SMI_JSON, _tables(by_title, numbers), {}, gaps=_gaps(by_title, numbers))
    buses = {f"GPU{number}": text_of(record.get("bdf")) for number, record in records}
    return replace(reading, facts=tuple(replace(facts, bus_id=buses.get(facts.name, "")) for facts in reading.facts))


def _read_rocm_smi(text: str) -> Reading:
    by_card, system = cards(text)
    by_title: dict[str, Cells] = {}
    for key, value in system.items():
        if (pair := _PAIR.fullmatch(key)) and (cell := _cell(value)):
            cells = by_title.setdefault(pair[1].title(), {})
            a, b = int(pair[2]), int(pair[3])
            cells[a, b] = cells[b, a] = cell  # each pair is printed once
    numbers = sorted({number for cells in by_title.values() for pair in cells for number in pair} | by_card.keys())
    if len(numbers) > MAX_DEVICES:
        return _too_many(_ROCM_SMI_JSON, len(numbers))
    numa = {f"GPU{number}": node for number, card in by_card.items() if (node := text_of(card.get(_NUMA_JSON)))}
    return reading_of(_ROCM_SMI_JSON, _tables(by_title, numbers), numa, gaps=_gaps(by_title, numbers))


def _has_links(text: str) -> bool:
    return '"links"' in text and any(isinstance(record.get("links"), list) for _, record in gpu_records(text))


def _has_topology(text: str) -> bool:
    if "(Topology)" not in text:
        return False
    by_card, system = cards(text)
    records: Iterable[Mapping[str, Any]] = (system, *by_card.values())
    return any(key.startswith("(Topology)") for record in records for key in record)


JSON_READERS: Final = (
    Reader(_AMD_SMI_JSON, _has_links, _read_amd_smi),
    Reader(_ROCM_SMI_JSON, _has_topology, _read_rocm_smi),
)


def _cell(value: object) -> str:
    """The value as the plain output prints it; empty if there is none."""
    number = integer(value)
    if number is not None:
        return str(number)
    return text_of(value).upper() or ("N/A" if isinstance(value, str) else "")


def _tables(by_title: Mapping[str, Cells], numbers: list[int]) -> dict[str, Table]:
    """The tables by title. A value names its pair, so one that the document lacks leaves the others where they are."""
    names = tuple(f"GPU{number}" for number in numbers)
    tables: dict[str, Table] = {}
    for title, cells in by_title.items():
        rows = {
            name: tuple("SELF" if a == b else cells.get((a, b), _LACKING) for b in numbers)
            for name, a in zip(names, numbers, strict=True)
        }
        tables[title.lower()] = Table(title, names, rows)
    return tables


def _gaps(by_title: Mapping[str, Cells], numbers: list[int]) -> tuple[str, ...]:
    """A sentence for each table that lacks pairs, in one direction or both."""
    pairs = list(combinations(numbers, 2))
    gaps = []
    for title in _GRADED:
        cells = by_title.get(title, {})
        lacking = [f"GPU{a}-GPU{b}" for a, b in pairs if not ((a, b) in cells and (b, a) in cells)]
        if cells and lacking:
            gaps.append(f"'{title}' lacks {len(lacking)} of {len(pairs)} pairs: {some_of(lacking)}")
    return tuple(gaps)


def _too_many(kind: str, count: int) -> Reading:
    return Reading(kind, "error", problems=(f"{count} devices are listed; a machine has at most {MAX_DEVICES}",))


def _machines() -> tuple[MachineProfile, ...]:
    return (
        MachineProfile(
            "mi300",
            "amd",
            "AMD Instinct MI300X",
            196592,
            grouped(8, "XGMI"),
            cpus=192,
            host_memory=2048,
            first_minor=128,
            nodes=("/dev/dri/card{index}",),
        ),
    )


VENDOR: Final = Vendor(
    name="amd",
    readers=(*READERS, *JSON_READERS, *inventory.READERS),
    tools={"rocm-smi": "rocm-smi --showtopo", "amd-smi": "amd-smi topology"},
    links=(LinkCode("XGMI", "XGMI"),),
    machines=_machines,
    # No variable selects devices: ROCm uses every GPU whose render node the container has, counted from 0.
    container_needs=NeedsRule(
        node="/dev/dri/renderD{number}",
        control=("/dev/kfd",),
        cdi="amd.com/gpu",
        named_by="index",
        # Other graphics devices have render nodes too; a guess would open another device.
        first=None,
    ),
    runtime_variable="AMD_VISIBLE_DEVICES",
)
